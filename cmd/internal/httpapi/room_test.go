package httpapi

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"belljar/cmd/internal/access"
	"belljar/cmd/internal/problem"
	"belljar/sandbox"
)

// Results that are not read take the memory of their own caller's others, and no more.
func TestResultsMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{results: newRoom(resultsInMemory)}
		ann := access.With(t.Context(), access.Identity{Name: "ann"})
		bob := access.With(t.Context(), access.Identity{Name: "bob"})
		r := &sandbox.Result{Stdout: sandbox.Output{Head: make([]byte, 8<<20), Tail: make([]byte, 4<<20)}}
		var gives []func()
		for range 100 {
			give, err := s.roomForEnd(ann, r, false)
			if err != nil {
				break
			}
			gives = append(gives, give)
		}
		if len(gives) == 0 || len(gives)*12<<20 > resultsInMemory {
			t.Errorf("%d results at a time", len(gives))
		}
		began := time.Now()
		_, err := s.roomForEnd(ann, r, false)
		if p, ok := errors.AsType[*problem.Problem](err); !ok || p.Code != problem.Unavailable || time.Since(began) != roomWait {
			t.Errorf("one more: %v after %v", err, time.Since(began))
		}
		for _, small := range []*sandbox.Result{nil, {Stdout: sandbox.Output{Head: []byte("small")}}} {
			if _, err := s.roomForEnd(ann, small, false); err != nil {
				t.Error(err)
			}
		}
		give, err := s.roomForEnd(bob, r, false)
		if err != nil {
			t.Fatal(err)
		}
		gives = append(gives, give)
		late := make(chan error)
		go func() {
			give, err := s.roomForEnd(ann, r, false)
			if err == nil {
				give()
			}
			late <- err
		}()
		time.Sleep(time.Second)
		for _, give := range gives {
			give()
			give() // once counts
		}
		if err := <-late; err != nil {
			t.Errorf("once there is room: %v", err)
		}
		huge := &sandbox.Result{Stdout: sandbox.Output{Total: 1 << 40}}
		if give, err = s.roomFor(ann, huge.Stdout.Total); err != nil {
			t.Errorf("the largest: %v", err)
		} else {
			give()
		}
		if !s.results.isEmpty() {
			t.Errorf("room is left in use: %v", s.results.by)
		}
	})
}
