package httpapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"belljar/cmd/internal/problem"
)

// dripping is a body that comes in parts, with a pause before each.
type dripping struct {
	part  int
	pause time.Duration
	left  int
}

func (d *dripping) Read(p []byte) (int, error) {
	if d.left == 0 {
		return 0, io.EOF
	}
	time.Sleep(d.pause)
	n := min(len(p), d.part, d.left)
	d.left -= n
	return n, nil
}

// read reads a body, and closes it after the time that it takes to parse it.
func read(ctx context.Context, l *large, caller string, from io.Reader) error {
	b := &body{large: l, caller: caller, sum: sha256.New(), turn: func() {}}
	defer b.close()
	err := b.readAll(ctx, from)
	if err == nil {
		time.Sleep(2 * time.Second)
	}
	return err
}

func (r *room) isEmpty() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.used == 0 && len(r.by) == 0
}

func (l *large) wantEmpty(t *testing.T) {
	t.Helper()
	if !l.memory.isEmpty() || !l.disk.isEmpty() || len(l.parsing) > 0 {
		t.Errorf("room is left in use: %v, %v, %d parsing", l.memory.by, l.disk.by, len(l.parsing))
	}
}

// Once a bug: two clients that sent large bodies slowly kept those of all others out.
func TestSlowSendersKeepNoOneOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const max = 1 << 20
		l, slow := newLarge(max, t.TempDir()), make(chan error)
		for range 40 {
			go func() {
				slow <- read(t.Context(), l, "slow", &dripping{part: 16 << 10, pause: time.Second, left: max})
			}()
		}
		time.Sleep(20 * time.Second)
		began := time.Now()
		for range 3 {
			if err := read(t.Context(), l, "quick", &dripping{part: 64 << 10, left: max}); err != nil || time.Since(began) > 10*time.Second {
				t.Errorf("another one took %v: %v", time.Since(began), err)
			}
		}
		for range 40 {
			p, ok := errors.AsType[*problem.Problem](<-slow)
			if !ok || p.Status != http.StatusRequestTimeout && p.Status != http.StatusServiceUnavailable {
				t.Errorf("a slow one: %v", p)
			}
		}
		l.wantEmpty(t)
	})
}

// Bodies that come at the same time are parsed one after the other.
func TestLargeBodiesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const max = 1 << 20
		l, done, began := newLarge(max, t.TempDir()), make(chan error), time.Now()
		for range 4 {
			go func() {
				done <- read(t.Context(), l, "a", &dripping{part: 64 << 10, pause: time.Millisecond, left: max})
			}()
		}
		for range 4 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(began); took < 8*time.Second {
			t.Errorf("all took %v", took)
		}
		l.wantEmpty(t)
	})
}

// A body that is quick enough is not cut, and a small one may take its time.
func TestSteadySenders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLarge(16<<20, t.TempDir())
		for _, from := range []*dripping{{part: 80 << 10, pause: time.Second, left: 10 << 20}, {part: 1 << 10, pause: time.Second, left: smallBody}} {
			if err := read(t.Context(), l, "a", from); err != nil {
				t.Error(err)
			}
		}
		l.wantEmpty(t)
	})
}

func TestBodyBounds(t *testing.T) {
	for _, max := range []int{1 << 10, smallBody, smallBody + 1, 1<<20 - 1} {
		l := newLarge(int64(max), t.TempDir())
		text := strings.Repeat("0123456789abcdef", max/16+1)
		b := &body{large: l, sum: sha256.New(), turn: func() {}}
		var got bytes.Buffer
		err := b.readAll(t.Context(), strings.NewReader(text[:max]))
		if _, failed := io.Copy(&got, b); err != nil || failed != nil || got.String() != text[:max] {
			t.Errorf("%d: %v, %v, %d bytes", max, err, failed, got.Len())
		}
		b.close()
		large, ok := errors.AsType[*http.MaxBytesError](read(t.Context(), l, "", strings.NewReader(text[:max+1])))
		if !ok || large.Limit != int64(max) {
			t.Errorf("%d: %v", max, large)
		}
		l.wantEmpty(t)
		if left, err := os.ReadDir(l.dir); err != nil || len(left) > 0 {
			t.Errorf("%v, %v", left, err)
		}
	}
}
