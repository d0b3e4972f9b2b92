package policy

import (
	"slices"
	"strings"
)

var sedOptions = newGrammar("n,quiet,silent e,expression: f,file:!o E,r,regexp-extended s,separate z,null-data u,unbuffered l,line-length: b,binary posix debug sandbox follow-symlinks i,in-place? I?!W help version a")

func init() { programs["sed"] = sed }

// sed runs commands (e), and reads and writes files (r, w), from its script.
func sed(c *call) {
	p := c.parse(sedWords(c.words[1:]), sedOptions)
	scripts := []word{}
	files := p.operands
	for _, o := range p.options {
		switch {
		case o.name == "expression" && len(files) > 0 && o.value.start > files[0].start: // if options end at the first operand, that is the script
			c.unknown("an -e after the first file", o.value)
			fallthrough
		case o.name == "expression":
			scripts = append(scripts, o.value)
		case o.name == "line-length" && !o.value.number && !isDigits(o.value.text): // which BSD's -l does not accept
			c.unknown("the line length of sed", o.value)
		}
	}
	if len(scripts) == 0 && !p.has("file") && len(files) > 0 {
		scripts, files = files[:1], files[1:]
	}
	c.editInPlace(p, files)
	for _, script := range scripts {
		c.sedScript(script)
	}
}

// sedWords reads "${n}p" as no option: if the number is negative, sed
// refuses it.
func sedWords(words []word) []word {
	words = slices.Clone(words)
	for i, w := range words {
		isOption := func(text string) bool { return strings.HasPrefix(text, "-") && !strings.HasPrefix(text, "-7") }
		if texts := w.texts(); !w.static && w.text == "" && texts != nil && !slices.ContainsFunc(texts, isOption) {
			words[i].number = true
		}
	}
	return words
}

func (c *call) sedScript(script word) {
	texts := script.texts()
	if texts == nil {
		c.unknown("the script of sed", script)
	}
	for _, text := range texts {
		r := &sedReader{}
		r.read(text)
		if r.what != "" {
			c.unknown("sed's script: "+r.what, script)
		}
		if r.runs {
			c.opaque("runs commands (sed e)", script, 0)
		}
		for _, file := range r.writes {
			c.write(word{text: file, static: script.static, start: script.start, end: script.end, inner: -1}, 0)
		}
	}
}

// editInPlace is sed -i: it writes its files, and with a suffix others next to
// them, or elsewhere. It writes the target of a link only with --follow-symlinks.
func (c *call) editInPlace(p *parsed, files []word) {
	if !p.has("in-place") {
		return
	}
	for _, o := range p.options {
		if o.name == "in-place" && o.has || o.name == "follow-symlinks" {
			c.writeSomewhere("writes by option "+quoteShort("--"+o.name), c.words[0], 0)
			return
		}
	}
	for _, file := range files {
		c.write(file, 0)
	}
}
