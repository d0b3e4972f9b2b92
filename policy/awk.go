package policy

import "strings"

var awkOptions = newGrammar("F,field-separator: v,assign: f,file:!o b,characters-as-bytes c,traditional C,copyright d,dump-variables?!W D,debug?!o e,source:!o E,exec:!o g,gen-pot h,help i,include:!o I,trace k,csv l,load:!o L,lint? M,bignum N,use-lc-numeric n,non-decimal-data o,pretty-print?!W O,optimize p,profile?!W P,posix r,re-interval s,no-optimize S,sandbox t,lint-old V,version @ordered")

func init() {
	for _, name := range []string{"awk", "gawk", "mawk", "nawk", "original-awk"} {
		programs[name] = awk
	}
}

// awk programs run commands and write files: system(), |, > and >>. gawk opens
// a connection for a file below /inet, also where it only reads (io.c).
func awk(c *call) {
	words := c.words[1:]
	p := c.parse(words, awkOptions)
	c.awkOptions(words[:len(words)-len(p.operands)])
	if p.has("file") || p.has("source") || p.has("exec") || len(p.operands) == 0 {
		return
	}
	for _, file := range p.operands[1:] {
		if file.connects() {
			c.opaque("may open a network connection, as gawk does for files below /inet (write ./ before the name)", file, 0)
		}
	}
	program := p.operands[0]
	texts := program.texts()
	if texts == nil {
		c.unknown("the program of awk", program)
	}
	for _, text := range texts {
		scan := &awkScan{text: text}
		if what := scan.does(); what != "" {
			c.opaque(what, program, 0)
		}
	}
}

// awkOptions refuses what not all awks take for the same words: original-awk
// ignores an option that it does not know, whose value is then its program.
func (c *call) awkOptions(words []word) {
	for i := 0; i < len(words); i++ {
		switch w := words[i]; {
		case strings.HasPrefix(w.text, "-F"), strings.HasPrefix(w.text, "-v"):
			if w.is("-F") || w.is("-v") {
				i++
			}
		case w.static && (len(w.text) == 2 || strings.HasPrefix(w.text, "--")):
			if i+1 < len(words) && (strings.HasPrefix(w.text, "--") || !words[i+1].mayBeOption()) {
				c.unknown("whether the word after "+quoteShort(w.text)+" is its value or the awk program", w)
			}
		default:
			c.unknown("what "+quoteShort(w.text)+" means in each awk version", w)
		}
	}
}
