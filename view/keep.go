package view

import (
	"bytes"
	"math"

	"belljar/sandbox"
)

// keeper keeps the beginning of a text and its end. The end may use what the beginning
// does not use of the bounds.
type keeper struct {
	bytes, lines         int64 // bounds on the whole
	headBytes, headLines int64

	head      []byte
	headLF    int64
	headW     weight
	headCut   weight // left out within the lines of head
	headEnded bool
	tail      tail
	gaps      bool // a part is missing between head and tail
}

func newKeeper(v sandbox.View) *keeper {
	k := &keeper{bytes: v.Bytes, lines: v.Lines}
	if k.bytes <= 0 || k.bytes > maxBytes {
		k.bytes = maxBytes
	}
	if k.lines <= 0 {
		k.lines = math.MaxInt64
	}
	if v.TailOnly {
		k.endHead()
	} else {
		k.headBytes, k.headLines = k.bytes/2, k.lines/2
	}
	return k
}

// plain takes text whose bytes are those of the stream: any number of lines.
func (k *keeper) plain(p []byte) {
	if !k.headEnded {
		n := k.fit(p)
		w := weigh(p[:n])
		k.head = append(k.head, p[:n]...)
		k.headLF += w.lines
		k.headW.add(w)
		if p = p[n:]; len(p) == 0 {
			return
		}
		k.endHead()
	}
	k.tail.plain(p)
}

// atom takes text that is kept completely or not at all, and its weight.
func (k *keeper) atom(text []byte, w weight) { k.part(text, w, weight{}) }

// cut takes the mark for the omitted part of a line.
func (k *keeper) cut(mark string, w weight) { k.part([]byte(mark), weight{}, w) }

func (k *keeper) part(text []byte, w, cut weight) {
	if !k.headEnded {
		if len(text) == 0 || int64(len(k.head)+len(text)) <= k.headBytes && k.headLF < k.headLines {
			k.head = append(k.head, text...)
			k.headLF += int64(bytes.Count(text, lineEnd))
			k.headW.add(w)
			k.headCut.add(cut)
			return
		}
		k.endHead()
	}
	k.tail.atom(text, w, cut)
}

// fit is how much of p fits into the beginning.
func (k *keeper) fit(p []byte) int {
	n := graphemeCut(p, int(min(k.headBytes-int64(len(k.head)), int64(len(p)))))
	return min(n, afterLines(p, k.headLines-k.headLF))
}

// afterLines is the offset after n lines of p, or its end.
func afterLines(p []byte, n int64) int {
	at := 0
	for ; n > 0 && at < len(p); n-- {
		i := bytes.IndexByte(p[at:], '\n')
		if i < 0 {
			return len(p)
		}
		at += i + 1
	}
	return at
}

func (k *keeper) endHead() {
	k.headEnded = true
	k.tail.bytes, k.tail.lines = k.bytes-int64(len(k.head)), k.lines-k.headLF
}

// gap marks missing bytes: what comes after them belongs to the end.
func (k *keeper) gap() {
	k.endHead()
	k.gaps = true
	k.tail.clear()
}

// headPartial reports whether the beginning ends within a line.
func (k *keeper) headPartial() bool {
	return len(k.head) > 0 && k.head[len(k.head)-1] != '\n'
}
