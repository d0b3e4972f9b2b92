package sandbox

import (
	"iter"
)

// view is a Viewer's, masked, and how many secrets were in it. Output is masked as
// bytes, and a Viewer joins what escape sequences, backspaces or another charset
// had kept apart. Where its bounds cut it, what is read is read twice.
func (m *masks) view(viewer Viewer, v View, chunks func() iter.Seq[Chunk], total Total) (text Text, count int) {
	text = viewer.View(v, chunks(), total)
	if m == nil {
		return text, 0
	}
	if text.Text, count = m.text(text.Text); text.OmittedBytes == 0 {
		return text, count
	}
	// A cut may have left a part of one, which is known from the whole.
	v.Bytes, v.Lines, v.LineChars = 0, 0, 0
	whole := viewer.View(v, chunks(), total).Text
	parts := pieces{}
	for _, s := range m.find(whole) {
		parts.add(whole[s.start:s.end])
	}
	hidden, more := parts.hide(text.Text)
	text.Text = hidden
	return text, count + more
}

// ending is how much of a text's end may become a secret when more comes.
func (m *masks) ending(text string) int {
	if m == nil {
		return 0
	}
	stream := newMasker(m)
	stream.write([]byte(text))
	return len(stream.held)
}

// find is where the secrets in s are, in order.
func (m *masks) find(s string) []span {
	stream := newMasker(m)
	stream.scan([]byte(s), 0)
	stream.held = []byte(s)
	stream.finish()
	return stream.found
}

// pieces are parts of secrets as long as the shortest secret.
type pieces map[string]bool

func (p pieces) add(secret string) {
	for i := range len(secret) - minSecret + 1 {
		p[secret[i:i+minSecret]] = true
	}
}

// hide masks what consists of them, and is how many times.
func (p pieces) hide(s string) (string, int) {
	if len(p) == 0 {
		return s, 0
	}
	out, done, count := "", 0, 0
	for i := 0; i+minSecret <= len(s); i++ {
		if !p[s[i:i+minSecret]] {
			continue
		}
		end := i + minSecret
		for next := i + 1; next <= end && next+minSecret <= len(s); next++ {
			if p[s[next:next+minSecret]] {
				end = next + minSecret
			}
		}
		out += s[done:i] + masked
		count++
		done, i = end, end-1
	}
	return out + s[done:], count
}
