package policy

import "strings"

var sedOptions = newGrammar("n,quiet,silent e,expression: f,file:!o E,r,regexp-extended s,separate z,null-data u,unbuffered l,line-length: b,binary posix debug sandbox follow-symlinks i,in-place? I?!W help version a")

func init() { programs["sed"] = sed }

// sed runs commands (e), and reads and writes files (r, w), from its script.
func sed(c *call) {
	p := c.parse(c.words[1:], sedOptions)
	scripts := []word{}
	for _, o := range p.options {
		if o.name == "expression" {
			scripts = append(scripts, o.value)
		}
	}
	files := p.operands
	if len(scripts) == 0 && !p.has("file") && len(files) > 0 {
		scripts, files = files[:1], files[1:]
	}
	c.editInPlace(p, files)
	for _, script := range scripts {
		if !script.static {
			c.unknown("the script of sed", script)
			continue
		}
		r := &sedReader{text: script.text}
		r.read()
		if r.what != "" {
			c.unknown("sed's script: "+r.what, script)
		}
		if r.runs {
			c.opaque("runs commands (sed e)", script, 0)
		}
		for _, file := range r.writes {
			c.write(word{text: file, static: true, start: script.start, end: script.end, inner: -1}, 0)
		}
	}
}

// editInPlace is sed -i: it writes its files, and with a suffix others beside
// them, or elsewhere. What links lead to it writes only where it is to follow them.
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

// sedReader reads a script as POSIX and GNU sed 4.9 do. What it does not know,
// it says.
type sedReader struct {
	text   string
	at     int
	runs   bool
	writes []string
	what   string
}

func (r *sedReader) peek() byte {
	if r.at < len(r.text) {
		return r.text[r.at]
	}
	return '\n'
}

func (r *sedReader) skip(chars string) {
	for r.at < len(r.text) && strings.IndexByte(chars, r.text[r.at]) >= 0 {
		r.at++
	}
}

func (r *sedReader) read() {
	for r.what == "" {
		r.skip(" \t\n;")
		if r.at >= len(r.text) {
			return
		}
		if r.peek() == '#' {
			r.line()
			continue
		}
		r.address()
		r.skip(" \t")
		if r.peek() == ',' {
			r.at++
			r.skip(" \t")
			r.address()
		}
		r.skip(" \t!")
		r.command()
	}
}

// address reads a line number, $, a pattern, or GNU's first~step, +N and ~N.
func (r *sedReader) address() {
	switch r.peek() {
	case '/':
		r.pattern('/')
	case '\\':
		r.at++
		r.pattern(r.peek())
	default:
		r.skip("0123456789$~+")
		return
	}
	r.skip("IM")
}

// pattern reads up to the next delimiter. In brackets it may stand as itself,
// but not all seds agree.
func (r *sedReader) pattern(delimiter byte) {
	if delimiter == '\\' || delimiter == '\n' || delimiter >= 0x80 {
		r.what = "a delimiter that seds take differently"
		return
	}
	for r.at++; r.at < len(r.text); r.at++ {
		switch r.text[r.at] {
		case '\\':
			r.at++
		case '[':
			if end := bracketEnd(r.text[r.at:]); strings.IndexByte(r.text[r.at:r.at+end], delimiter) >= 0 {
				r.what = "a delimiter in brackets"
				return
			}
		case delimiter:
			r.at++
			return
		}
	}
	r.what = "a pattern without an end"
}

// bracketEnd is the length of a bracket expression such as []a], or of what is
// left.
func bracketEnd(text string) int {
	for i := 1; i < len(text); i++ {
		if text[i] == '[' && i+1 < len(text) && strings.IndexByte(":.=", text[i+1]) >= 0 { // [:alpha:]
			if end := strings.Index(text[i+2:], text[i+1:i+2]+"]"); end >= 0 {
				i += end + 3
				continue
			}
		}
		if text[i] == ']' && i > 1 && text[1:i] != "^" || text[i] == '\n' {
			return i
		}
	}
	return len(text)
}

func (r *sedReader) command() {
	c := r.peek()
	r.at++
	switch c {
	case '{', '}', '=', 'd', 'D', 'g', 'G', 'h', 'H', 'n', 'N', 'p', 'P', 'x', 'z', 'F':
	case 'q', 'Q', 'l', 'L':
		r.skip(" \t0123456789")
	case 'b', 't', 'T', ':':
		r.label()
	case 'a', 'i', 'c':
		r.lines()
	case 's':
		r.substitution()
	case 'y':
		r.twoPatterns()
	case 'r', 'R':
		r.line()
	case 'w', 'W':
		r.writes = append(r.writes, strings.TrimLeft(r.line(), " \t"))
	case 'e':
		r.runs = true
		r.line()
	default:
		r.what = "command " + quoteShort(string(c))
		return
	}
	r.skip(" \t")
	if strings.IndexByte("\n;}#", r.peek()) < 0 && c != '{' && c != '}' {
		r.what = "more after a command"
	}
}

// label reads a label. Where GNU ends it at a semicolon or brace, others do
// not, and what follows on the line must not hide the next one from them:
// busybox takes "a}i\" for a label where GNU inserts the line below.
func (r *sedReader) label() {
	rest := r.line()
	i := strings.IndexAny(rest, ";}")
	if i < 0 {
		return
	}
	if r.at < len(r.text) && strings.Trim(rest[i:], ";} \t") != "" {
		r.what = "a label that seds end differently"
	}
	r.at -= len(rest) - i
}

// line reads the rest of the line.
func (r *sedReader) line() string {
	rest, _, _ := strings.Cut(r.text[min(r.at, len(r.text)):], "\n")
	r.at += len(rest)
	return rest
}

// lines reads text that a backslash continues on the next line.
func (r *sedReader) lines() {
	for {
		line := r.line()
		if !strings.HasSuffix(line, "\\") || r.at >= len(r.text) {
			return
		}
		r.at++
	}
}

func (r *sedReader) twoPatterns() {
	delimiter := r.peek()
	r.pattern(delimiter)
	if r.what == "" {
		r.at--
		r.replacement(delimiter)
	}
}

// replacement has no bracket expressions.
func (r *sedReader) replacement(delimiter byte) {
	for r.at++; r.at < len(r.text); r.at++ {
		switch r.text[r.at] {
		case '\\':
			r.at++
		case delimiter:
			r.at++
			return
		}
	}
	r.what = "a replacement without an end"
}

func (r *sedReader) substitution() {
	r.twoPatterns()
	for r.what == "" {
		switch c := r.peek(); {
		case c == 'e':
			r.runs = true
		case c == 'w':
			r.at++
			r.writes = append(r.writes, strings.TrimLeft(r.line(), " \t"))
			return
		case strings.IndexByte("gpiImM0123456789", c) < 0:
			return
		}
		r.at++
	}
}
