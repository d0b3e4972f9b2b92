package mask

// tracker looks for patterns in what it sees of a stream, and knows where in the
// stream that was.
type tracker struct {
	*finder
	state int32
	ring  []int64 // where the last bytes began: a power of two, as to divide by another takes long
	seen  int64   // how many there were
}

// see takes a byte that stands at [start, end).
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

// grow makes room for twice as many: most streams never need what the longest
// pattern would.
func (t *tracker) grow() {
	ring := make([]int64, max(64, 2*len(t.ring)))
	for i := max(0, t.seen-int64(len(t.ring))); i < t.seen; i++ {
		ring[i&int64(len(ring)-1)] = t.ring[i&int64(len(t.ring)-1)]
	}
	t.ring = ring
}

// last is where the n-th last byte began.
func (t *tracker) last(n int32) int64 { return t.ring[(t.seen-int64(n))&int64(len(t.ring)-1)] }

// open is where the first pattern could have begun that is not found yet.
func (t *tracker) open(end int64) int64 {
	if n := t.nodes[t.state].open; n > 0 {
		return t.last(n)
	}
	return end
}

// maxIndent is how many blanks may stand before a line of base64: there must be a
// bound to what is held back.
const maxIndent = 32

// unwrapper passes over line ends, \n or \r\n, of which one may stand between two
// bytes, and over the blanks after them.
type unwrapper struct {
	tracker
	lineEnd lineEnd // since the last byte
	indent  int     // blanks since that
}

// lineEnd is how much of one there was.
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

// unescaper sees an escape as what it stands for, and looks for base64 in that, too.
type unescaper struct {
	tracker
	wrapped unwrapper
	escape
	fold    func(byte) byte // makes one of bytes that stand for the same
	pending []byte          // what may be an escape
	value   []byte
	nothing int // escapes of nothing, since the last byte
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

// decodePending sees what is certain of what is pending, which ends there.
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

// none passes over an escape of nothing, of which one may stand between two bytes:
// there must be a bound to what is held back.
func (u *unescaper) none() {
	if u.nothing++; u.nothing > 1 {
		u.state, u.wrapped.state = 0, 0
	}
}

func (u *unescaper) open(end int64) int64 {
	end -= int64(len(u.pending))
	return min(u.tracker.open(end), u.wrapped.open(end))
}

// quiet reports that nothing has begun.
func (u *unescaper) quiet() bool {
	return u.state|u.wrapped.state == 0 && len(u.pending) == 0
}
