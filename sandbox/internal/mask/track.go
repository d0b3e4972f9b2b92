package mask

// tracker looks for patterns in the decoded bytes of a stream, and records their
// offsets in the stream.
type tracker struct {
	*finder
	state int32
	ring  []int64 // the offsets of the last bytes: a power of two, since dividing by others is slow
	seen  int64   // how many there were
}

// see takes a decoded byte from [start, end).
func (t *tracker) see(b byte, start, end int64, m *Stream) {
	if t.state = t.step(t.state, b); t.state == 0 {
		return
	}
	n := &t.nodes[t.state]
	if int(n.depth) > len(t.ring) {
		t.grow()
	}
	t.ring[t.seen&int64(len(t.ring)-1)] = start
	t.seen++
	if n.found > 0 {
		m.match(t.last(n.found), end)
	}
}

// grow doubles the ring: most streams never need the size of the longest
// pattern.
func (t *tracker) grow() {
	ring := make([]int64, max(64, 2*len(t.ring)))
	for i := max(0, t.seen-int64(len(t.ring))); i < t.seen; i++ {
		ring[i&int64(len(ring)-1)] = t.ring[i&int64(len(t.ring)-1)]
	}
	t.ring = ring
}

// last is the offset of the n-th last byte.
func (t *tracker) last(n int32) int64 { return t.ring[(t.seen-int64(n))&int64(len(t.ring)-1)] }

// open is the offset where the first unfinished pattern may begin.
func (t *tracker) open(end int64) int64 {
	if n := t.nodes[t.state].open; n > 0 {
		return t.last(n)
	}
	return end
}

// maxIndent is how many blanks may precede a line of base64: there must be a
// bound on the held bytes.
const maxIndent = 32

// unwrapper skips line ends, \n or \r\n, of which one may stand between two
// bytes, and the blanks after them.
type unwrapper struct {
	tracker
	lineEnd lineEnd // since the last byte
	indent  int     // blanks since that
}

// lineEnd is the part of a line end seen so far.
type lineEnd uint8

const (
	noLineEnd lineEnd = iota
	carriageReturn
	wholeLineEnd
)

func (u *unwrapper) scan(b byte, start, end int64, m *Stream) {
	switch {
	case u.state == 0:
	case b == '\r' && u.lineEnd == noLineEnd:
		u.lineEnd = carriageReturn
		return
	case b == '\n' && u.lineEnd != wholeLineEnd:
		u.lineEnd, u.indent = wholeLineEnd, 0
		return
	case (b == ' ' || b == '\t') && end-start == 1 && u.lineEnd == wholeLineEnd && u.indent < maxIndent:
		u.indent++
		return
	case u.lineEnd == carriageReturn:
		u.state = 0
	}
	u.lineEnd = noLineEnd
	u.see(base64Byte(b), start, end, m)
}

// unescaper decodes escapes, and also looks for base64 in the result.
type unescaper struct {
	tracker
	wrapped unwrapper
	escape
	fold    func(byte) byte // maps equivalent bytes to one
	pending []byte          // a possible escape
	value   []byte
	nothing int // escapes that decode to nothing, since the last byte
}

func (u *unescaper) scan(b byte, at int64, m *Stream) {
	if len(u.pending) == 0 && b != u.first {
		u.one(b, at, at+1, m)
		return
	}
	u.pending = append(u.pending, b)
	u.decodePending(at+1, false, m)
}

func (u *unescaper) one(b byte, start, end int64, m *Stream) {
	u.nothing = 0
	u.see(u.fold(b), start, end, m)
	u.wrapped.scan(b, start, end, m)
}

// decodePending decodes what is certain of pending.
func (u *unescaper) decodePending(end int64, last bool, m *Stream) {
	p := u.pending
	for len(p) > 0 {
		n := 1
		if u.value = append(u.value[:0], p[0]); p[0] == u.first {
			n, u.value = u.decode(u.value[:0], p, last)
		}
		if n == 0 {
			break
		}
		start := end - int64(len(p))
		if len(u.value) == 0 {
			u.none()
		}
		for _, b := range u.value {
			u.one(b, start, start+int64(n), m)
		}
		p = p[n:]
	}
	u.pending = append(u.pending[:0], p...)
}

// none skips an escape that decodes to nothing, of which one may stand between two
// bytes: there must be a bound on the held bytes.
func (u *unescaper) none() {
	if u.nothing++; u.nothing > 1 {
		u.state, u.wrapped.state = 0, 0
	}
}

func (u *unescaper) open(end int64) int64 {
	end -= int64(len(u.pending))
	return min(u.tracker.open(end), u.wrapped.open(end))
}

// quiet reports that no pattern has begun.
func (u *unescaper) quiet() bool {
	return u.state|u.wrapped.state == 0 && len(u.pending) == 0
}
