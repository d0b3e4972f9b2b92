package policy

import (
	"strconv"
	"strings"
	"unicode"
)

// quoteShort quotes a name, and lists after it the characters that are not ASCII:
// some look like others.
func quoteShort(text string) string {
	text = oneLine(text)
	more := ""
	if len(text) > 60 {
		text, more = strings.ToValidUTF8(text[:57], ""), "…"
	}
	quoted := "\"" + text + more + "\""
	if strings.ContainsFunc(text, func(r rune) bool { return r > unicode.MaxASCII }) {
		quoted += " (" + strconv.QuoteToASCII(text) + ")"
	}
	return quoted
}

// looksOther matches a name that contains letters which look like others.
func looksOther(text string) bool {
	isASCII := func(r rune) bool { return r <= unicode.MaxASCII && unicode.IsLetter(r) }
	isOther := func(r rune) bool { return r > unicode.MaxASCII && unicode.IsLetter(r) && !isAccented(r) }
	return strings.ContainsFunc(text, isASCII) && strings.ContainsFunc(text, isOther)
}

// isAccented matches é and similar letters, up to the end of Latin Extended-A.
func isAccented(r rune) bool { return r >= 0xC0 && r < 0x180 }
