package sandbox

// tracker looks for patterns in what it sees of a stream, and knows where in the
// stream that was.
type tracker struct {
	*finder
	state int32
	ring  []int64 // where the last bytes began
	seen  int64   // how many there were
}

func newTracker(f *finder) tracker {
	size := int32(1) // a power of two, since to divide by another takes long
	for _, n := range f.nodes {
		for size < n.depth {
			size *= 2
		}
	}
	return tracker{finder: f, ring: make([]int64, size)}
}

// see takes a byte that stands at [start, end).
func (t *tracker) see(b byte, start, end int64, m *masker) {
	if t.state = t.step(t.state, b); t.state == 0 {
		return
	}
	t.ring[t.seen&int64(len(t.ring)-1)] = start
	t.seen++
	if n := t.nodes[t.state].found; n > 0 {
		m.match(t.last(n), end)
	}
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

// unwrapper passes over line ends, \n or \r\n, of which one may stand between two
// bytes.
type unwrapper struct {
	tracker
	lineEnd lineEnd // since the last byte
}

// lineEnd is how much of one there was.
type lineEnd uint8

const (
	noLineEnd lineEnd = iota
	carriageReturn
	wholeLineEnd
)

func (u *unwrapper) scan(b byte, at int64, m *masker) {
	switch {
	case u.state != 0 && b == '\r' && u.lineEnd == noLineEnd:
		u.lineEnd = carriageReturn
		return
	case u.state != 0 && b == '\n' && u.lineEnd != wholeLineEnd:
		u.lineEnd = wholeLineEnd
		return
	case u.lineEnd == carriageReturn:
		u.state = 0
	}
	u.lineEnd = noLineEnd
	u.see(base64Byte(b), at, at+1, m)
}

// unescaper sees %41 as the one byte that it stands for.
type unescaper struct {
	tracker
	pending int64 // how much of an escape there is so far
	digit   byte  // its first, once there are two
}

func (u *unescaper) scan(b byte, at int64, m *masker) {
	_, isHex := unhex(b)
	switch {
	case u.pending == 1 && isHex:
		u.pending, u.digit = 2, b
		return
	case u.pending == 2 && isHex:
		u.pending = 0
		high, _ := unhex(u.digit)
		low, _ := unhex(b)
		u.see(urlByte(high<<4|low), at-2, at+1, m)
		return
	}
	u.end(at, m)
	if b == '%' {
		u.pending = 1
		return
	}
	u.see(urlByte(b), at, at+1, m)
}

// end has what is pending, up to that offset, be no escape.
func (u *unescaper) end(at int64, m *masker) {
	if u.pending > 0 {
		u.see('%', at-u.pending, at-u.pending+1, m)
	}
	if u.pending == 2 {
		u.see(u.digit, at-1, at, m)
	}
	u.pending = 0
}

func (u *unescaper) open(end int64) int64 { return u.tracker.open(end - u.pending) }

func unhex(b byte) (value byte, ok bool) {
	switch {
	case '0' <= b && b <= '9':
		return b - '0', true
	case 'a' <= b|0x20 && b|0x20 <= 'f':
		return b | 0x20 - 'a' + 10, true
	}
	return 0, false
}
