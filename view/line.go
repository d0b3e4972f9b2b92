package view

import (
	"bytes"
	"unicode/utf8"
)

// lineReader reads one line after the other. While only its end changes,
// it is text; the first redraw turns it into a row of cells.
type lineReader struct {
	keep  *keeper
	limit int // characters

	text  []byte
	seams []seam // of text
	chars int    // of text
	cr    bool   // a \r came after text; it is ignored before a line end

	celled  bool
	row     row
	column  int
	redrawn bool   // by a \r, a backspace or a cursor movement
	carry   weight // the weight of invisible bytes, for the next character
	before  rune   // the character to which a mark would belong, or 0

	sequence sequence
	out      []byte
}

// seam is a character of a line's text that represents other bytes than its own.
type seam struct {
	at int
	w  weight
}

func newLineReader(k *keeper, chars int64) *lineReader {
	if chars <= 0 {
		chars = maxLineChars
	}
	// No more of a line can be shown than of the whole text, at its beginning or at
	// its end: the keeper omits the part between.
	limit := int(min(chars, maxLineChars, 2*k.bytes))
	return &lineReader{keep: k, limit: limit, row: row{headMax: limit - limit/2, tailMax: limit / 2}}
}

// utf8 reads p, and returns how much of it: a rune at its end may be unfinished.
func (l *lineReader) utf8(p []byte, last bool) int {
	for i := 0; i < len(p); {
		if n := l.whole(p[i:]); n > 0 {
			i += n
			continue
		}
		if n := l.span(p[i:]); n > 0 {
			i += n
			continue
		}
		if p[i] >= utf8.RuneSelf && !last && !utf8.FullRune(p[i:]) {
			return i
		}
		r, size := utf8.DecodeRune(p[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			l.invalid(p[i])
		case r == '\n':
			l.end(weight{1, 1})
		default:
			l.rune(r, weight{bytes: int64(size)})
		}
		i += size
	}
	return len(p)
}

var lineEnd = []byte{'\n'}

// whole passes on the complete plain lines at the beginning of p: most text is such.
func (l *lineReader) whole(p []byte) int {
	if l.celled || l.cr || len(l.text) > 0 || l.carry != (weight{}) || l.sequence.unfinished() {
		return 0
	}
	n := 0
	for i := 0; i < len(p); {
		c := p[i]
		if c == '\n' {
			if i-n > l.limit {
				break
			}
			n = i + 1
		} else if !plain[c] {
			r, size := utf8.DecodeRune(p[i:])
			if c < utf8.RuneSelf || !ordinary(r) {
				break
			}
			i += size
			continue
		}
		i++
	}
	if n > 0 {
		l.keep.plain(p[:n])
	}
	return n
}

// span reads the plain characters at the beginning of p.
func (l *lineReader) span(p []byte) int {
	if l.sequence.unfinished() || l.cr {
		return 0
	}
	n := 0
	for n < len(p) && plain[p[n]] && (!l.celled || p[n] != '\t') {
		n++
	}
	if n == 0 {
		return 0
	}
	if l.carry != (weight{}) {
		l.rune(rune(p[0]), weight{bytes: 1})
		return 1
	}
	if !l.celled && l.chars+n <= l.limit {
		l.text = append(l.text, p[:n]...)
		l.chars += n
	} else {
		l.toCells()
		if tab := bytes.IndexByte(p[:n], '\t'); tab > 0 {
			n = tab
		}
		l.column = l.row.ascii(l.column, p[:n])
	}
	l.before = rune(p[n-1])
	return n
}

// decoded reads a character that was decoded from bytes of that weight.
func (l *lineReader) decoded(r rune, w weight) {
	switch r {
	case '\n':
		l.end(w)
	case noRune:
		l.carry.add(w)
	default:
		l.rune(r, w)
	}
}

// rune reads any character except a line end.
func (l *lineReader) rune(r rune, w weight) {
	switch {
	case l.sequence.unfinished() && l.inSequence(r, w):
	case r < ' ' || r >= 0x7F && r < 0xA0:
		l.control(r, w)
	case !visible(l.before, r):
		l.escape(escaped(r), w)
	default:
		l.write(r, w)
	}
}

// invalid reads a byte that is no part of a character. Some terminals read it
// as an eight-bit control character.
func (l *lineReader) invalid(b byte) {
	w := weight{bytes: 1}
	switch {
	case l.sequence.unfinished() && l.inSequence(rune(b), w):
	case introduces(rune(b)):
		l.begin(rune(b), w)
	default:
		l.escape(escapedByte(b), w)
	}
}

// escape writes the visible escape of a character.
func (l *lineReader) escape(text string, w weight) {
	for _, r := range text {
		l.write(r, w)
		w = weight{}
	}
	l.before = 0
}
