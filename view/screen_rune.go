package view

import (
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
)

// maxMarks is the number of marks kept of one character.
const maxMarks = 8

// widths do not depend on the locale.
var widths = runewidth.Condition{StrictEmojiNeutral: true}

// width is the number of cells of a rune: 0 for one that belongs to the one before.
func width(r rune) int {
	if r < 0x300 {
		return 1
	}
	return widths.RuneWidth(r)
}

// Width is the number of terminal cells of a line of Safe text.
func Width(text string) int { return widths.StringWidth(text) }

// shown is a visible rune, or a replacement: for controls, for characters that change
// the direction of text, and for invisible ones. It takes one cell, which Safe's
// escapes would not.
func shown(before, r rune) rune {
	if visible(before, r) {
		return r
	}
	return utf8.RuneError
}
