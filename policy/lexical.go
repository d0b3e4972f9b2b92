package policy

import "strings"

// What sed and awk have in common: their program is one word, and they find the
// end of a regular expression by rules on which their implementations differ.

// regexEnd is the position of the delimiter that ends the regular expression at
// text[i:], or the reason why it cannot be found. All readers skip a backslash and
// what follows it. Some read a delimiter in brackets literally, so no bracket may
// be open at the first one, in any way to read brackets.
func regexEnd(text string, i int, delimiter byte) (end int, what string) {
	for end = i; end < len(text) && text[end] != delimiter; end++ {
		if text[end] == '\\' {
			end++
		}
		if end >= len(text) || text[end] == '\n' {
			return end, "a regular expression that continues on the next line"
		}
	}
	if end >= len(text) {
		return end, "a regular expression without an end"
	}
	for reading := range brackets(1 << 3) {
		if reading.open(text[i:end]) {
			return end, "a delimiter in brackets, which programs read differently (write it as \\" + string(delimiter) + ")"
		}
	}
	return end, ""
}

// brackets are the ways to read a bracket expression.
type brackets uint8

const (
	firstCloses  brackets = 1 << iota // []a] ends at its first bracket
	escapes                           // a backslash in it escapes the next character
	namedClasses                      // [:alpha:] in it has brackets of its own
)

// open reports whether a bracket is still open at the end.
func (b brackets) open(regex string) bool {
	for i := 0; i < len(regex); i++ {
		switch regex[i] {
		case '\\':
			i++
		case '[':
			n := b.length(regex[i:])
			if n < 0 {
				return true
			}
			i += n
		}
	}
	return false
}

// length is the length of the bracket expression, or -1.
func (b brackets) length(text string) int {
	first := 1
	if strings.HasPrefix(text[1:], "^") {
		first = 2
	}
	for i := first; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && b&escapes != 0:
			i++
		case c == '[' && b&namedClasses != 0 && i+1 < len(text) && strings.IndexByte(":.=", text[i+1]) >= 0:
			end := strings.Index(text[i+2:], text[i+1:i+2]+"]")
			if end >= 0 {
				i += end + 3
			}
		case c == ']' && (i > first || b&firstCloses != 0):
			return i
		}
	}
	return -1
}

// texts are the possible texts of a word whose only unknown parts are numbers: a
// number may be negative, and is empty where the counting program is missing.
func (w word) texts() []string {
	if w.static {
		return []string{w.text}
	}
	if w.form == "" || w.splits || w.globs || strings.Count(w.form, "\x00") > 3 {
		return nil
	}
	texts := []string{w.form}
	for strings.Contains(texts[0], "\x00") {
		var filled []string
		for _, number := range []string{"7", "", "-7"} {
			for _, text := range texts {
				filled = append(filled, strings.Replace(text, "\x00", number, 1))
			}
		}
		texts = filled
	}
	return texts
}
