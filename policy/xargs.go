package policy

import (
	"slices"
	"strings"
)

var xargsOptions = newGrammar("0,null a,arg-file: d,delimiter: E: e,eof? I: i,replace? L: l,max-lines? n,max-args: P,max-procs: p,interactive r,no-run-if-empty s,max-chars: t,verbose x,exit o,open-tty process-slot-var: show-limits help version @ordered")

// xargs adds words that are known only at run time, or inserts them into others.
func xargs(c *call) {
	p := c.parse(c.words[1:], xargsOptions)
	words := slices.Clone(p.operands)
	c.wrapper = true
	if len(words) == 0 {
		return // it runs echo
	}
	replace, adds := "", false
	for _, o := range p.options {
		switch o.name {
		case "L", "max-lines", "max-args": // before or after -I, the last one counts (findutils)
			adds = adds || o.name != "max-args" || !o.value.is("1")
		case "I", "i", "replace":
			replace = "{}"
			if o.has {
				replace = o.value.text
			}
			if o.has && !o.value.static || replace == "" {
				c.s.hidden("what xargs replaces", c.span())
				return
			}
		case "process-slot-var":
			c.env = append(c.env, o.value.text)
		}
	}
	if replace != "" {
		c.run(substitute(words, replace, ""))
		if !adds {
			return
		}
	}
	last := words[len(words)-1]
	c.run(append(words, word{splits: true, inner: -1, start: last.start, end: last.end}))
}

// substitute makes words unknown from the mark on; only the prefix before it is
// known.
func substitute(words []word, mark, prefix string) []word {
	words = slices.Clone(words)
	for i, w := range words {
		if !w.static { // the mark may also be in the unknown part
			words[i].noBracket, words[i].notConn, words[i].noDash, words[i].form = false, false, false, ""
			words[i].number = w.number && !isDigits(mark[:1])
			words[i].path = w.path && mark[0] != '/'
		}
		if at := markIn(w, mark); at >= 0 {
			words[i].static, words[i].noBracket, words[i].notConn, words[i].noDash, words[i].form, words[i].inner = false, false, false, false, "", -1
			if words[i].text = w.text[:at]; at == 0 {
				words[i].text = prefix
			}
		}
	}
	return words
}

// markIn is where the mark is in the known part of the word, or may begin at its
// end, or -1.
func markIn(w word, mark string) int {
	for i := range len(w.text) {
		if rest := w.text[i:]; strings.HasPrefix(rest, mark) || !w.static && strings.HasPrefix(mark, rest) {
			return i
		}
	}
	return -1
}
