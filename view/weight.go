package view

import "bytes"

// weight is the amount of the stream that a piece of text represents.
type weight struct{ bytes, lines int64 }

func (w *weight) add(v weight) {
	w.bytes += v.bytes
	w.lines += v.lines
}

func (w weight) minus(v weight) weight {
	return weight{w.bytes - v.bytes, w.lines - v.lines}
}

// weigh is the weight of bytes of the stream.
func weigh(p []byte) weight {
	return weight{int64(len(p)), int64(bytes.Count(p, lineEnd))}
}
