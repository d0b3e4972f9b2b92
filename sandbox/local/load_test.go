package local_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"belljar/sandbox"
)

// hesitant approves once it may.
type hesitant chan struct{}

func (h hesitant) Approve(context.Context, sandbox.Question) (sandbox.Approval, error) {
	<-h
	return sandbox.Approval{Answer: sandbox.AnswerOnce, By: "test"}, nil
}

func TestLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		may := make(hesitant)
		c := newCrowd(t, sandbox.Admission{MaxRunning: 2, MaxQueued: 10, MaxWait: 10 * time.Hour})
		c.Approver = may
		asking := profile()
		asking.Policy = verdict{Decision: sandbox.Ask}
		c.Profiles["asking"] = asking
		want := func(when string, running, waiting, asking int) {
			t.Helper()
			synctest.Wait()
			if r, w, a := c.Load(); r != running || w != waiting || a != asking {
				t.Errorf("%s: %d run, %d wait, %d ask; want %d, %d, %d", when, r, w, a, running, waiting, asking)
			}
		}
		want("at rest", 0, 0, 0)
		var list []sandbox.Execution
		for range 3 {
			list = append(list, c.start(t.Context(), t, "1h"))
		}
		asked := make(chan error)
		go func() {
			_, err := sandbox.Run(t.Context(), c, sandbox.Command{Script: "1s", Profile: "asking"})
			asked <- err
		}()
		want("with three and a question", 2, 1, 1)
		close(may)
		want("with the answer", 2, 2, 0)
		for _, x := range list {
			x.Wait()
		}
		if err := <-asked; err != nil {
			t.Error(err)
		}
		want("in the end", 0, 0, 0)
	})
}
