package eval

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"belljar/eval/run"
	"belljar/eval/suite"
	"belljar/sandbox"

	"golang.org/x/sync/singleflight"
)

// Runner is what runs the containers.
type Runner interface {
	sandbox.Runner
	sandbox.Sessions
	sandbox.Files
}

// Watch is told how far a run is, where it wants to know.
type Watch struct {
	Begun func() // a trial
	Ended func(run.Result)
}

// Harness evaluates the tasks of a run.
type Harness struct {
	Runner   Runner
	Profile  string   // of all commands: without mounts, secrets and network
	Rooted   string   // the same with a root user and a writable root
	Dir      *run.Dir // where results go
	Tasks    []suite.Task
	Answers  *suite.Answers // with run.Solutions
	Program  Program        // with run.Program
	Earlier  *run.Dir       // with run.Regrade: whose artifacts are graded again
	Jobs     int            // trials at the same time; 0 is one
	Room     *Room          // what they share; nil counts Jobs only
	FailFast bool           // after the first trial that did not pass, no other starts
	Watch    Watch

	mu      sync.Mutex
	earlier map[run.Key]run.Result
	known   map[string]outcome   // see once
	finding singleflight.Group   // of once
	oracles map[string]artifacts // what the tasks' own solutions make, by trial.key
	seeds   map[string]artifacts // by image and working directory
	writing sync.Mutex
}

// Run evaluates what has no result yet, or only one that the infrastructure failed. The
// error is ours: a verdict is none. Cancelling ctx ends the trials that run, without a result.
func (h *Harness) Run(ctx context.Context) error {
	results, err := h.Dir.Results()
	if err != nil {
		return err
	}
	done := map[run.Key]run.Result{}
	for _, r := range results {
		done[r.Key()] = r
	}
	if h.Earlier != nil {
		list, err := h.Earlier.Results()
		if err != nil {
			return err
		}
		h.earlier = map[run.Key]run.Result{}
		for _, r := range list {
			h.earlier[r.Key()] = r
		}
	}
	if err := h.removeLeft(ctx); err != nil { // also where no trial had ended yet
		return err
	}
	whole, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	ctx, skip := context.WithCancelCause(whole)
	defer skip(nil)
	cancel := func(cause error) { // a failure of ours counts also once the rest is skipped
		if errors.Is(cause, errFailFast) {
			skip(cause)
		} else {
			fail(cause)
		}
	}
	jobs, all := make(chan *trial), sync.WaitGroup{}
	for range max(1, h.Jobs) {
		all.Go(func() {
			ended := make(chan struct{}, 1) // holds the trial before this one
			for t := range jobs {
				end := h.evaluate(ctx, cancel, t)
				ended <- struct{}{}
				all.Go(func() {
					end()
					<-ended
				})
			}
		})
	}
	h.feed(ctx, cancel, done, jobs)
	close(jobs)
	all.Wait()
	return context.Cause(whole)
}

// errFailFast ends a run whose first failure ends it.
var errFailFast = errors.New("a trial did not pass")

// feed hands out the trials that are not done.
func (h *Harness) feed(ctx context.Context, cancel context.CancelCauseFunc, done map[run.Key]run.Result, jobs chan<- *trial) {
	for number := 1; number <= max(1, h.Dir.Run.Trials); number++ {
		for i := range h.Tasks {
			t := &trial{harness: h, task: &h.Tasks[i], number: number}
			if before, again := done[run.Key{Task: t.task.ID, Trial: number}]; again && before.Final() {
				continue
			}
			select {
			case jobs <- t:
			case <-ctx.Done():
				if !errors.Is(context.Cause(ctx), errFailFast) {
					return
				}
				if err := h.add(t.notRun(0)); err != nil {
					cancel(err)
					return
				}
			}
		}
	}
}

// notRun is the result of a trial that was not run, or that was cut off, because another did not pass.
func (t *trial) notRun(attempts int) run.Result {
	t.harness.Dir.Forget(run.Key{Task: t.task.ID, Trial: t.number}) // what is left says nothing: no line names it
	return run.Result{Task: t.task.ID, Trial: t.number, Attempt: attempts, Verdict: run.Skipped, Started: time.Now(), Message: "not run: an earlier trial did not pass"}
}

// evaluate runs a trial, again if the infrastructure failed it. The function that it returns writes the
// result, once the trial's containers are gone: the next trial does not wait for that.
func (h *Harness) evaluate(ctx context.Context, cancel context.CancelCauseFunc, t *trial) (end func()) {
	r, isWhole := h.attempts(ctx, cancel, t)
	if isWhole && h.FailFast && r.Verdict != run.Passed && r.Verdict != run.Skipped {
		cancel(errFailFast)
	}
	return func() {
		t.closed(&r)
		if !isWhole {
			return
		}
		if err := h.add(r); err != nil {
			cancel(err)
		}
	}
}

// attempts returns the last result, which is whole unless the run was cut off.
func (h *Harness) attempts(ctx context.Context, cancel context.CancelCauseFunc, t *trial) (r run.Result, isWhole bool) {
	for attempt := 1; ; attempt++ {
		if errors.Is(context.Cause(ctx), errFailFast) {
			return t.notRun(attempt - 1), true
		}
		if ctx.Err() != nil || !h.Room.take(ctx, t.task) {
			return r, false
		}
		if attempt == 1 && h.Watch.Begun != nil {
			h.Watch.Begun()
		}
		if err := h.Dir.Forget(run.Key{Task: t.task.ID, Trial: t.number}); err != nil {
			cancel(fmt.Errorf("removing the logs of an earlier attempt: %w", err))
			return r, false
		}
		r = t.run(ctx)
		h.Room.give(t.task)
		r.Attempt = attempt
		if ctx.Err() != nil && !errors.Is(context.Cause(ctx), errFailFast) {
			return r, false // it was cut off
		}
		if r.Verdict != run.Error || r.Side != run.Infrastructure {
			return r, true
		}
		if errors.Is(context.Cause(ctx), errFailFast) { // it was cut off
			return t.notRun(attempt), true
		}
		if err := h.recovered(ctx); err != nil {
			cancel(err)
			return r, true
		}
		if attempt > h.Dir.Run.Options.Retries {
			return r, true
		}
	}
}

const (
	// engineRetry is the pause until an engine that failed is asked again.
	engineRetry = 500 * time.Millisecond
	// engineDown is how long one may not answer before the run ends.
	engineDown = 2 * time.Minute
)

// recovered waits until the engine answers, after the infrastructure failed a trial: while it restarts, it
// would fail all others, too.
func (h *Harness) recovered(ctx context.Context) error {
	waiting, cancel := context.WithTimeout(ctx, engineDown)
	defer cancel()
	for {
		_, err := h.Runner.Sessions(waiting)
		if err == nil || ctx.Err() != nil {
			return nil
		}
		select {
		case <-time.After(engineRetry):
		case <-waiting.Done():
			return fmt.Errorf("the engine does not answer; once it does, belljar eval resume does the rest: %w", err)
		}
	}
}

func (h *Harness) add(r run.Result) error {
	h.writing.Lock()
	defer h.writing.Unlock()
	if err := h.Dir.Add(r); err != nil {
		return fmt.Errorf("writing a result: %w", err)
	}
	if h.Watch.Ended != nil {
		h.Watch.Ended(r)
	}
	return nil
}

// sessions is what the names of the run's sessions begin with.
func (h *Harness) sessions() string { return "eval-" + strings.ToLower(h.Dir.Run.ID) + "-" }

// removeLeft removes the containers that a killed belljar left of this run.
func (h *Harness) removeLeft(ctx context.Context) error {
	list, err := h.Runner.Sessions(ctx)
	if err != nil {
		return err
	}
	for _, s := range list {
		if strings.HasPrefix(s.Name, h.sessions()) {
			if err := h.Runner.RemoveSession(ctx, s.Name); err != nil {
				return err
			}
		}
	}
	return nil
}
