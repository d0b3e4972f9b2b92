package view

import (
	"fmt"
	"strconv"

	"github.com/hinshun/vt10x"

	"belljar/sandbox"
)

// color is a cell's: 0 is the terminal's own, else a palette's or a mixed one.
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

// attribute bits, as vt10x has them in a glyph's Mode. It shows bold as a bright
// color and keeps nothing of which was meant, so its blink stands for bold here.
const (
	inverse   = 1 << 0
	underline = 1 << 1
	italic    = 1 << 4
	bold      = 1 << 5

	attributes = inverse | underline | italic | bold
)

// style is how a cell looks.
type style struct {
	fg, bg     color
	attributes uint8
}

// erased is how the style's eraser leaves a cell.
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

// vt10x has one number for a palette's color and a mixed one: #000007 is palette
// color 7. So the mixed #0000nn is written as #0001nn, and those, which hardly anyone
// mixes, are #0002nn from the beginning: one step of 255 greener.
const darkPlace = 0x000100

func mixed(r, g, b int) color {
	if r == 0 && g == 1 {
		g = 2
	}
	return mixedColor | color(r<<16|g<<8|b)
}

// sequence appends what changes vt10x's pen to the style. It is short: vt10x takes
// 100 ns for each byte of it.
func (s style) sequence(b []byte, known bool, from style) []byte {
	b = append(b, "\x1b["...)
	if s == (style{}) {
		return append(b, 'm')
	}
	if !known || from != (style{}) {
		b = append(b, "0;"...)
	}
	for _, a := range [...]struct {
		bit  uint8
		code string
	}{{bold, "5;"}, {italic, "3;"}, {underline, "4;"}, {inverse, "7;"}} {
		if s.attributes&a.bit != 0 {
			b = append(b, a.code...)
		}
	}
	b = s.fg.sequence(b, 30)
	b = s.bg.sequence(b, 40)
	b[len(b)-1] = 'm'
	return b
}

func (c color) sequence(b []byte, base int64) []byte {
	value := int64(c & colorValue)
	number := func(n int64) { b = append(strconv.AppendInt(b, n, 10), ';') }
	switch {
	case c == 0:
	case c&paletteColor != 0 && value < 8:
		number(base + value)
	case c&paletteColor != 0:
		number(base + 8)
		number(5)
		number(value)
	default:
		if value < darkPlace {
			value += darkPlace
		}
		number(base + 8)
		number(2)
		number(value >> 16)
		number(value >> 8 & 0xff)
		number(value & 0xff)
	}
	return b
}

// styleOf reads a cell. vt10x has the colors of an inverse one exchanged.
func styleOf(g vt10x.Glyph) style {
	s := style{fg: colorOf(g.FG), bg: colorOf(g.BG), attributes: uint8(g.Mode & attributes)}
	if s.attributes&inverse != 0 {
		s.fg, s.bg = s.bg, s.fg
	}
	return s
}

func colorOf(c vt10x.Color) color {
	switch {
	case c >= 1<<24:
		return 0
	case c < 256:
		return paletteColor | color(c)
	case c < darkPlace+0x100:
		return mixedColor | color(c-darkPlace)
	}
	return mixedColor | color(c)
}
