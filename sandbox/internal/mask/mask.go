// Package mask removes secrets from texts and streams, even if they are
// encoded, quoted or split.
package mask

import (
	"slices"
	"strings"
)

const (
	// masked replaces each secret in a text.
	masked = "***"

	// MinSecret is the shortest secret that is masked, in bytes: ordinary output often
	// contains shorter ones.
	MinSecret = 8
)

// Masks remove secrets from texts and streams. They are immutable.
type Masks struct {
	plain   *finder // of bytes as they are
	wrapped *finder // of base64, which may contain line ends
	escaped *finder // of decoded %41 in URLs
	slashed *finder // of decoded \u0041 in JSON
	marked  *finder // of decoded &#x41; in HTML
	values  []string

	begins [256]*[256]bool // the two bytes with which a secret may begin, in any form
}

// New returns the Masks for these values.
func New(values []string) *Masks {
	var plain, wrapped, escaped, slashed, marked, all []string
	for _, value := range values {
		wrapped = append(wrapped, base64Forms(value)...)
		for _, v := range spokenForms(value) {
			plain = append(plain, plainForms(v)...)
			escaped = append(escaped, urlForms(v)...)
			slashed = append(slashed, slashForms(v)...)
			marked = append(marked, markForms(v)...)
			all = append(all, v)
		}
	}
	m := &Masks{plain: newFinder(plain), wrapped: newFinder(wrapped), escaped: newFinder(escaped), slashed: newFinder(slashed), marked: newFinder(marked), values: all}
	for i := range m.begins {
		m.begins[i] = m.second(byte(i))
	}
	return m
}

// second are the bytes that may follow that byte at the beginning of a secret, nil if
// no secret begins with it.
func (m *Masks) second(first byte) *[256]bool {
	plain, wrapped, escaped, slashed, marked := m.plain.root[first], m.wrapped.root[base64Byte(first)], m.escaped.root[urlByte(first)], m.slashed.root[first], m.marked.root[first]
	if plain|wrapped|escaped|slashed|marked == 0 && !isEscape(first) && first != tokenMark[0] {
		return nil
	}
	next := new([256]bool)
	for i := range next {
		b := byte(i)
		next[i] = m.escapes(first, b) || first == tokenMark[0] && b == tokenMark[1] ||
			plain != 0 && m.plain.below(plain, b) != 0 ||
			wrapped != 0 && (b == '\r' || b == '\n' || isEscape(b) || m.wrapped.below(wrapped, base64Byte(b)) != 0) ||
			escaped != 0 && (b == urlEscape.first || m.escaped.below(escaped, urlByte(b)) != 0) ||
			slashed != 0 && (b == slashEscape.first || m.slashed.below(slashed, b) != 0) ||
			marked != 0 && (b == markEscape.first || m.marked.below(marked, b) != 0)
	}
	return next
}

// isEscape reports whether an escape may begin with that byte.
func isEscape(b byte) bool {
	return b == urlEscape.first || b == slashEscape.first || b == markEscape.first
}

// escapes reports whether these two begin an escape that must not be skipped:
// a secret may begin with it, or would seem to begin within it.
func (m *Masks) escapes(first, second byte) bool {
	switch first {
	case urlEscape.first:
		_, isHex := unhex(second)
		return isHex
	case slashEscape.first:
		b, ok := backslashed(second)
		return strings.IndexByte("uUx01234567", second) >= 0 || second == first || ok && (m.slashes(b) || m.slashes(second))
	case markEscape.first:
		return second == '#' || 'a' <= second|0x20 && second|0x20 <= 'z'
	}
	return false
}

// slashes reports whether an escaped secret may begin with that byte.
func (m *Masks) slashes(b byte) bool {
	return m.slashed.root[b]|m.wrapped.root[base64Byte(b)] != 0
}

// skip skips bytes with which no secret begins, which are most.
func (m *Masks) skip(data []byte, i int) int {
	for ; i < len(data); i++ {
		if next := m.begins[data[i]]; next != nil && (i+1 == len(data) || next[data[i+1]]) {
			break
		}
	}
	return i
}

// Text returns s without secrets, and how many there were.
func (m *Masks) Text(s string) (string, int) {
	stream := NewStream(m)
	out := string(stream.Feed([]byte(s)))
	out += string(stream.Flush())
	return out, stream.Count
}

// Stream removes secrets from one stream that comes in chunks: the result does not
// depend on the chunks. Overlapping secrets are masked as one. It holds back only what
// may become a secret, which is bounded by the longest of their forms, with each byte
// escaped, or followed by a line end and some blanks. Masked bytes are not held: a
// stream of nothing but overlapping secrets takes no memory either.
type Stream struct {
	*Masks
	state   int32 // of plain
	wrapped unwrapper
	escaped unescaper
	slashed unescaper
	marked  unescaper
	tokens  tokens

	held  []byte
	base  int64  // the offset of the held bytes
	done  int64  // the bytes before it are written, or masked
	found []span // the parts to mask, in order; none overlap
	out   []byte
	Count int
}

// span is a part of a stream, by its offsets: [start, end).
type span struct{ start, end int64 }

// NewStream masks one stream.
func NewStream(m *Masks) *Stream {
	wrapped := unwrapper{tracker: tracker{finder: m.wrapped}}
	return &Stream{
		Masks: m, wrapped: wrapped,
		escaped: unescaper{tracker: tracker{finder: m.escaped}, wrapped: wrapped, escape: urlEscape, fold: urlByte},
		slashed: unescaper{tracker: tracker{finder: m.slashed}, wrapped: wrapped, escape: slashEscape, fold: sameByte},
		marked:  unescaper{tracker: tracker{finder: m.marked}, wrapped: wrapped, escape: markEscape, fold: sameByte},
		tokens:  tokens{values: m.values},
	}
}

// Feed takes a chunk, and returns the final output so far: valid until the next
// call, or until the chunk changes.
func (m *Stream) Feed(p []byte) []byte {
	data := p
	if len(m.held) > 0 {
		m.held = append(m.held, p...)
		data = m.held
	}
	m.scan(data, len(data)-len(p))
	end := m.base + int64(len(data))
	certain := end - int64(m.plain.nodes[m.state].open)
	return m.release(data, min(certain, m.wrapped.open(end), m.escaped.open(end), m.slashed.open(end), m.marked.open(end), m.tokens.open(end)))
}

// Flush returns the held bytes, at the stream's end.
func (m *Stream) Flush() []byte { return m.release(m.held, m.finish()) }

// finish is the stream's end, after which no byte is held.
func (m *Stream) finish() int64 {
	end := m.base + int64(len(m.held))
	m.escaped.decodePending(end, true, m)
	m.slashed.decodePending(end, true, m)
	m.marked.decodePending(end, true, m)
	return end
}

// scan looks for secrets from data[i] on.
func (m *Stream) scan(data []byte, i int) {
	for ; i < len(data); i++ {
		if m.state|m.wrapped.state == 0 && m.escaped.quiet() && m.slashed.quiet() && m.marked.quiet() && m.tokens.quiet() {
			if i = m.skip(data, i); i == len(data) {
				return
			}
		}
		at := m.base + int64(i)
		m.state = m.plain.step(m.state, data[i])
		if n := m.plain.nodes[m.state].found; n > 0 {
			m.match(at+1-int64(n), at+1)
		}
		m.wrapped.scan(data[i], at, at+1, m)
		m.escaped.scan(data[i], at, m)
		m.slashed.scan(data[i], at, m)
		m.marked.scan(data[i], at, m)
		m.tokens.scan(data[i], at, m)
	}
}

// match records a secret. The next may end before it, if it is in escapes.
func (m *Stream) match(start, end int64) {
	after := len(m.found)
	for after > 0 && m.found[after-1].start >= end {
		after--
	}
	from := after
	for ; from > 0 && m.found[from-1].end > start; from-- {
		start, end = min(start, m.found[from-1].start), max(end, m.found[from-1].end)
	}
	m.found = slices.Delete(m.found, from, after)
	if start < m.done { // it overlaps with one that is already written as masked
		m.done = max(m.done, end)
		return
	}
	m.found = slices.Insert(m.found, from, span{start, end})
}

// release returns the data up to that offset, masked, and holds the rest.
func (m *Stream) release(data []byte, to int64) []byte {
	part := func(from, to int64) []byte { return data[from-m.base : max(from, to)-m.base] }
	out, n := m.out[:0], 0
	for ; n < len(m.found) && m.found[n].start < to; n++ {
		out = append(out, part(m.done, m.found[n].start)...)
		out = append(out, masked...)
		m.Count++
		m.done = m.found[n].end
	}
	rest := part(m.done, to)
	if n > 0 || len(m.held) > 0 { // else the chunk itself can be returned
		out = append(out, rest...)
		m.out, rest = out, out
	}
	m.found = slices.Delete(m.found, 0, n)
	m.done = max(m.done, to)
	m.held = append(m.held[:0], data[m.done-m.base:]...)
	m.base = m.done
	return rest
}
