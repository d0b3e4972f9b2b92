// Package spare keeps things ready that take long to make, as files do on a file system where
// many were removed lately.
package spare

import (
	"context"
	"time"
)

const (
	pause = 20 * time.Millisecond // after one was taken: what it is for comes first
	retry = time.Second           // after one could not be made
)

// Stock has things that no one has taken yet.
type Stock[T any] struct {
	create  func() (T, error)
	discard func(T)
	ready   chan T
}

// New has room for n. None is ready until Fill is called.
func New[T any](n int, create func() (T, error), discard func(T)) *Stock[T] {
	return &Stock[T]{create, discard, make(chan T, n)}
}

// Take is one that is ready, if there is one.
func (s *Stock[T]) Take() (made T, ok bool) {
	select {
	case made = <-s.ready:
		return made, true
	default:
		return made, false
	}
}

// Fill makes more until ctx ends, and then discards those that are left. Of one that cannot be
// made it says nothing: who needs it finds out.
func (s *Stock[T]) Fill(ctx context.Context) {
	for ctx.Err() == nil {
		made, err := s.create()
		if err != nil {
			wait(ctx, retry)
			continue
		}
		select {
		case s.ready <- made:
			continue
		default:
		}
		select {
		case s.ready <- made:
			wait(ctx, pause)
		case <-ctx.Done():
			s.discard(made)
		}
	}
	for made, ok := s.Take(); ok; made, ok = s.Take() {
		s.discard(made)
	}
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
