package audit

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A process that waits too long is refused, and does not hang.
func TestLockIsHeld(t *testing.T) {
	l := newLog(t)
	add(t, l, "a")
	h, err := lockHead(l.File, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	defer h.close()
	if _, err := lockHead(l.File, time.Now().Add(20*time.Millisecond)); err == nil || !strings.Contains(err.Error(), "was locked for 5s (find out by which process: fuser -v ") {
		t.Error(err)
	}
}

// The longest waiting processes tried least often: of 50 that write continuously,
// some were refused after 5 s. Here all write until the last has its records: if one
// starves, the others write without end.
func TestLockIsFair(t *testing.T) {
	const writers, each, most = 50, 10, 40
	first := newLog(t)
	var records, left atomic.Int64
	left.Store(writers)
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			l := &Log{File: first.File}
			for n := 1; left.Load() > 0; n++ {
				if err := l.Record(entry(fmt.Sprint(i))); err != nil {
					t.Errorf("writer %d: %v", i, err)
					left.Store(0)
				}
				if records.Add(1); n == each {
					left.Add(-1)
				}
				if now := left.Load(); records.Load() > writers*most && left.CompareAndSwap(now, 0) && now > 0 {
					t.Errorf("%d have not had %d records, when all together have %d", now, each, records.Load())
				}
			}
		})
	}
	all.Wait()
	t.Log(records.Load(), "records")
	wantRecords(t, first, records.Load())
}
