package view

import (
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
)

// maxMarks of one character: more are a flood, and not kept.
const maxMarks = 8

// widths are the same wherever this runs, whatever its locale.
var widths = runewidth.Condition{StrictEmojiNeutral: true}

// width is how many cells a rune has: 0 for one that belongs to the one before.
func width(r rune) int {
	if r < 0x300 {
		return 1
	}
	return widths.RuneWidth(r)
}

// Width is how many cells of a terminal a line of Safe text has.
func Width(text string) int { return widths.StringWidth(text) }

// shown is a rune that a reader sees, or what stands for it: controls, what turns
// the text around it and what only a machine reads. It takes one cell, as Safe's
// escapes would not.
func shown(before, r rune) rune {
	if visible(before, r) {
		return r
	}
	return utf8.RuneError
}
