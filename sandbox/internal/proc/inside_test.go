package proc

import (
	"fmt"
	"testing"
	"time"
)

// A process that is only giving its memory back does nothing more: it is not left. One whose first thread ended is.
func TestParseInsideOfOneThatEnds(t *testing.T) {
	for _, test := range []struct {
		flags, threads int
		runs           bool
	}{{0, 1, true}, {4, 1, false}, {4, 2, true}} {
		stat := fmt.Sprintf("7 (python3) R 1 7 7 0 -1 %d 0 0 0 0 0 0 0 0 20 0 %d 0 5 0 100000 0", test.flags, test.threads)
		if _, runs := ParseInside(stat, "Uid:\t1\t1\t1\t1\n", "python3\x00", time.Second); runs != test.runs {
			t.Errorf("flags %d, %d threads: %v", test.flags, test.threads, runs)
		}
	}
}
