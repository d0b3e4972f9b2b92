package sniff

import (
	"bytes"
	"encoding/binary"
	"unicode/utf8"
)

const (
	dataWindow = 256 // bytes that are judged from a control character on
	dataLeast  = 8   // control characters in a whole window: random bytes have 24
	dataShare  = 16  // at least one in that many bytes

	// dataLine is how far before its first control character data may begin: "\x89PNG"
	// is not text.
	dataLine = 64
)

// control are the characters that text does not use: not BEL to SI, which shifts charsets,
// and ESC.
var control = func() (table [256]bool) {
	for c := range ' ' {
		table[c] = c < 7 || c > 15 && c != 27
	}
	table[0x7F] = true
	return table
}()

// DataAt is where p, text so far, turns into data, or -1: where control characters are
// close together. It is for charsets of single bytes, not for UTF-16 and UTF-32.
func DataAt(p []byte) int {
	if !hasLow(p) {
		return -1
	}
	for i := range p {
		if !control[p[i]] {
			continue
		}
		window, n := p[i:min(len(p), i+dataWindow)], 0
		for _, c := range window {
			if control[c] {
				n++
			}
		}
		if n >= min(dataLeast, max(5, len(window)/dataShare)) && n*dataShare >= len(window) {
			return dataStart(p, i)
		}
	}
	return -1
}

// dataStart is where data with its first control character at i starts: at i or, if
// that is near, at the beginning of the line, or of previous lines that are not UTF-8.
func dataStart(p []byte, i int) int {
	start := 1 + bytes.LastIndexByte(p[:i], '\n')
	if i-start > dataLine {
		return i
	}
	for start > 0 {
		line := 1 + bytes.LastIndexByte(p[:start-1], '\n')
		if i-line > dataWindow || utf8.Valid(p[line:start]) {
			break
		}
		start = line
	}
	return start
}

// hasLow reports whether some byte is below 7: data has many, text none, and it is fast.
func hasLow(p []byte) bool {
	const ones = 0x0101010101010101
	for ; len(p) >= 8; p = p[8:] {
		v := binary.LittleEndian.Uint64(p)
		if (v-7*ones)&^v&(0x80*ones) != 0 {
			return true
		}
	}
	for _, c := range p {
		if c < 7 {
			return true
		}
	}
	return false
}
