package view

import (
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
)

// A cell of vt10x has one rune. Those of planes 4 to 13, which are not assigned and
// never come from a program, stand for what needs more.
const (
	firstCluster = 0x40000
	wideTail     = 0xdffff // the second cell of a wide character
	maxClusters  = 16 << 10
	maxMarks     = 8 // of one character: more are a flood, and not kept
)

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

// clusters are the characters with marks that a screen has met.
type clusters struct {
	codes map[string]rune
	texts []string
}

// code is the rune that stands for a character with marks, or false if there are
// too many different ones.
func (c *clusters) code(text string) (rune, bool) {
	if code, ok := c.codes[text]; ok {
		return code, true
	}
	if len(c.texts) == maxClusters {
		return 0, false
	}
	if c.codes == nil {
		c.codes = map[string]rune{}
	}
	code := firstCluster + rune(len(c.texts))
	c.codes[text] = code
	c.texts = append(c.texts, text)
	return code, true
}

// text is what a cell's rune stands for, and whether it has two cells.
func (c *clusters) text(r rune) (string, bool) {
	switch {
	case r < ' ' || r == wideTail: // its first half was overwritten
		return " ", false
	case r < 0x300:
		return latin[r], false
	case r >= firstCluster && r < wideTail:
		text := c.texts[r-firstCluster]
		first, _ := utf8.DecodeRuneInString(text)
		return text, width(first) == 2
	}
	return string(r), width(r) == 2
}

// latin are the texts of the runes that most cells have.
var latin = func() (texts [0x300]string) {
	for r := range texts {
		texts[r] = string(rune(r))
	}
	return texts
}()
