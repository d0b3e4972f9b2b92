package view

import (
	"fmt"
	"strconv"

	"belljar/sandbox"
)

// color is a cell's color: 0 is the terminal's default, else one of a palette or RGB.
type color uint32

const (
	paletteColor color = 1 << 24
	mixedColor   color = 2 << 24
	colorValue   color = 1<<24 - 1
)

func (c color) String() string {
	switch c &^ colorValue {
	case paletteColor:
		return "palette:" + strconv.Itoa(int(c&colorValue))
	case mixedColor:
		return fmt.Sprintf("#%06x", int(c&colorValue))
	}
	return ""
}

// The bits of a style's attributes.
const (
	bold = 1 << iota
	italic
	underline
	inverse
)

// style is the appearance of a cell.
type style struct {
	fg, bg     color
	attributes uint8
}

// erased is the style of erased cells.
func (s style) erased() style { return style{bg: s.bg} }

func (s style) span(text string) sandbox.Span {
	return sandbox.Span{
		Text:       text,
		Bold:       s.attributes&bold != 0,
		Italic:     s.attributes&italic != 0,
		Underline:  s.attributes&underline != 0,
		Inverse:    s.attributes&inverse != 0,
		Foreground: s.fg.String(),
		Background: s.bg.String(),
	}
}
