package spool

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/control"
)

// spareNames are those in the directory.
func spareNames(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), sparePrefix) {
			names = append(names, e.Name())
		}
	}
	return names
}

// filled is Spares that are full, until the test ends them.
func filled(t *testing.T, store Store) (spares *Spares, end func()) {
	t.Helper()
	spares = NewSpares(store, true)
	ctx, cancel := context.WithCancel(t.Context())
	var filling sync.WaitGroup
	filling.Go(func() { spares.Fill(ctx) })
	for entries, _ := os.ReadDir(store.Dir); len(entries) <= spareCount; entries, _ = os.ReadDir(store.Dir) {
		time.Sleep(time.Millisecond)
	}
	return spares, func() {
		cancel()
		filling.Wait()
	}
}

// A spool that was a spare is like any other: it is found, belongs to one command at a
// time, and its socket answers. None is left after the process's end.
func TestSpares(t *testing.T) {
	store := Store{Dir: filepath.Join(t.TempDir(), "state", "spools"), Spooling: sandbox.Spooling{Age: time.Hour, Total: 1 << 20}}
	if err := os.Mkdir(filepath.Dir(filepath.Dir(store.Dir))+"/state", 0o700); err != nil {
		t.Fatal(err)
	}
	spares, end := filled(t, store)
	if list, err := store.All(); err != nil || len(list) > 0 {
		t.Errorf("before a command there are %+v, %v", list, err)
	}
	open := func(id string) *Spool {
		s := New(1<<20, sandbox.OutputTruncate)
		s.Spares = spares
		s.Open(store.Path(id), sandbox.LogInfo{ID: id, Command: strings.Repeat("\x01", 9999), Started: time.Now()})
		return s
	}
	s := open("ID")
	if s.Socket == nil || s.Dir != store.Path("ID") {
		t.Fatalf("it is not a spare: %+v", s)
	}
	asked := make(chan control.Request, 1)
	l := control.Serve(s.Socket, s.Dir, func(_ context.Context, r control.Request) error {
		asked <- r
		return nil
	})
	if err := control.Send(t.Context(), store.Path("ID"), control.Request{Kill: true}); err != nil || !(<-asked).Kill {
		t.Error(err)
	}
	l.Close()
	if err := s.Write(Stdout, []byte("text")); err != nil {
		t.Error(err)
	}
	if found := store.Find("ID"); !found.Running || found.ID != "ID" || found.Command == "" {
		t.Errorf("%+v", found)
	}
	if second := open("ID"); !second.Temporary {
		t.Error("it is used twice")
	} else {
		second.Remove()
	}
	if err := s.End(sandbox.LogEnd{Status: sandbox.StatusSuccess}, time.Hour); err != nil {
		t.Error(err)
	}
	s.Close()
	again := open("ID")
	if again.Temporary || again.Dir != store.Path("ID") {
		t.Errorf("%+v", again)
	}
	again.Close()
	end()
	if left := spareNames(t, store.Dir); len(left) > 0 {
		t.Error(left)
	}
	if none := open("late"); none.Temporary || none.Socket != nil {
		t.Errorf("%+v", none)
	} else {
		none.Close()
	}
}

// What a killed process left is removed, but neither what one has nor what it makes.
func TestSweepSpares(t *testing.T) {
	store := Store{Dir: filepath.Join(t.TempDir(), "spools"), Spooling: sandbox.Spooling{Age: time.Hour, Total: 1 << 20}}
	spares, end := filled(t, store)
	defer end()
	old := time.Now().Add(-time.Hour)
	for _, dir := range []string{"dead", "cut", "fresh"} {
		if err := os.Mkdir(store.Path(sparePrefix+dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(store.Path(sparePrefix+"dead"), noteName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range spareNames(t, store.Dir) {
		if name != sparePrefix+"fresh" {
			os.Chtimes(store.Path(name), old, old)
		}
	}
	if err := store.sweep(t.Context()); err != nil {
		t.Error(err)
	}
	if left := spareNames(t, store.Dir); len(left) <= spareCount || !strings.Contains(strings.Join(left, " "), "fresh") || strings.Contains(strings.Join(left, " "), "dead") || strings.Contains(strings.Join(left, " "), "cut") {
		t.Error(left)
	}
	if _, socket, ok := spares.open(store.Path("ID"), sandbox.LogInfo{ID: "ID"}); !ok {
		t.Error("no spare is left")
	} else {
		socket.Close()
	}
}
