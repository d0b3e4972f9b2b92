package sandbox

import "slices"

const (
	// masked stands in a text for each secret that was in it.
	masked = "***"

	// minSecret is the least that is masked, in bytes: of less, ordinary output is
	// full.
	minSecret = 8
)

// masks take secrets out of texts and streams. They are not changed by that.
type masks struct {
	plain   *finder // of bytes as they are
	wrapped *finder // of base64, in which line ends may stand
	escaped *finder // of what a URL may hold as %41

	begins [256]*[256]bool // with which two bytes a secret may begin, in whichever form
}

// newMasks are for these values.
func newMasks(values []string) *masks {
	var plain, wrapped, escaped []string
	for _, v := range values {
		plain = append(plain, plainForms(v)...)
		wrapped = append(wrapped, base64Forms(v)...)
		escaped = append(escaped, urlForm(v))
	}
	m := &masks{plain: newFinder(plain), wrapped: newFinder(wrapped), escaped: newFinder(escaped)}
	for i := range m.begins {
		m.begins[i] = m.second(byte(i))
	}
	return m
}

// second is what may come second where that byte begins a secret, nil where it
// begins none.
func (m *masks) second(first byte) *[256]bool {
	plain, wrapped, escaped := m.plain.root[first], m.wrapped.root[base64Byte(first)], m.escaped.root[urlByte(first)]
	if plain|wrapped|escaped == 0 && first != '%' {
		return nil
	}
	next := new([256]bool)
	for i := range next {
		b := byte(i)
		_, isHex := unhex(b)
		next[i] = first == '%' && isHex ||
			plain != 0 && m.plain.below(plain, b) != 0 ||
			wrapped != 0 && (b == '\r' || b == '\n' || m.wrapped.below(wrapped, base64Byte(b)) != 0) ||
			escaped != 0 && (b == '%' || m.escaped.below(escaped, urlByte(b)) != 0)
	}
	return next
}

// skip passes over bytes with which nothing begins, which most are.
func (m *masks) skip(data []byte, i int) int {
	for ; i < len(data); i++ {
		if next := m.begins[data[i]]; next != nil && (i+1 == len(data) || next[data[i+1]]) {
			break
		}
	}
	return i
}

// text is s without secrets, and how many there were.
func (m *masks) text(s string) (string, int) {
	stream := newMasker(m)
	out := string(stream.write([]byte(s)))
	out += string(stream.flush())
	return out, stream.count
}

// masker takes secrets out of one stream that comes in chunks: the result is the
// same however it is cut. What overlaps is masked as one. It holds back only what
// may become a secret, which is bounded by the longest of their forms, each byte
// escaped or followed by a line end. What is masked already it need not hold: a
// stream of nothing but secrets that overlap takes no memory either.
type masker struct {
	*masks
	state   int32 // of plain
	wrapped unwrapper
	escaped unescaper

	held  []byte
	base  int64  // the offset of what is held
	done  int64  // what is before that is written, or masked
	found []span // what is to be masked, in order; none overlap
	out   []byte
	count int
}

// span is a part of a stream, by its offsets: [start, end).
type span struct{ start, end int64 }

func newMasker(m *masks) *masker {
	return &masker{masks: m, wrapped: unwrapper{tracker: newTracker(m.wrapped)}, escaped: unescaper{tracker: newTracker(m.escaped)}}
}

// write takes a chunk, and returns what can be told by now: valid until the next
// call, or until the chunk changes.
func (m *masker) write(p []byte) []byte {
	data := p
	if len(m.held) > 0 {
		m.held = append(m.held, p...)
		data = m.held
	}
	m.scan(data, len(data)-len(p))
	end := m.base + int64(len(data))
	certain := end - int64(m.plain.nodes[m.state].open)
	return m.settle(data, min(certain, m.wrapped.open(end), m.escaped.open(end)))
}

// flush returns what was held back, at the stream's end.
func (m *masker) flush() []byte { return m.settle(m.held, m.finish()) }

// finish is the stream's end, after which nothing waits for more.
func (m *masker) finish() int64 {
	end := m.base + int64(len(m.held))
	m.escaped.end(end, m)
	return end
}

// scan looks for secrets from data[i] on.
func (m *masker) scan(data []byte, i int) {
	for ; i < len(data); i++ {
		if m.state|m.wrapped.state|m.escaped.state == 0 && m.escaped.pending == 0 {
			if i = m.skip(data, i); i == len(data) {
				return
			}
		}
		at := m.base + int64(i)
		m.state = m.plain.step(m.state, data[i])
		if n := m.plain.nodes[m.state].found; n > 0 {
			m.match(at+1-int64(n), at+1)
		}
		m.wrapped.scan(data[i], at, m)
		m.escaped.scan(data[i], at, m)
	}
}

// match notes a secret. The next ends no earlier than the byte before its end.
func (m *masker) match(start, end int64) {
	n := len(m.found)
	for ; n > 0 && m.found[n-1].end > start; n-- {
		start, end = min(start, m.found[n-1].start), max(end, m.found[n-1].end)
	}
	m.found = m.found[:n]
	if start < m.done { // it overlaps with one that was written as masked
		m.done = max(m.done, end)
		return
	}
	m.found = append(m.found, span{start, end})
}

// settle returns data up to that offset, masked, and holds the rest.
func (m *masker) settle(data []byte, to int64) []byte {
	part := func(from, to int64) []byte { return data[from-m.base : max(from, to)-m.base] }
	out, n := m.out[:0], 0
	for ; n < len(m.found) && m.found[n].start < to; n++ {
		out = append(out, part(m.done, m.found[n].start)...)
		out = append(out, masked...)
		m.count++
		m.done = m.found[n].end
	}
	rest := part(m.done, to)
	if n > 0 || len(m.held) > 0 { // else the chunk itself will do
		out = append(out, rest...)
		m.out, rest = out, out
	}
	m.found = slices.Delete(m.found, 0, n)
	m.done = max(m.done, to)
	m.held = append(m.held[:0], data[m.done-m.base:]...)
	m.base = m.done
	return rest
}
