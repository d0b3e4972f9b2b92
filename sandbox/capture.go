package sandbox

import "unicode/utf8"

// stream tells a command's two outputs apart.
type stream int

const (
	stdout stream = iota
	stderr
)

// capture keeps the beginning and the end of two streams within one budget.
// Half of it goes to the beginnings, first come, first served; the other half to
// the ends, where the longer one gives way, so that a flood on one stream does
// not cost the other its last words.
type capture struct {
	headRoom int64 // bytes left for beginnings
	tailRoom int64 // bytes that both ends may have together
	kept     [2]struct {
		head, tail blocks
		total      int64
		headDone   bool
	}
}

// newCapture has a budget of limit bytes. Where the command is ended at the
// limit, there is no end worth keeping: the beginning gets it all.
func newCapture(limit int64, action OutputAction) *capture {
	if action == OutputEnd {
		return &capture{headRoom: limit}
	}
	return &capture{headRoom: limit / 2, tailRoom: limit - limit/2}
}

func (c *capture) write(s stream, p []byte) {
	k := &c.kept[s]
	k.total += int64(len(p))
	if !k.headDone {
		n := min(int64(len(p)), c.headRoom)
		k.head.append(p[:n])
		c.headRoom -= n
		p = p[n:]
		k.headDone = len(p) > 0 // what follows must stay behind it
	}
	if int64(len(p)) > c.tailRoom {
		k.tail.drop(k.tail.size)
		p = p[int64(len(p))-c.tailRoom:]
	}
	k.tail.append(p)
	for over := c.tails() - c.tailRoom; over > 0; over = c.tails() - c.tailRoom {
		longer, other := &c.kept[stdout].tail, &c.kept[stderr].tail
		if longer.size < other.size {
			longer, other = other, longer
		}
		longer.drop(min(over, max(longer.size-other.size, (over+1)/2)))
	}
}

func (c *capture) tails() int64 { return c.kept[stdout].tail.size + c.kept[stderr].tail.size }

// total is how much the command wrote to both streams.
func (c *capture) total() int64 { return c.kept[stdout].total + c.kept[stderr].total }

// output hands over what was kept of one stream; the capture is spent.
func (c *capture) output(s stream) Output {
	k := &c.kept[s]
	dropped := k.total - k.head.size - k.tail.size
	if dropped == 0 { // no gap: head and tail may be parts of one rune
		k.head.join(&k.tail)
		return Output{Head: k.head.take(), Total: k.total}
	}
	return Output{Head: k.head.take(), Tail: k.tail.take(), Dropped: dropped, Total: k.total}.trimmed()
}

// trimmed is o without the parts of runes on both sides of its gap, which would
// make binary data of text. Binary data stays as it is.
func (o Output) trimmed() Output {
	t := o
	if n := len(t.Head); n > 0 {
		start := n - 1
		for start > max(0, n-utf8.UTFMax) && !utf8.RuneStart(t.Head[start]) {
			start--
		}
		if !utf8.FullRune(t.Head[start:]) {
			t.Head = t.Head[:start]
		}
	}
	for range utf8.UTFMax - 1 {
		if len(t.Tail) > 0 && !utf8.RuneStart(t.Tail[0]) {
			t.Tail = t.Tail[1:]
		}
	}
	if !t.isText() {
		return o
	}
	t.Dropped = t.Total - int64(len(t.Head)) - int64(len(t.Tail))
	return t
}

// blockSize is large beside the bookkeeping and small beside any budget.
const blockSize = 64 << 10

// blocks is a queue of bytes that grows at the end and shrinks at the front
// without moving what it holds.
type blocks struct {
	list  [][]byte
	skip  int // bytes of the first block that were dropped
	size  int64
	spare []byte // a block that was dropped, to be used again
}

func (b *blocks) append(p []byte) {
	b.size += int64(len(p))
	for len(p) > 0 {
		if n := len(b.list); n == 0 || len(b.list[n-1]) == cap(b.list[n-1]) {
			b.list = append(b.list, b.block())
		}
		last := &b.list[len(b.list)-1]
		n := min(len(p), cap(*last)-len(*last))
		*last = append(*last, p[:n]...)
		p = p[n:]
	}
}

func (b *blocks) block() []byte {
	if block := b.spare; block != nil {
		b.spare = nil
		return block
	}
	return make([]byte, 0, blockSize)
}

func (b *blocks) drop(n int64) {
	b.size -= n
	for n > 0 {
		first := b.list[0]
		rest := int64(len(first) - b.skip)
		if rest > n {
			b.skip += int(n)
			return
		}
		n -= rest
		b.list[0], b.skip, b.spare = nil, 0, first[:0]
		b.list = b.list[1:]
	}
}

// trim cuts the dropped bytes off the first block, which is then spent.
func (b *blocks) trim() {
	if b.skip > 0 {
		b.list[0], b.skip = b.list[0][b.skip:], 0
	}
}

// join moves what other holds to the end.
func (b *blocks) join(other *blocks) {
	other.trim()
	b.list, b.size = append(b.list, other.list...), b.size+other.size
	*other = blocks{}
}

func (b *blocks) take() []byte {
	b.trim()
	out := make([]byte, 0, b.size)
	for i, block := range b.list {
		out = append(out, block...)
		b.list[i] = nil
	}
	*b = blocks{}
	return out
}
