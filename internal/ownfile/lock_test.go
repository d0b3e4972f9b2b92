package ownfile

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A file that a program has open, which someone was just starting when they were killed, is free
// in a moment.
func TestLockSoon(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	open := func() *os.File {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	killed, next := open(), open()
	if err := Lock(killed, Exclusive, 0); err != nil {
		t.Fatal(err)
	}
	starting := exec.Command("sleep", "0.3")
	starting.ExtraFiles = []*os.File{killed}
	if err := starting.Start(); err != nil {
		t.Fatal(err)
	}
	defer starting.Wait()
	killed.Close()
	if err := Lock(next, Exclusive, 0); !IsTaken(err) {
		t.Fatalf("the program does not have it: %v", err)
	}
	if err := LockSoon(next, Exclusive, 0); err != nil {
		t.Error(err)
	}
}
