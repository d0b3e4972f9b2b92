package view

import (
	"encoding/binary"
	"slices"
	"unicode/utf8"
)

// read takes text: one block while the charset is not known.
func (s *source) read(p []byte) {
	first := s.text.bytes == 0
	s.text.add(weigh(p))
	if first {
		p = s.begin(p)
	}
	if len(s.sample) == 0 && (s.charset.name != "" || ascii(p)) {
		s.decode(p, false)
		return
	}
	s.sample = append(s.sample, p...)
	if len(s.sample) >= maxSample {
		s.decide(s.detect())
	}
}

// begin decides what the first block decides, and is the block without its BOM.
func (s *source) begin(p []byte) []byte {
	if name, size := s.sniffer.BOM(); name != "" && s.missed == 0 {
		s.line.carry.bytes += int64(size)
		s.decide(charset{name: name})
		return p[size:]
	}
	switch name := s.sniffer.Encoding(); {
	case s.declared.name != "":
		s.decide(s.declared)
	case name != "":
		s.decide(charset{name: name})
	}
	return p
}

func ascii(p []byte) bool {
	const high = 0x8080808080808080
	for ; len(p) >= 8; p = p[8:] {
		if binary.LittleEndian.Uint64(p)&high != 0 {
			return false
		}
	}
	return !slices.ContainsFunc(p, func(b byte) bool { return b >= utf8.RuneSelf })
}

func (s *source) detect() charset {
	if s.afterGap && mostlyUTF8(s.sample[continuations(s.sample):]) {
		return charset{name: "utf-8"}
	}
	return detectCharset(s.sample)
}

func (s *source) decide(c charset) {
	s.charset = c
	if c.name != "utf-8" {
		s.decoder = newDecoder(c)
	}
	sample := s.sample
	s.sample = nil
	s.decode(sample, false)
}

func (s *source) decode(p []byte, last bool) {
	if s.afterGap && len(p) > 0 {
		s.afterGap = false
		p = p[s.torn(p):]
	}
	if len(s.rest) > 0 {
		p = append(s.rest, p...)
	}
	n := 0
	if s.decoder == nil {
		n = s.line.utf8(p, last)
	} else {
		n = s.decoder.decode(p, last, s.line.decoded)
	}
	s.rest = append([]byte(nil), p[n:]...)
}

// torn is how much of p, which comes after a gap, is the rest of a character.
func (s *source) torn(p []byte) int {
	switch d := s.decoder.(type) {
	case nil:
		return continuations(p)
	case wideDecoder:
		size := int64(d.size)
		return min(int((size-s.resumed%size)%size), len(p))
	case *stepDecoder:
		d.decoder.Reset()
	}
	return 0
}

// continuations is how many bytes p begins with that begin no character.
func continuations(p []byte) int {
	n := 0
	for n < min(len(p), utf8.UTFMax-1) && !utf8.RuneStart(p[n]) {
		n++
	}
	return n
}
