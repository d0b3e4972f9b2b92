package local

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A FIFO that replaces a file, at any moment, does not block.
func TestSecretIsNotReadFromAFIFO(t *testing.T) {
	dir := t.TempDir()
	name, fifo, file := filepath.Join(dir, "name"), filepath.Join(dir, "fifo"), filepath.Join(dir, "file")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{name, file} {
		if err := os.WriteFile(f, []byte("the value"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	stop, swaps := make(chan struct{}), sync.WaitGroup{}
	swaps.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			swapped := filepath.Join(dir, "swapped")
			os.Link([]string{fifo, file}[i%2], swapped)
			os.Rename(swapped, name)
		}
	})
	defer swaps.Wait()
	defer close(stop)
	for range 3000 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		text, err := readSecret(ctx, name)
		late := ctx.Err()
		cancel()
		if late != nil {
			t.Fatal("it waits for a writer")
		}
		if err == nil && text != "the value" {
			t.Fatalf("read %q", text)
		}
	}
}
