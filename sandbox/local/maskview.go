package local

import (
	"iter"

	"belljar/sandbox"
	"belljar/sandbox/internal/mask"
)

// maskedView is a Viewer's view, masked, and the number of secrets in it. Output is masked
// as bytes, but a Viewer joins what escape sequences, backspaces or another charset had
// kept apart. Where its bounds cut a secret in two, the output is read twice.
func maskedView(m *mask.Masks, viewer sandbox.Viewer, v sandbox.View, chunks func() iter.Seq[sandbox.Chunk], total sandbox.Total) (text sandbox.Text, count int) {
	text = viewer.View(v, chunks(), total)
	if m == nil {
		return text, 0
	}
	if text.Text, count = m.Text(text.Text); text.OmittedBytes == 0 {
		return text, count
	}
	// A cut may have left a part of a secret, which only the whole view shows.
	v.Bytes, v.Lines, v.LineChars = 0, 0, 0
	hidden, more := m.TextOf(text.Text, viewer.View(v, chunks(), total).Text)
	text.Text = hidden
	return text, count + more
}
