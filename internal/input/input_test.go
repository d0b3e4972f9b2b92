package input

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

func TestBroken(t *testing.T) {
	for err, want := range map[error]bool{
		nil: false, io.EOF: false, io.ErrClosedPipe: false, net.ErrClosed: false,
		&fs.PathError{Err: fs.ErrClosed}:             false,
		&fs.PathError{Err: os.ErrDeadlineExceeded}:   false,
		&fs.PathError{Err: syscall.EISDIR}:           true,
		&fs.PathError{Err: syscall.EIO}:              true,
		fmt.Errorf("a tar: %w", io.ErrUnexpectedEOF): true,
	} {
		if Broken(err) != want {
			t.Errorf("%v: %v", err, !want)
		}
	}
}

// A Reader that failed hands on what it read, and then waits until it is given up.
func TestReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failure := errors.New("broken")
		touched := 0
		r, from := New(withDeadline{io.MultiReader(strings.NewReader("half"), iotest.ErrReader(failure))}, func() { touched++ })
		read := make(chan error, 1)
		var got strings.Builder
		copied := func() { _, err := io.Copy(&got, from); read <- err }
		go copied()
		if err := <-r.Failed(); !errors.Is(err, failure) || touched != 1 {
			t.Errorf("failed with %v, touched %d times", err, touched)
		}
		synctest.Wait()
		if len(read) > 0 {
			t.Error("the input ended")
		}
		d := from.(deadliner)
		d.SetReadDeadline(time.Now())
		if err := <-read; !errors.Is(err, failure) || got.String() != "half" {
			t.Errorf("read %q, %v", got.String(), err)
		}
		d.SetReadDeadline(time.Time{})
		go copied()
		synctest.Wait()
		if len(read) > 0 {
			t.Error("the second reader sees an end")
		}
		r.Close()
		<-read
	})
}

type withDeadline struct{ io.Reader }

func (withDeadline) SetReadDeadline(time.Time) error { return nil }

// An input without a deadline has none.
func TestReaderWithoutDeadline(t *testing.T) {
	_, from := New(strings.NewReader("all"), func() {})
	if _, can := from.(deadliner); can {
		t.Error("it has a deadline")
	}
	if all, err := io.ReadAll(from); string(all) != "all" || err != nil {
		t.Errorf("%q, %v", all, err)
	}
}
