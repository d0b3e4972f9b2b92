package local

import (
	"bytes"
	"io"
	"sync"
)

const (
	// filesQueued is how much of a script's output waits for its reader, and filesLast how
	// much once the script has ended: an engine that still has some to deliver then cannot
	// remove the container (moby#41827), for another process either.
	filesQueued = 1 << 20
	filesLast   = 16 << 20
)

// filesQueue is a pipe that holds output back in memory.
type filesQueue struct {
	mu    sync.Mutex
	moved *sync.Cond
	text  bytes.Buffer
	most  int
	ended bool  // no more is written
	gone  error // why it is not read any more
}

func newFilesQueue() *filesQueue {
	q := &filesQueue{most: filesQueued}
	q.moved = sync.NewCond(&q.mu)
	return q
}

// change changes a field, and wakes both sides.
func (q *filesQueue) change(change func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	change()
	q.moved.Broadcast()
}

func (q *filesQueue) widen()          { q.change(func() { q.most = filesLast }) }
func (q *filesQueue) end()            { q.change(func() { q.ended = true }) }
func (q *filesQueue) close(why error) { q.change(func() { q.gone = why; q.text.Reset() }) }

// Write waits until there is room. What is not read any more is dropped.
func (q *filesQueue) Write(p []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.text.Len() >= q.most && q.gone == nil {
		q.moved.Wait()
	}
	if q.gone == nil {
		q.text.Write(p)
		q.moved.Broadcast()
	}
	return len(p), nil
}

func (q *filesQueue) Read(p []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.text.Len() == 0 && !q.ended && q.gone == nil {
		q.moved.Wait()
	}
	switch {
	case q.gone != nil:
		return 0, q.gone
	case q.text.Len() == 0:
		return 0, io.EOF
	}
	q.moved.Broadcast()
	return q.text.Read(p)
}
