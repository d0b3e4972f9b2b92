package policy

import "strings"

var awkOptions = newGrammar("F,field-separator: v,assign: f,file:!o b,characters-as-bytes c,traditional C,copyright d,dump-variables?!W D,debug?!o e,source:!o E,exec:!o g,gen-pot h,help i,include:!o I,trace k,csv l,load:!o L,lint? M,bignum N,use-lc-numeric n,non-decimal-data o,pretty-print?!W O,optimize p,profile?!W P,posix r,re-interval s,no-optimize S,sandbox t,lint-old V,version @ordered")

func init() {
	for _, name := range []string{"awk", "gawk", "mawk", "nawk", "original-awk"} {
		programs[name] = awk
	}
}

// awk programs run commands and write files: system(), |, > and >>.
func awk(c *call) {
	p := c.parse(c.words[1:], awkOptions)
	if p.has("file") || p.has("source") || p.has("exec") || len(p.operands) == 0 {
		return
	}
	for _, file := range p.operands[1:] {
		if strings.HasPrefix(file.text, "/inet") { // gawk's io.c, also where it only reads
			c.opaque("opens a connection", file, 0)
		}
	}
	program := p.operands[0]
	if !program.static {
		c.unknown("the program of awk", program)
		return
	}
	scan := &awkScan{text: program.text}
	if what := scan.does(); what != "" {
		c.opaque(what, program, 0)
	}
}

// awkScan finds what an awk program does besides print. It reads tokens only:
// where it cannot tell a regular expression from a division, it says so.
type awkScan struct {
	text     string
	at       int
	printing bool   // in a print statement, where > writes
	operand  bool   // after a value, where / divides
	last     string // the last name
	parens   []bool // of an if, while or for
}

func (a *awkScan) does() string {
	for a.at < len(a.text) {
		if what := a.token(); what != "" {
			return what
		}
	}
	return ""
}

func (a *awkScan) token() string {
	c, rest := a.text[a.at], a.text[a.at:]
	switch {
	case c == ' ' || c == '\t':
		a.at++
		return ""
	case c == '"' || c == '/' && !a.operand:
		return a.quoted(c)
	case c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z':
		return a.name()
	case c == '#' || c == '\\':
		return "has a comment or continuation, which is not looked into"
	case c == '@':
		return "has an indirect call or a directive"
	case strings.HasPrefix(rest, "||"):
		a.at++
	case c == '|':
		return "pipes to or from a command"
	case c == '>' && a.printing && len(a.parens) == 0:
		return "prints to a file"
	case c == '(' || c == '[':
		a.parens = append(a.parens, c == '(' && (a.last == "if" || a.last == "while" || a.last == "for"))
	case c == ')' || c == ']':
		a.close()
		return ""
	case c == ';' || c == '}' || c == '{', c == '\n' && !a.continued():
		a.printing = false
		if c != ';' {
			a.parens = nil
		}
	case strings.HasPrefix(rest, "++"), strings.HasPrefix(rest, "--"):
		if strings.HasPrefix(strings.TrimLeft(rest[2:], " \t"), "/") {
			return "has a slash that may divide or begin a pattern"
		}
		a.at++
	case c >= '0' && c <= '9' || c == '.':
		a.at, a.operand = a.at+1, true
		return ""
	}
	a.at, a.operand, a.last = a.at+1, false, ""
	return ""
}

// continued tells whether the line goes on after the newline.
func (a *awkScan) continued() bool {
	before := strings.TrimRight(a.text[:a.at], " \t\n")
	return before != "" && strings.IndexByte(",&|", before[len(before)-1]) >= 0
}

func (a *awkScan) close() {
	a.at, a.operand, a.last = a.at+1, true, ""
	if n := len(a.parens); n > 0 {
		a.operand = !a.parens[n-1]
		a.parens = a.parens[:n-1]
	}
}

// quoted passes a string or a regular expression. Awks differ on a slash in
// brackets.
func (a *awkScan) quoted(quote byte) string {
	end := awkEnd(a.text, a.at, quote)
	if end < 0 {
		return "has a string or pattern without an end"
	}
	if q := a.text[a.at:end]; quote == '/' && strings.LastIndexByte(q, '[') > strings.LastIndexByte(q, ']') {
		return "has a regular expression that awks take differently"
	}
	a.at, a.operand, a.last = end, true, ""
	return ""
}

func (a *awkScan) name() string {
	end := a.at
	for end < len(a.text) && (a.text[end] == '_' || isAlnum(a.text[end])) {
		end++
	}
	a.last, a.operand = a.text[a.at:end], true
	a.at = end
	switch a.last {
	case "system", "getline", "extension", "eval", "popen":
		return "calls " + a.last
	case "print", "printf":
		a.printing, a.operand, a.parens = true, false, nil
	case "return", "in", "else", "do", "exit", "case", "if", "while", "for":
		a.operand = false
	}
	return ""
}

func isAlnum(c byte) bool {
	return c >= '0' && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// awkEnd is the place after a string or regular expression that starts at i.
func awkEnd(text string, i int, quote byte) int {
	for i++; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '\n':
			return -1
		case quote:
			return i + 1
		}
	}
	return -1
}
