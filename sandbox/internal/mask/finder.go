package mask

// finder finds many patterns at once in a stream of bytes: the automaton
// of Aho and Corasick. Its state is the longest prefix of a pattern that is a suffix
// of the bytes so far, so previous bytes need not be kept.
//
// There is a node for each byte of a pattern; patterns with a common prefix share
// nodes. A table of 256 in each would be faster, but half a gigabyte for a secret of
// 64 KiB.
type finder struct {
	nodes []finderNode // the first is the state without a match
	root  [256]int32   // the nodes below the first, by their byte; 0 is none
}

type finderNode struct {
	fail    int32 // the state of the longest proper suffix that is a prefix
	child   int32 // the first of its children; 0 is none
	sibling int32
	depth   int32 // bytes until here
	found   int32 // the longest pattern that ends here, in bytes; 0 is none
	open    int32 // the longest suffix that may become a pattern, or a longer one
	byte    byte
}

// newFinder finds these patterns. None may be empty.
func newFinder(patterns []string) *finder {
	size := 1
	for _, p := range patterns {
		size += len(p)
	}
	f := &finder{nodes: make([]finderNode, 1, size)}
	for _, p := range patterns {
		f.add(p)
	}
	f.link()
	return f
}

func (f *finder) add(pattern string) {
	at := int32(0)
	for i := range len(pattern) {
		next := f.below(at, pattern[i])
		if next == 0 {
			next = f.grow(at, pattern[i])
		}
		at = next
	}
	f.nodes[at].found = f.nodes[at].depth
}

func (f *finder) grow(at int32, b byte) int32 {
	next, parent := int32(len(f.nodes)), &f.nodes[at]
	n := finderNode{byte: b, depth: parent.depth + 1}
	if at == 0 {
		f.root[b] = next
	} else {
		n.sibling, parent.child = parent.child, next
	}
	f.nodes = append(f.nodes, n)
	return next
}

// below is a node's child for that byte, 0 if there is none.
func (f *finder) below(at int32, b byte) int32 {
	if at == 0 {
		return f.root[b]
	}
	next := f.nodes[at].child
	for next != 0 && f.nodes[next].byte != b {
		next = f.nodes[next].sibling
	}
	return next
}

// link sets fields that need the whole tree: shallow nodes first, since
// deeper ones fail to them.
func (f *finder) link() {
	queue := make([]int32, 0, len(f.nodes))
	for _, n := range f.root {
		if n != 0 {
			queue = append(queue, n)
		}
	}
	for i := 0; i < len(queue); i++ {
		n := &f.nodes[queue[i]]
		for c := n.child; c != 0; c = f.nodes[c].sibling {
			f.nodes[c].fail = f.step(n.fail, f.nodes[c].byte)
			queue = append(queue, c)
		}
		fail := f.nodes[n.fail]
		if n.found == 0 {
			n.found = fail.found
		}
		if n.open = n.depth; n.child == 0 {
			n.open = fail.open
		}
	}
}

// step is the state after one more byte.
func (f *finder) step(state int32, b byte) int32 {
	for state != 0 {
		if next := f.below(state, b); next != 0 {
			return next
		}
		state = f.nodes[state].fail
	}
	return f.root[b]
}
