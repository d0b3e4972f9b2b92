package view

import (
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Safe makes untrusted text safe to show to a person: characters that a terminal would
// act on, show as others or not show become a visible escape
// such as \x1b or \u202e, and an invalid byte \xNN. Line ends, as \n or \r\n,
// and tabs stay, and so do the characters of all scripts with their marks.
func Safe(text string) string {
	if plainPrefix(text) == len(text) {
		return text
	}
	var b strings.Builder
	w := NewSafeWriter(&b)
	_, _ = io.WriteString(w, text) // a Builder never fails
	_ = w.Flush()
	return b.String()
}

var oneLine = strings.NewReplacer("\r", `\r`, "\n", `\n`, "\t", `\t`)

// SafeLine is Safe text that stays on its line and in its column.
func SafeLine(text string) string { return oneLine.Replace(Safe(text)) }

// plain are the characters that are safe in any context.
var plain = func() (table [256]bool) {
	for c := byte(' '); c <= '~'; c++ {
		table[c] = true
	}
	table['\t'] = true
	return table
}()

// plainPrefix is the length of the plain characters and line ends that text
// begins with.
func plainPrefix[T string | []byte](text T) int {
	for i := range len(text) {
		if c := text[i]; !plain[c] && c != '\n' {
			return i
		}
	}
	return len(text)
}

const joiner = '\u200d' // it joins two emoji into one

// visible reports whether a reader sees r after before. Private use characters are
// not visible: fonts differ.
func visible(before, r rune) bool {
	switch {
	case r < utf8.RuneSelf:
		return r >= ' ' && r <= '~'
	case ordinary(r):
		return true
	case r == joiner:
		return pictograph(before)
	case unicode.Is(unicode.Variation_Selector, r):
		// One selects the style of the character before. A row of them can hide
		// data in text.
		return before > ' ' && visible(0, before) && (r <= '\ufe0f' || unicode.Is(unicode.Han, before))
	case unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r):
		return false // fillers that look like nothing
	}
	return unicode.IsGraphic(r)
}

// ordinary are frequent characters, for speed: Latin, Cyrillic,
// kana, Han and Hangul letters, their punctuation, arrows and boxes. None of
// them is a mark.
func ordinary(r rune) bool {
	switch {
	case r < 0x2010:
		return r >= 0xC0 && r < 0x250 || r >= 0x400 && r < 0x482
	case r < 0x3000:
		return r < 0x2028 || r >= 0x2190 && r < 0x2400 || r >= 0x2500 && r < 0x27C0
	case r < 0x3100:
		return r < 0x3021 || r >= 0x3041 && r < 0x3097 || r >= 0x30A0
	}
	return r >= 0x4E00 && r < 0xA000 || r >= 0xAC00 && r < 0xD7A4 || r >= 0xFF01 && r < 0xFF5F
}

// pictograph reports whether a joiner may follow: an emoji, with its skin tone or
// its selector.
func pictograph(r rune) bool {
	return r == '\ufe0f' || unicode.Is(unicode.So, r) || r >= '\U0001f3fb' && r <= '\U0001f3ff'
}

// extends reports whether r, if visible, is a part of the character before it.
func extends(r rune) bool {
	return r >= 0x300 && !ordinary(r) && (r == joiner || unicode.Is(unicode.M, r))
}

// joins reports whether r, if visible, is a part of the same character as
// the text before it.
func joins(before, r rune) bool { return extends(r) || before == joiner }

// escaped is r in Go's syntax.
func escaped(r rune) string { return strings.Trim(strconv.QuoteRuneToASCII(r), "'") }

// escapedByte is a byte that is no part of a character.
func escapedByte(b byte) string {
	const digits = "0123456789abcdef"
	return string([]byte{'\\', 'x', digits[b>>4], digits[b&15]})
}

// graphemeCut is the last offset in p, up to n, that does not separate a
// character from its marks, or a rune if there are too many marks. It looks
// only at p.
func graphemeCut(p []byte, n int) int {
	if n >= len(p) {
		return len(p)
	}
	const far = 32
	cut := -1
	for i := n; i >= 0 && n-i < far; i-- {
		if !utf8.RuneStart(p[i]) {
			continue
		}
		if cut < 0 {
			cut = i
		}
		r, _ := utf8.DecodeRune(p[i:])
		if before, _ := utf8.DecodeLastRune(p[:i]); !joins(before, r) {
			return i
		}
	}
	return max(cut, 0)
}
