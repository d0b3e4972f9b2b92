package boxlink

import (
	"bytes"
	"io"
	"sync"
	"testing"
	"testing/synctest"
)

// slow is a connection of which each write waits until it is taken, and which has nothing to read.
type slow struct {
	writes chan []byte
	closed chan struct{}
	once   sync.Once
}

func (s *slow) Write(p []byte) (int, error) {
	select {
	case s.writes <- bytes.Clone(p):
		return len(p), nil
	case <-s.closed:
		return 0, io.ErrClosedPipe
	}
}

func (s *slow) Read([]byte) (int, error) {
	<-s.closed
	return 0, io.EOF
}

func (s *slow) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// Requests that come while one is written are written together.
func TestRequestsGoTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &slow{writes: make(chan []byte), closed: make(chan struct{})}
		l := Frames(conn)
		var all sync.WaitGroup
		ask := func() { all.Go(func() { l.Answers(t.Context()) }) }
		ask()
		synctest.Wait()
		for range 5 {
			ask()
		}
		synctest.Wait()
		for i, want := range []int{1, 5} {
			if text := <-conn.writes; bytes.Count(text, []byte{'\n'}) != want {
				t.Errorf("write %d has %q, want %d requests", i, text, want)
			}
			synctest.Wait()
		}
		l.Close()
		all.Wait()
	})
}
