package gate

import (
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"belljar/sandbox"
)

// After the engine stops reading, nothing is delivered, and a Read ends.
func TestGateStdinEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, o := quietGate()
		read := make(chan error)
		go func() {
			_, err := g.in.Read(make([]byte, 1))
			read <- err
		}()
		synctest.Wait()
		for range 2 {
			if err := g.in.SetReadDeadline(time.Now()); err != nil {
				t.Error(err)
			}
		}
		if err := <-read; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
		if tell(g, sandbox.Command{Dir: "/", Script: "x"}, o) || g.in.send(nil) || g.in.finish(nil, nil) {
			t.Error("delivered to a gate that has ended")
		}
		if g.stdout != nil {
			t.Error("its words are passed on as command output")
		}
	})
}
