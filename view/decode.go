package view

import (
	"encoding/binary"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
)

// decoder reads text that is not UTF-8, one character at a time. Bytes that it
// cannot decode become U+FFFD.
type decoder interface {
	// decode returns how much of p it read: all but an unfinished character at its
	// end, if p is not the last.
	decode(p []byte, last bool, put func(r rune, w weight)) int
}

func newDecoder(c charset) decoder {
	switch enc := c.enc.(type) {
	case *charmap.Charmap:
		return newByteDecoder(enc)
	case nil:
		d := wideDecoder{size: 2, order: binary.BigEndian}
		if strings.HasPrefix(c.name, "utf-32") {
			d.size = 4
		}
		if strings.HasSuffix(c.name, "le") {
			d.order = binary.LittleEndian
		}
		return d
	default:
		return &stepDecoder{decoder: enc.NewDecoder()}
	}
}

// byteDecoder has a character for each byte.
type byteDecoder [256]rune

func newByteDecoder(c *charmap.Charmap) *byteDecoder {
	var d byteDecoder
	for b := range d {
		d[b] = c.DecodeByte(byte(b))
	}
	return &d
}

func (d *byteDecoder) decode(p []byte, _ bool, put func(r rune, w weight)) int {
	for _, b := range p {
		w := weight{bytes: 1}
		if b == '\n' {
			w.lines = 1
		}
		put(d[b], w)
	}
	return len(p)
}

// wideDecoder is for UTF-16 and UTF-32.
type wideDecoder struct {
	size  int
	order binary.ByteOrder
}

func (d wideDecoder) decode(p []byte, last bool, put func(r rune, w weight)) int {
	i := 0
	for i+d.size <= len(p) {
		r, size := d.unit(p[i:]), d.size
		if d.size == 2 && utf16.IsSurrogate(r) {
			if i+4 > len(p) && !last {
				return i
			}
			if i+4 <= len(p) {
				if pair := utf16.DecodeRune(r, d.unit(p[i+2:])); pair != utf8.RuneError {
					r, size = pair, 4
				}
			}
		}
		if !utf8.ValidRune(r) {
			r = utf8.RuneError
		}
		put(r, weigh(p[i:i+size]))
		i += size
	}
	if last && i < len(p) {
		put(utf8.RuneError, weigh(p[i:]))
		i = len(p)
	}
	return i
}

func (d wideDecoder) unit(p []byte) rune {
	if d.size == 2 {
		return rune(d.order.Uint16(p))
	}
	return rune(min(d.order.Uint32(p), utf8.MaxRune+1))
}

// stepDecoder feeds a decoder byte by byte until it returns a character: the decoder
// does not report how many bytes a character had.
type stepDecoder struct {
	decoder *encoding.Decoder
	out     [16]byte
}

// maxCode exceeds the bytes of a character in any charset.
const maxCode = 8

func (d *stepDecoder) decode(p []byte, last bool, put func(r rune, w weight)) int {
	for i := 0; i < len(p); {
		n, size := d.step(p[i:], last)
		if size == 0 {
			return i
		}
		w := weigh(p[i : i+size])
		for out := d.out[:n]; len(out) > 0; w = (weight{}) {
			r, length := utf8.DecodeRune(out)
			put(r, w)
			out = out[length:]
		}
		if n == 0 {
			put(noRune, w)
		}
		i += size
	}
	return len(p)
}

// noRune marks bytes that only change how the next ones are read.
const noRune rune = -1

// step reads as few bytes as the decoder accepts. It returns how much it wrote
// and how much it read, which is 0 if p is unfinished.
func (d *stepDecoder) step(p []byte, last bool) (wrote, read int) {
	for n := 1; n <= min(len(p), maxCode); n++ {
		wrote, read, _ := d.decoder.Transform(d.out[:], p[:n], last && n == len(p))
		if read > 0 {
			return wrote, read
		}
	}
	if len(p) < maxCode && !last {
		return 0, 0
	}
	return utf8.EncodeRune(d.out[:], utf8.RuneError), 1
}
