package client

import (
	"errors"
	"io"
	"sync"
)

// reading is the caller's source of a body. It remembers that a failure is the
// source's, and not the connection's.
type reading struct {
	from io.Reader
	mu   sync.Mutex
	err  error
}

func (r *reading) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.mu.Lock()
		r.err = err
		r.mu.Unlock()
	}
	return n, err
}

func (r *reading) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}
