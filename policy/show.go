package policy

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Programs that print the state of the system, or files, and do more with other
// arguments.
//
// Some look up the address of a host name at a server, which can leak data in
// the name.
func init() {
	for name, prints := range map[string]func(*call) bool{
		"lsof": lsof, "getent": getent, "ip": ipShows, "tput": tput, "zgrep": zgrep, "less": pages, "more": pages, "bat": batPrints,
	} {
		programs[name] = func(c *call) {
			before := len(c.uses)
			if !prints(c) || len(c.uses) > before {
				c.uses = c.uses[:before]
				c.opaque("may do more than print", c.words[0], 1)
			}
		}
	}
	programs["batcat"] = programs["bat"]
}

// asksHost reports whether lsof -i looks up the host after the @.
func asksHost(text string) bool {
	_, host, has := strings.Cut(text, "@")
	return has && !isAddress(strings.Split(host, ":")[0]) && !strings.HasPrefix(host, "[")
}

// getent looks up hosts and networks at a server, but not this host itself.
func getent(c *call) bool {
	for i, w := range c.words[1:] {
		switch {
		case !w.static && i == 0, w.mayBeOption():
			return false
		case i == 0 && !slices.Contains(strings.Fields("passwd group shadow gshadow services protocols rpc aliases initgroups"), w.text):
			return len(c.words) == 2 && w.is("hosts") || len(c.words) == 3 && c.words[2].is("localhost")
		}
	}
	return true
}

// isAddress matches an address or a port, which needs no lookup.
func isAddress(text string) bool {
	return strings.HasPrefix(text, ":") || strings.Trim(text, "0123456789.:/*[]") == ""
}

const ssWords = `state exclude excl dst src dport sport = == != eq ne neq ge geq le leq gt lt >= <= > < ( ) and or not ! & && | || autobound
	established syn-sent syn-recv fin-wait-1 fin-wait-2 time-wait closed close-wait last-ack listening listen closing connected synchronized bucket big all`

// asksNoHost reports whether ss filters by addresses only.
func (c *call) asksNoHost(words []word) bool {
	return !slices.ContainsFunc(words, func(w word) bool {
		return !w.static && !w.number || slices.ContainsFunc(strings.Fields(strings.NewReplacer("(", " ", ")", " ", "=", " ", "!", " ").Replace(w.text)), func(text string) bool {
			return !isAddress(text) && !slices.Contains(strings.Fields(ssWords), text)
		})
	})
}

// lsof has its own option syntax: values are optional, and some options
// begin with a plus. -D writes a cache; -A, -k and -m name kernel files.
func lsof(c *call) bool {
	for i, w := range c.words[1:] {
		switch {
		case !w.static:
			if w.mayBeOption() || !w.number && strings.HasPrefix(c.words[i].text, "-") {
				return false
			}
		case asksHost(w.text) && (strings.HasPrefix(w.text, "-") || strings.HasPrefix(c.words[i].text, "-")):
			return false
		case strings.HasPrefix(w.text, "+"):
			if len(w.text) < 2 || strings.IndexByte("cdDEfLrw", w.text[1]) < 0 {
				return false
			}
		case strings.HasPrefix(w.text, "-"):
			letters := strings.TrimLeft(w.text[1:], "abClnNOPRtUvVwXhE?")
			switch {
			case letters == "" || strings.IndexByte("cdipu", letters[0]) >= 0:
			case strings.IndexByte("FgKLorsSTxZ", letters[0]) < 0 || strings.ContainsAny(letters, "DAkm"): // letters of options without a value
				return false
			}
		}
	}
	return true
}

var ipOptions = newGrammar("@single @ordered 4 6 0 s stats statistics d details o oneline br brief c color? j json p pretty f: family: h human iec t timestamp r resolve N Numeric V Version")

// ipShows accepts `ip addr`, `ip -br link show eth0` and similar. Other words
// change the network, or run programs in another namespace.
func ipShows(c *call) bool {
	words := c.parse(c.words[1:], ipOptions).operands
	if slices.ContainsFunc(words, func(w word) bool { return !w.static || strings.Contains(w.text, "/") }) {
		return false
	}
	switch {
	case len(words) == 0:
		return true
	case !slices.Contains(strings.Fields("a addr address l link r ro route n neigh neighbour ru rule maddr maddress"), words[0].text):
		return false
	case len(words) == 1:
		return true
	}
	// ip reads `ip link s` as set, the first name in its table.
	return slices.Contains(strings.Fields("sh show ls list"), words[1].text) && !slices.ContainsFunc(words[2:], func(w word) bool {
		return slices.Contains([]string{"", "t", "ty", "typ", "type"}, w.text) // type loads a library of that name
	})
}

// tput init and reset run a program that terminfo names.
func tput(c *call) bool {
	if len(c.words) < 2 || !c.words[1].static {
		return false
	}
	harmless := strings.Fields("bold dim smul rmul rev blink sgr0 setaf setab op cols lines colors el el1 ed clear cup civis cnorm sc rc")
	return slices.Contains(harmless, c.words[1].text) && !slices.ContainsFunc(c.words[2:], func(w word) bool { return !w.number && !isDigits(w.text) })
}

// zgrep is a script. Before gzip 1.12 a file's name could make it write files (CVE-2022-1271).
func zgrep(c *call) bool {
	return !slices.ContainsFunc(c.words[1:], func(w word) bool { return !w.static || strings.ContainsAny(w.text, "\n|&;") })
}

var pageOptions = newGrammar("e E F,quit-if-one-screen i I M N,LINE-NUMBERS n,line-numbers q,quiet r,raw-control-chars R,RAW-CONTROL-CHARS s,squeeze-blank-lines S,chop-long-lines X,no-init d f c p u @numbers")

// pages allows less and more with output to a pipe, where they read no
// keys and only copy. On a terminal, typing "!id" runs id.
func pages(c *call) bool {
	words := c.parse(c.words[1:], pageOptions).operands
	return c.piped && !slices.ContainsFunc(words, func(w word) bool { return strings.HasPrefix(w.text, "+") || !w.static && !w.noDash && !w.path })
}

// batPrints: bat starts a pager only on a terminal.
var batOptions = newGrammar("n,number p,plain l,language: r,line-range: A,show-all color: decorations: style: theme: wrap: H,highlight-line: paging: P h,help V,version")

func batPrints(c *call) bool {
	p := c.parse(c.words[1:], batOptions)
	never := func(o given) bool { return o.name == "P" || o.name == "paging" && o.value.is("never") }
	return c.piped || len(p.options) > 0 && never(p.options[len(p.options)-1])
}

// pipedOut reports whether a command's output certainly goes into its pipe.
func pipedOut(redirs []*syntax.Redirect) bool {
	return !slices.ContainsFunc(redirs, func(r *syntax.Redirect) bool {
		return (r.N == nil || r.N.Value != "2") && r.Op != syntax.RdrIn && r.Op != syntax.Hdoc && r.Op != syntax.DashHdoc && r.Op != syntax.WordHdoc
	})
}
