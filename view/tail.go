package view

import (
	"bytes"
	"encoding/binary"
	"unicode/utf8"
)

const (
	maxPlainRecord = 4 << 10
	maxAtomRecord  = 32 // text of atoms is cut between records only
)

// tail is a queue of records: text, and its weight. It holds at least
// as much as its bounds allow and not much more; trim makes it exact.
//
// A record is its length and kind, then for all but plain text four counts,
// then the text, so that short records do not cost a multiple of their text.
type tail struct {
	bytes, lines int64 // bounds

	buf     []byte
	start   int
	size    int64 // of the text
	lf      int64 // line ends in the text
	ended   bool  // the text ends with a line end
	dropped bool

	last      []byte // the record that is being filled
	lastPlain bool
	lastW     weight
	lastCut   weight
}

func (t *tail) plain(p []byte) {
	if !t.lastPlain && len(t.last) > 0 && len(t.last)+len(p) <= maxAtomRecord && bytes.IndexByte(p, '\n') < 0 {
		t.last = append(t.last, p...) // a few long records are faster
		t.lastW.bytes += int64(len(p))
		return
	}
	for len(p) > 0 {
		if !t.lastPlain || len(t.last) >= maxPlainRecord {
			t.seal()
			t.lastPlain = true
		}
		n := min(len(p), maxPlainRecord-len(t.last))
		for n < len(p) && !utf8.RuneStart(p[n]) {
			n++
		}
		t.last = append(t.last, p[:n]...)
		p = p[n:]
	}
}

// atom begins a new record where a cut may be: around a mark, after a line end.
func (t *tail) atom(text []byte, w, cut weight) {
	if t.lastPlain || len(t.last)+len(text) > maxAtomRecord || cut != (weight{}) {
		t.seal()
	}
	t.last = append(t.last, text...)
	t.lastW.add(w)
	t.lastCut.add(cut)
	if cut != (weight{}) || string(text) == "\n" {
		t.seal()
	}
}

func (t *tail) seal() {
	if len(t.last) == 0 && t.lastW == (weight{}) && t.lastCut == (weight{}) {
		t.lastPlain = false
		return
	}
	head := uint64(len(t.last)) << 1
	if t.lastPlain {
		t.buf = binary.AppendUvarint(t.buf, head|1)
	} else {
		t.buf = binary.AppendUvarint(t.buf, head)
		for _, n := range [...]int64{t.lastW.bytes, t.lastW.lines, t.lastCut.bytes, t.lastCut.lines} {
			t.buf = binary.AppendUvarint(t.buf, uint64(n))
		}
	}
	t.buf = append(t.buf, t.last...)
	t.size += int64(len(t.last))
	if n := len(t.last); n > 0 {
		t.ended = t.last[n-1] == '\n'
	}
	t.lf += int64(bytes.Count(t.last, lineEnd))
	t.last, t.lastPlain, t.lastW, t.lastCut = t.last[:0], false, weight{}, weight{}
	t.evict()
}

// evict drops records as long as the rest exceeds both
// bounds: trim then cuts at a place that does not depend on records.
func (t *tail) evict() {
	if t.size <= t.bytes && t.lf <= t.lines {
		return
	}
	for t.start < len(t.buf) {
		r, n := readRecord(t.buf[t.start:])
		size, lf := int64(len(r.text)), int64(bytes.Count(r.text, lineEnd))
		if t.size-size <= t.bytes && t.lf-lf <= t.lines {
			break
		}
		t.start += n
		t.size -= size
		t.lf -= lf
		t.dropped = true
	}
	if t.start > len(t.buf)/2 {
		t.buf = t.buf[:copy(t.buf, t.buf[t.start:])]
		t.start = 0
	}
}

// countLines counts the lines of the sealed records; the last may have no end.
func (t *tail) countLines() int64 {
	if t.size == 0 || t.ended {
		return t.lf
	}
	return t.lf + 1
}

func (t *tail) clear() {
	*t = tail{bytes: t.bytes, lines: t.lines, buf: t.buf[:0], last: t.last[:0]}
}
