package approvals

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"belljar/sandbox"
)

func TestAnsweredOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a Approvals
		got := make(chan sandbox.Approval, 1)
		go func() {
			answer, err := a.Approve(t.Context(), sandbox.Question{ID: "one"})
			if err != nil {
				t.Error(err)
			}
			got <- answer
		}()
		synctest.Wait()
		if _, err := a.Approve(t.Context(), sandbox.Question{ID: "one"}); err == nil {
			t.Error("a second question with the ID of the first")
		}
		name := a.Waiting()[0].Name
		if a.Answer("one", "", sandbox.Approval{}) || a.Answer("one", "another", sandbox.Approval{}) {
			t.Error("an answer to another question")
		}
		var answered atomic.Int64
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if a.Answer("one", name, sandbox.Approval{Answer: sandbox.AnswerOnce, By: "ann"}) {
					answered.Add(1)
				}
			})
		}
		all.Wait()
		if answer := <-got; answered.Load() != 1 || answer.By != "ann" || len(a.Waiting()) != 0 {
			t.Errorf("answered %d times, got %+v, %v wait", answered.Load(), answer, a.Waiting())
		}
	})
}

func TestDecline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a Approvals
		why := errors.New("no one is there")
		go func() {
			synctest.Wait()
			name := a.Waiting()[0].Name
			if !a.Decline("one", why) || a.Answer("one", name, sandbox.Approval{Answer: sandbox.AnswerOnce}) {
				t.Error("it is not declined once")
			}
		}()
		if answer, err := a.Approve(t.Context(), sandbox.Question{ID: "one"}); !errors.Is(err, why) || answer.Answer != "" {
			t.Errorf("%+v, %v", answer, err)
		}
	})
}

// A question whose time is over is not answered.
func TestGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a Approvals
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := a.Approve(ctx, sandbox.Question{ID: "one"})
		if !errors.Is(err, context.DeadlineExceeded) || a.Decline("one", nil) {
			t.Errorf("%v, or an answer after that", err)
		}
	})
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a Approvals
		question, stop := a.Watch("one")
		never, stopNever := a.Watch("two")
		stopNever()
		ctx, cancel := context.WithCancel(t.Context())
		for _, id := range []string{"one", "two", "three"} {
			go a.Approve(ctx, sandbox.Question{ID: id, Script: id})
		}
		q := <-question
		synctest.Wait()
		select {
		case <-q.Gone:
			t.Error("it is gone")
		default:
		}
		if len(never) != 0 || len(a.Waiting()) != 3 || len(a.watching) != 0 {
			t.Errorf("%d for who stopped, %d wait, %d watch", len(never), len(a.Waiting()), len(a.watching))
		}
		stop()
		if q.Script != "one" || !a.Answer("one", q.Name, sandbox.Approval{}) {
			t.Errorf("%+v", q)
		}
		<-q.Gone
		cancel()
		synctest.Wait()
		if len(a.Waiting()) != 0 {
			t.Error(a.Waiting())
		}
	})
}

// Whoever watches gets the question: one that waits already, too, and several do.
func TestWatchers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a Approvals
		first, stopFirst := a.Watch("one")
		second, _ := a.Watch("one")
		left, stopLeft := a.Watch("one")
		stopLeft()
		stopLeft()
		go a.Approve(t.Context(), sandbox.Question{ID: "one"})
		synctest.Wait()
		late, stopLate := a.Watch("one")
		for _, watched := range []<-chan Asked{first, second, late} {
			if q := <-watched; q.ID != "one" || q.Gone == nil {
				t.Errorf("%+v", q)
			}
		}
		stopFirst()
		stopLate()
		if len(left)+len(a.watching) != 0 {
			t.Errorf("%d questions for who left, %v", len(left), a.watching)
		}
		a.Answer("one", a.Waiting()[0].Name, sandbox.Approval{Answer: sandbox.AnswerOnce})
	})
}
