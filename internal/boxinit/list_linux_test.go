package boxinit

import (
	"os"
	"testing"

	"belljar/internal/boxinit/wire"
)

// Once a list is full no further process is read for it, and what was read in vain counts as memory to collect.
func TestAFullListReadsNoFurtherProcess(t *testing.T) {
	read := func(pids ...int) int {
		l := listing{found: map[int]process{}, size: wire.MaxListing}
		if l.read(pids, true); len(l.found) != 0 || !l.full {
			t.Errorf("%d are in a full list, which is full: %v", len(l.found), l.full)
		}
		return l.allocated
	}
	const aRecord = 200 // is shorter than any
	one, two := read(os.Getpid()), read(os.Getpid(), os.Getppid())
	if one < aRecord || two >= one+aRecord {
		t.Errorf("%d bytes are read of one process, %d of two", one, two)
	}
}
