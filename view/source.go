package view

import (
	"belljar/internal/sniff"
	"belljar/sandbox"
)

// maxSample is how much of the output the charset is guessed from.
const maxSample = 64 << 10

// source makes characters of bytes: it finds out what they are.
type source struct {
	line     *lineReader
	sniffer  sniff.Sniffer
	declared charset
	charset  charset // no name while all was ASCII
	decoder  decoder // nil for UTF-8 and ASCII

	block    []byte // not yet judged
	sample   []byte // not yet decoded: not ASCII, and the charset is not known
	rest     []byte // an unfinished character
	resumed  int64  // where bytes come again after a gap, until one is decoded
	afterGap bool

	seen   weight // all bytes but the missing ones
	missed int64
	text   weight // of seen, what is text
	binary bool   // what comes after text is data
	turned int64  // where it turned
}

func newSource(v sandbox.View, l *lineReader) *source {
	declared, _ := lookupCharset(v.Charset)
	return &source{line: l, sniffer: sniff.Sniffer{Charset: declared.name}, declared: declared}
}

// position is how far the stream was read.
func (s *source) position() int64 { return s.seen.bytes + s.missed }

// write takes the stream in blocks of which each is judged before a character
// of it is read.
func (s *source) write(p []byte) {
	s.seen.add(weigh(p))
	for len(p) > 0 && !s.binary {
		if n := s.whole(p); n > 0 {
			s.read(p[:n])
			p = p[n:]
			continue
		}
		n := min(len(p), sniff.SniffBytes-len(s.block))
		s.block = append(s.block, p[:n]...)
		p = p[n:]
		if len(s.block) == sniff.SniffBytes {
			s.judge()
		}
	}
}

// whole is how many bytes of p are blocks of text. While the charset is not
// known it is one block, so that what is found does not depend on chunks.
func (s *source) whole(p []byte) int {
	n := 0
	for len(s.block) == 0 && len(p)-n >= sniff.SniffBytes && (n == 0 || s.charset.name != "") {
		if at := s.data(p[n : n+sniff.SniffBytes]); at >= 0 {
			n += at
			s.turn(n)
			break
		}
		n += sniff.SniffBytes
	}
	return n
}

// judge reads the block that was collected.
func (s *source) judge() {
	if len(s.block) == 0 || s.binary {
		return
	}
	if at := s.data(s.block); at >= 0 {
		s.turn(at)
		s.block = s.block[:at]
	}
	if len(s.block) > 0 {
		s.read(s.block)
		s.block = s.block[:0]
	}
}

// data is where a block turns to data, or -1.
func (s *source) data(block []byte) int {
	_, _ = s.sniffer.Write(block) // never fails
	if at := sniff.DataAt(block); at >= 0 && s.sniffer.Encoding() == "" {
		return at
	}
	if s.sniffer.Binary() {
		return 0
	}
	return -1
}

// turn is where text turns to data, after some that is yet to be read.
func (s *source) turn(after int) {
	s.binary = true
	s.turned = s.text.bytes + int64(after) + s.missed
}

// gap is where bytes are missing.
func (s *source) gap(missed int64) {
	if s.judge(); s.binary {
		s.missed += missed
		return
	}
	s.sniffer.Gap()
	s.finish()
	s.missed += missed
	s.afterGap, s.resumed = true, s.position()
	s.line.keep.gap()
}

func (s *source) end() {
	s.judge()
	s.finish()
}

// finish reads what waited for more.
func (s *source) finish() {
	if len(s.sample) > 0 {
		s.decide(s.detect())
	}
	if len(s.rest) > 0 {
		s.decode(nil, true)
	}
	s.line.cutOff()
}
