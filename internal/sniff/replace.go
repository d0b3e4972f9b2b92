package sniff

import (
	"bytes"
	"unicode/utf8"
)

// The encodings of sandbox.Output and sandbox.Event.
const (
	UTF8Plain    = "utf-8" // with NULs
	UTF8Replaced = "utf-8-replaced"
)

// Replace is p as valid UTF-8, decoded as WHATWG does it: U+FFFD replaces each maximal
// part of a character, such as an é of Latin-1, or a character that the end cuts off. The
// encoding says whether there was one; "" means text without NULs.
func Replace(p []byte) (text []byte, encoding string) {
	if utf8.Valid(p) {
		if bytes.IndexByte(p, 0) >= 0 {
			return p, UTF8Plain
		}
		return p, ""
	}
	text = make([]byte, 0, len(p)+len(p)/8)
	for len(p) > 0 {
		r, n := utf8.DecodeRune(p)
		for r == utf8.RuneError && n < len(p) && !utf8.FullRune(p[:n+1]) {
			n++
		}
		text = utf8.AppendRune(text, r)
		p = p[n:]
	}
	return text, UTF8Replaced
}
