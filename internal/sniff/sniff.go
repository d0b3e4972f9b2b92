// Package sniff distinguishes text from binary data, and guesses the charset of text.
package sniff

import (
	"bytes"
	"math/bits"
	"strings"
)

const (
	// SniffBytes is how much is judged at once.
	SniffBytes = 4 << 10

	// In the first block one NUL is enough, as for git and grep. Later, after
	// text, a single one is not: text has turned into data only if
	// there are many.
	laterNULs = 64

	// Only the beginning of a later block is searched for control characters: all of
	// it would cost as much as its checksum.
	laterSample   = 512
	laterControls = laterSample / 10
	// A few control bytes are shown as escapes; from this number on their share counts.
	firstControls = 32
)

// Sniffer distinguishes data from text: NULs outside UTF-16 and UTF-32, or a high share
// of control characters. It judges the first SniffBytes by their beginning, and
// each later block of that size separately. The result depends only on the bytes
// written, not on how they were divided. The zero Sniffer is ready.
type Sniffer struct {
	Charset string // the declared charset of text, by Viewer.Charset's name; set before the first Write

	later    bool // the first block is over
	settled  bool // it is data, regardless of what follows
	encoding string
	written  int // of the block
	nuls     int
	controls int
	unit     uint32 // the last four bytes
	bom      uint32 // the first four
	wide     [4]wideCount
}

// wideCount counts signs of the encodings of wideNames.
type wideCount struct{ plain, bad int }

var wideNames = [4]string{"utf-16le", "utf-16be", "utf-32le", "utf-32be"}

// Write never fails.
func (s *Sniffer) Write(p []byte) (int, error) {
	written := len(p)
	for len(p) > 0 && !s.settled {
		part := p[:min(len(p), SniffBytes-s.written)]
		p = p[len(part):]
		switch {
		case !s.later:
			s.first(part)
		case s.unitSize() == 1:
			s.nuls += bytes.Count(part, []byte{0})
			s.controls += countControls(part[:max(0, min(len(part), laterSample-s.written))])
			s.written += len(part)
		default:
			s.units(part)
		}
		if s.written == SniffBytes {
			s.Gap()
		}
	}
	return written, nil
}

// Gap says that bytes are missing here: what follows is judged separately.
func (s *Sniffer) Gap() {
	if s.written == 0 {
		return
	}
	s.settled = s.Binary()
	s.encoding = s.Encoding()
	s.later, s.written, s.nuls, s.controls, s.unit = true, 0, 0, 0, 0
}

// Binary reports whether the bytes written are data. Until the first block is
// full, more bytes may change the answer.
func (s *Sniffer) Binary() bool {
	if s.settled {
		return true
	}
	size := s.unitSize()
	if s.later {
		return s.nuls >= laterNULs || s.controls*size > laterControls
	}
	if size > 1 {
		bad := s.wide[s.wideIndex()].bad
		return bad >= firstControls && bad*10 > s.written/size
	}
	// One byte may be half a character.
	return s.nuls > 0 && s.written > 1 ||
		s.controls >= firstControls && s.controls*10 > s.written
}

// Encoding is the UTF-16 or UTF-32 encoding of the text, by its IANA name
// in lower case, or "" for all others.
func (s *Sniffer) Encoding() string {
	if s.later {
		return s.encoding
	}
	if name := wideCharset(s.Charset); name != "" {
		return name
	}
	if name, _ := s.BOM(); name != "" {
		if name == "utf-8" {
			return ""
		}
		return name
	}
	if i := s.looksWide(); i >= 0 {
		return wideNames[i]
	}
	return ""
}

// BOM is the encoding of the byte order mark, and its length.
func (s *Sniffer) BOM() (encoding string, size int) {
	n := 4
	if !s.later {
		n = min(s.written, 4)
	}
	switch {
	case n == 4 && s.bom == 0xFFFE0000:
		return "utf-32le", 4
	case n == 4 && s.bom == 0x0000FEFF:
		return "utf-32be", 4
	case n >= 3 && s.bom>>8 == 0xEFBBBF:
		return "utf-8", 3
	case n >= 2 && s.bom>>16 == 0xFFFE:
		return "utf-16le", 2
	case n >= 2 && s.bom>>16 == 0xFEFF:
		return "utf-16be", 2
	}
	return "", 0
}

// looksWide is the index of the encoding that matches the NULs of the first block,
// or -1. Latin text has a NUL in each character, other text in its blanks.
func (s *Sniffer) looksWide() int {
	le, be := s.wide[0], s.wide[1]
	for i := 2; i < 4 && s.written >= 4; i++ {
		if c := s.wide[i]; c.bad == 0 && c.plain*2 >= s.written/4 {
			return i
		}
	}
	units := s.written / 2
	fits := func(this, other wideCount) bool {
		share := this.plain*8 >= units
		if units < 8 { // too few to decide
			share = this.plain*2 > units
		}
		return this.plain > 0 && share && this.bad*16 <= this.plain && other.plain*8 <= this.plain
	}
	switch {
	case fits(le, be):
		return 0
	case fits(be, le):
		return 1
	}
	return -1
}

func (s *Sniffer) first(p []byte) {
	for _, b := range p {
		if s.written < 4 {
			s.bom |= uint32(b) << (24 - 8*s.written)
		}
		s.unit = s.unit<<8 | uint32(b)
		s.written++
		if b == 0 {
			s.nuls++
		}
		s.controls += int(controlBytes[b])
		if s.written%2 == 0 {
			before := s.unit >> 8 & 0xFF
			s.wide[0].count16(uint32(b), before)
			s.wide[1].count16(before, uint32(b))
		}
		if s.written%4 == 0 {
			s.wide[2].count32(bits.ReverseBytes32(s.unit))
			s.wide[3].count32(s.unit)
		}
	}
}

func (c *wideCount) count16(high, low uint32) {
	if high != 0 {
		return
	}
	c.plain++
	if low < 0x80 {
		c.bad += int(controlBytes[low])
	}
}

func (c *wideCount) count32(r uint32) {
	switch {
	case r < 0x80:
		c.plain++
		c.bad += int(controlBytes[r])
	case r > 0x10FFFF || r >= 0xD800 && r < 0xE000:
		c.bad++
	}
}

// units counts the NUL and control characters of wide text.
func (s *Sniffer) units(p []byte) {
	size, little := s.unitSize(), strings.HasSuffix(s.encoding, "le")
	for _, b := range p {
		s.unit = s.unit<<8 | uint32(b)
		s.written++
		if s.written%size != 0 {
			continue
		}
		r := s.unit << (32 - 8*size)
		if little {
			r = bits.ReverseBytes32(r)
		} else {
			r >>= 32 - 8*size
		}
		if r < 0x80 && s.written <= laterSample {
			s.controls += int(controlBytes[r])
		}
		if r == 0 {
			s.nuls++
		}
	}
}

func (s *Sniffer) wideIndex() int {
	for i, name := range wideNames {
		if name == s.Encoding() {
			return i
		}
	}
	return -1
}

func (s *Sniffer) unitSize() int {
	switch i := s.wideIndex(); {
	case i < 0:
		return 1
	case i < 2:
		return 2
	}
	return 4
}

// wideCharset is the wide encoding of that name. Without a byte order it is
// little-endian, as in WHATWG's table.
func wideCharset(name string) string {
	name = strings.ToLower(strings.TrimSpace(name))
	for _, known := range wideNames {
		if name == known || name == strings.TrimSuffix(known, "le") {
			return known
		}
	}
	return ""
}

// controlBytes has a 1 for bytes that text does not contain: not blanks, line ends,
// bell, backspace or escape.
var controlBytes = func() (table [256]uint8) {
	for b := range table {
		if (b < 0x20 || b == 0x7F) && !strings.ContainsRune("\a\b\t\n\v\f\r\x1b", rune(b)) {
			table[b] = 1
		}
	}
	return table
}()

func countControls(p []byte) int {
	n := 0
	for _, b := range p {
		n += int(controlBytes[b])
	}
	return n
}
