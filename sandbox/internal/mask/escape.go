package mask

import (
	"bytes"
	"html"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// escape is an encoding of characters that begins with that byte.
type escape struct {
	first byte
	// decode appends the decoded beginning of p: n bytes of it. n is 0
	// if that depends on the next bytes, unless this is the last.
	// A byte that is no escape is copied.
	decode func(to, p []byte, last bool) (n int, value []byte)
}

var (
	urlEscape   = escape{'%', decodeURL}        // %2F
	slashEscape = escape{'\\', decodeBackslash} // \/ and \u002F, as in JSON and most languages; \& and \057 as in a shell
	markEscape  = escape{'&', decodeMarkup}     // &#x2f; and &sol;
)

// maxTimes is about how many times a character may be encoded: there must
// be a bound on the held bytes.
const maxTimes = 32

// decodeURL reads %2f, and %252f as the same.
func decodeURL(to, p []byte, last bool) (int, []byte) {
	at := 1
	for at < 2*maxTimes-1 && bytes.HasPrefix(p[at:], []byte("25")) {
		at += 2
	}
	value, n, whole := hexDigits(p[at:], 2)
	switch {
	case !whole && at+n == len(p) && !last:
		return 0, to
	case whole:
		return at + 2, append(to, byte(value))
	case at > 1:
		return at, append(to, p[0])
	}
	return 1, append(to, p[0])
}

// hexDigits reads that many digits, or returns how many there are.
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

// decodeMarkup reads &amp; and &#xe4;, none of which is longer than maxEntity.
func decodeMarkup(to, p []byte, last bool) (int, []byte) {
	for i, b := range p[1:min(len(p), maxEntity)] {
		letter := 'a' <= b|0x20 && b|0x20 <= 'z' || '0' <= b && b <= '9' || b == '#'
		switch {
		case b == ';':
			text := string(p[:i+2])
			if value := html.UnescapeString(text); value != text {
				return i + 2, append(to, value...)
			}
			return 1, append(to, p[0])
		case !letter:
			return 1, append(to, p[0])
		}
	}
	if len(p) < maxEntity && !last {
		return 0, to
	}
	return 1, append(to, p[0])
}

const maxEntity = 34 // &CounterClockwiseContourIntegral;

// decodeBackslash reads \n, and \\n as the same: it may be JSON within JSON. So
// it never outputs a backslash, and the compared patterns contain none.
func decodeBackslash(to, p []byte, last bool) (int, []byte) {
	run := 1
	for run < min(len(p), maxTimes) && p[run] == '\\' {
		run++
	}
	switch {
	case run == len(p) && !last:
		return 0, to
	case run == len(p) || p[run] == '\\':
		return 1, append(to, p[0])
	}
	n, value := decodeOne(to, p[run-1:], last)
	switch n {
	case 0:
		return 0, to
	case 1:
		return run, to // it is no escape
	}
	return run - 1 + n, value
}

// decodeOne reads one escape with one backslash, or a backslash alone if n is 1.
func decodeOne(to, p []byte, last bool) (n int, value []byte) {
	switch b := p[1]; b {
	case '\n':
		return 2, to // the line continues: from sed -n l
	case 'u':
		if len(p) > 2 && p[2] == '{' {
			return decodeBraces(to, p, last)
		}
		return decodeUnicode(to, p, last)
	case 'U':
		return decodeDigits(to, p, last, 8, 8)
	case 'x':
		return decodeDigits(to, p, last, 1, 2)
	case '0', '1', '2', '3', '4', '5', '6', '7':
		return decodeOctal(to, p, last)
	}
	if b, ok := backslashed(p[1]); ok {
		return 2, append(to, b)
	}
	return 1, append(to, p[0])
}

// backslashed is the character for a backslash and that byte.
func backslashed(b byte) (value byte, ok bool) {
	if i := strings.IndexByte("abfnrtveE", b); i >= 0 {
		return "\a\b\f\n\r\t\v\x1b\x1b"[i], true
	}
	letter := 'a' <= b|0x20 && b|0x20 <= 'z'
	return b, b < utf8.RuneSelf && !letter && (b < '0' || b > '9')
}

// decodeOctal reads \303, which has up to three digits.
func decodeOctal(to, p []byte, last bool) (int, []byte) {
	value, n := 0, 1
	for ; n < min(len(p), 4) && '0' <= p[n] && p[n] <= '7'; n++ {
		value = value<<3 | int(p[n]-'0')
	}
	if n == len(p) && n < 4 && !last {
		return 0, to
	}
	return n, append(to, byte(value))
}

// decodeDigits reads \xe4, which is a byte, and \U000000e4, a character.
func decodeDigits(to, p []byte, last bool, least, most int) (int, []byte) {
	value, n, whole := hexDigits(p[2:], most)
	switch {
	case !whole && 2+n == len(p) && !last:
		return 0, to
	case n < least:
		return 1, append(to, p[0])
	case most == 2:
		return 2 + n, append(to, byte(value))
	}
	return 2 + n, utf8.AppendRune(to, value)
}

// decodeBraces reads \u{e4}, of one to six digits.
func decodeBraces(to, p []byte, last bool) (int, []byte) {
	const first = len(`\u{`)
	value, n, _ := hexDigits(p[first:], 6)
	switch {
	case first+n == len(p) && !last:
		return 0, to
	case n == 0 || first+n == len(p) || p[first+n] != '}':
		return 1, append(to, p[0])
	}
	return first + n + 1, utf8.AppendRune(to, value)
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
	next := size
	for next < min(len(p), size+maxTimes) && p[next] == '\\' {
		next++
	}
	switch {
	case next == len(p) && !last:
		return 0, to
	case next > size && next < len(p) && p[next] == 'u':
		low, n, whole := hexDigits(p[next+1:], 4)
		if !whole && next+1+n == len(p) && !last {
			return 0, to
		}
		if r := utf16.DecodeRune(value, low); whole && r != utf8.RuneError {
			return next + 5, utf8.AppendRune(to, r)
		}
	}
	return size, utf8.AppendRune(to, utf8.RuneError)
}
