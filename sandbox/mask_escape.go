package sandbox

import (
	"bytes"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// escape is a way to write a character otherwise, which begins with that byte.
type escape struct {
	first byte
	// decode appends what p, which begins so, begins with: n bytes of it. n is 0
	// if that depends on what comes next, which it does not if this is the last.
	// What is no escape is one byte.
	decode func(to, p []byte, last bool) (n int, value []byte)
}

var (
	urlEscape   = escape{'%', decodeURL}        // %2F
	slashEscape = escape{'\\', decodeBackslash} // \/ and \u002F, as in JSON and most languages; \& as in a shell
)

func decodeURL(to, p []byte, last bool) (int, []byte) {
	value, n, whole := hexDigits(p[1:], 2)
	switch {
	case whole:
		return 3, append(to, byte(value))
	case n == len(p)-1 && !last:
		return 0, to
	}
	return 1, append(to, p[0])
}

// hexDigits reads that many, or tells how many there are.
func hexDigits(p []byte, most int) (value rune, n int, whole bool) {
	for n < min(most, len(p)) {
		digit, ok := unhex(p[n])
		if !ok {
			break
		}
		value = value<<4 | rune(digit)
		n++
	}
	return value, n, n == most
}

func unhex(b byte) (value byte, ok bool) {
	switch {
	case '0' <= b && b <= '9':
		return b - '0', true
	case 'a' <= b|0x20 && b|0x20 <= 'f':
		return b | 0x20 - 'a' + 10, true
	}
	return 0, false
}

func decodeBackslash(to, p []byte, last bool) (int, []byte) {
	switch {
	case len(p) == 1 && !last:
		return 0, to
	case len(p) == 1:
		return 1, append(to, p[0])
	case p[1] == 'u':
		return decodeUnicode(to, p, last)
	}
	if b, ok := backslashed(p[1]); ok {
		return 2, append(to, b)
	}
	return 1, append(to, p[0])
}

// backslashed is what a backslash and that byte stand for.
func backslashed(b byte) (byte, bool) {
	if i := strings.IndexByte("bfnrt", b); i >= 0 {
		return "\b\f\n\r\t"[i], true
	}
	letter := 'a' <= b|0x20 && b|0x20 <= 'z'
	return b, b < utf8.RuneSelf && !letter && (b < '0' || b > '9')
}

// decodeUnicode reads \u00e4, or two of them that are one character.
func decodeUnicode(to, p []byte, last bool) (int, []byte) {
	const size = len(`\u00e4`)
	value, n, whole := hexDigits(p[2:], 4)
	switch {
	case !whole && 2+n == len(p) && !last:
		return 0, to
	case !whole:
		return 1, append(to, p[0])
	case !utf16.IsSurrogate(value) || value >= 0xDC00:
		return size, utf8.AppendRune(to, value)
	}
	next := p[size:]
	if half := string(next); !last && (half == "" || half == `\`) {
		return 0, to
	}
	if bytes.HasPrefix(next, []byte(`\u`)) {
		low, n, whole := hexDigits(next[2:], 4)
		if !whole && 2+n == len(next) && !last {
			return 0, to
		}
		if r := utf16.DecodeRune(value, low); whole && r != utf8.RuneError {
			return 2 * size, utf8.AppendRune(to, r)
		}
	}
	return size, utf8.AppendRune(to, utf8.RuneError)
}
