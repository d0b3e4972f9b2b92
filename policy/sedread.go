package policy

import "strings"

// sedReader reads a script as GNU sed 4.9, busybox 1.35 and POSIX do, and reports
// where they differ. It goes by lines; a line that ends in
// an odd number of backslashes continues in the next: for busybox in every command,
// for others in text and replacements. Elsewhere it is refused here. So what
// is text to one and a command to another is judged as a command.
type sedReader struct {
	text   string // the current line
	at     int
	runs   bool
	writes []string
	what   string
}

func (r *sedReader) read(script string) {
	for _, line := range sedLines(script) {
		if trailingBackslashes(line)%2 == 1 {
			r.what = "a script that continues in the next -e or -f"
		}
		r.text, r.at = line, 0
		for r.more() {
			r.address()
			r.skip(" \t")
			if r.peek() == ',' {
				r.at++
				r.skip(" \t")
				r.address()
			}
			r.skip(" \t!")
			if r.what == "" {
				r.command()
			}
		}
	}
}

// sedLines are the lines of a script, each with its continuation lines.
func sedLines(script string) (lines []string) {
	start := 0
	for i := range len(script) {
		if script[i] == '\n' && trailingBackslashes(script[start:i])%2 == 0 {
			lines, start = append(lines, script[start:i]), i+1
		}
	}
	return append(lines, script[start:])
}

func trailingBackslashes(text string) int {
	return len(text) - len(strings.TrimRight(text, "\\"))
}

// more skips what may stand between commands, and reports whether a command follows.
func (r *sedReader) more() bool {
	r.skip(" \t;")
	return r.what == "" && r.at < len(r.text)
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

// rest reads the rest of the line, which must not continue in the next.
func (r *sedReader) rest(what string) string {
	rest := r.text[r.at:]
	r.at = len(r.text)
	if strings.Contains(rest, "\n") {
		r.what = what + " that continues on the next line"
	}
	return rest
}

// address reads a line number, $, a pattern, or GNU's first~step, +N and ~N. No
// sed accepts a negative one.
func (r *sedReader) address() {
	switch r.peek() {
	case '/':
		r.pattern()
	case '\\':
		r.at++
		r.pattern()
	default:
		r.skip("0123456789$~+-")
		return
	}
	r.skip("IM")
}

// sedDelimiters are those without another meaning in a script.
const sedDelimiters = "/|,:#%@!~+=_;\""

// pattern reads a regular expression between delimiters, up to the second.
func (r *sedReader) pattern() {
	delimiter := r.peek()
	if strings.IndexByte(sedDelimiters, delimiter) < 0 {
		r.what = "a delimiter other than one of " + sedDelimiters
		return
	}
	end, what := regexEnd(r.text, r.at+1, delimiter)
	r.at, r.what = end+1, what
}

func (r *sedReader) command() {
	c := r.peek()
	r.at++
	switch c {
	case '{', '}':
		return
	case '=', 'd', 'D', 'g', 'G', 'h', 'H', 'n', 'N', 'p', 'P', 'x', 'z', 'F':
	case 'q', 'Q', 'l', 'L':
		r.skip(" \t")
		r.skip("0123456789")
	case 'b', 't', 'T', ':':
		r.label()
	case 'a', 'i', 'c':
		r.addedText()
		return
	case 's':
		r.substitution()
	case 'y':
		r.twoPatterns()
	case '#':
		r.rest("a comment")
		return
	case 'r', 'R':
		r.fileName()
		return
	case 'w', 'W':
		r.writes = append(r.writes, r.fileName())
		return
	case 'e':
		r.runs = true
		r.rest("a command")
		return
	default:
		r.what = "command " + quoteShort(string(c))
		return
	}
	if r.skip(" \t"); strings.IndexByte("\n;}#", r.peek()) < 0 && r.what == "" {
		r.what = "more after a command"
	}
}

// label reads a label. GNU ends it at a space, semicolon or brace, busybox not at
// a brace, and others at the end of the line, which may hide the rest from
// them. It must not hide where that begins: busybox reads "a}s/x/ w f" as a label
// and a command, and GNU reads "a}i\\" as one that inserts the next line.
func (r *sedReader) label() {
	r.skip(" \t")
	for r.at < len(r.text) && (r.text[r.at] == '_' || isAlnum(r.text[r.at])) {
		r.at++
	}
	after := strings.TrimLeft(r.text[r.at:], "}")
	if strings.Contains(after, "\n") || after != "" && strings.IndexByte(" \t;", after[0]) < 0 {
		r.what = "a label that sed versions end differently"
	}
}

// fileName reads up to the end of the line, as in POSIX.
func (r *sedReader) fileName() string {
	name := strings.TrimLeft(r.rest("a file name"), " \t")
	if strings.ContainsAny(name, ";}\\") {
		r.what = "a file name with a semicolon, brace or backslash"
	}
	return name
}

// addedText reads the text of a, i and c, which continues to the end of the line
// and of its continuation lines: after a backslash and a newline, or on the
// same line.
func (r *sedReader) addedText() {
	r.skip(" \t")
	if strings.TrimLeft(strings.TrimPrefix(r.text[r.at:], "\\"), " \t\n") == "" {
		r.what = "a text that is in another -e"
	}
	r.at = len(r.text)
}

func (r *sedReader) twoPatterns() {
	delimiter := r.peek()
	if r.pattern(); r.what == "" {
		r.replacement(delimiter)
	}
}

// replacement has no bracket expressions, and may continue in the next line.
func (r *sedReader) replacement(delimiter byte) {
	for ; r.at < len(r.text); r.at++ {
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
			r.writes = append(r.writes, r.fileName())
			return
		case strings.IndexByte("gpiImM0123456789", c) < 0:
			return
		}
		r.at++
	}
}
