package sandboxtest

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"belljar/sandbox"
)

// FullRunner is a Runner with everything else that front ends need.
type FullRunner interface {
	sandbox.Runner
	sandbox.Preparer
	sandbox.Sessions
	sandbox.Logs
	sandbox.Pools
}

// TestRunner is the suite that every Runner passes. Each test opens a new one
// with the given Behind, views of package view, kept outputs, and a pool
// if the profile has one. The open function registers the Runner's end with t.Cleanup,
// and checks there what it left behind.
//
// Nothing here measures time: tests wait for events.
func TestRunner(t *testing.T, open func(t *testing.T, b Behind) FullRunner) {
	for _, group := range []map[string]func(*testing.T, *opener){
		runnerEventTests, runnerCancelTests, runnerEndTests, runnerRefusalTests, runnerInputTests, runnerViewTests, runnerReadTests, runnerLogTests, runnerSessionTests, runnerSignalTests, runnerCallerTests, runnerFileTests,
	} {
		for name, test := range group {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				test(t, &opener{ctx: ctx, open: open})
			})
		}
	}
}

// opener opens a test's Runner.
type opener struct {
	ctx  context.Context
	open func(t *testing.T, b Behind) FullRunner
}

func (o *opener) runner(t *testing.T, change ...func(*Behind)) *runner {
	t.Helper()
	b := Behind{Profile: sandbox.Profile{
		Image: "belljar/base", Pull: sandbox.PullMissing,
		Timeout: 10 * time.Minute, IdleTimeout: sandbox.NoIdleTimeout, MaxTimeout: time.Hour,
		Workdir: "/work", User: user,
		Limits:  sandbox.Limits{Memory: 128 << 20, CPUs: 1, Pids: 64, Output: 16 << 20, Tmp: 8 << 20, Files: 256},
		Network: "none", OnOutputLimit: sandbox.OutputTruncate, OnTimeout: sandbox.EndContainer,
		Session:   sandbox.SessionLife{Idle: 30 * time.Minute, Max: time.Hour},
		LiveEvery: 10 * time.Millisecond, AskTimeout: time.Hour,
	}}
	for _, change := range change {
		change(&b)
	}
	return &runner{FullRunner: o.open(t, b), ctx: o.ctx}
}

// runner is a test's Runner, and the test's deadline.
type runner struct {
	FullRunner
	ctx context.Context
}

// command is a running command.
type command struct {
	sandbox.Execution
	cancel context.CancelFunc
}

func (r *runner) start(t *testing.T, script string, change ...func(*sandbox.Command)) *command {
	t.Helper()
	c := sandbox.Command{Script: script}
	for _, change := range change {
		change(&c)
	}
	ctx, cancel := context.WithCancel(r.ctx)
	t.Cleanup(cancel)
	x, err := r.Start(ctx, c)
	if err != nil {
		t.Fatalf("Start of %q: %v", script, err)
	}
	return &command{x, cancel}
}

// run runs a script to its end, of any kind.
func (r *runner) run(t *testing.T, script string, change ...func(*sandbox.Command)) sandbox.Result {
	t.Helper()
	return r.start(t, script, change...).wait(t)
}

// wait expects an error exactly for a fatal or denied result, and the same one in it.
func (c *command) wait(t *testing.T) sandbox.Result {
	t.Helper()
	r, err := c.Wait()
	wantResultError(t, r, err)
	return r
}

func wantResultError(t *testing.T, r sandbox.Result, err error) {
	t.Helper()
	failed := r.Status == sandbox.StatusFatal || r.Status == sandbox.StatusDenied
	if failed != (err != nil) || failed != (r.Error != nil) {
		t.Errorf("status %s with error %v, and %v in the result", r.Status, err, r.Error)
	} else if failed && (sandbox.CauseOf(err) != r.Cause || err.Error() != r.Error.Error() || err.Error() != r.Message) {
		t.Errorf("error %q of cause %s; result %s: %q, %q", err, sandbox.CauseOf(err), r.Cause, r.Message, r.Error)
	}
}

// await reads events until the command wrote text to stdout.
func (c *command) await(t *testing.T, text string) {
	t.Helper()
	seen := ""
	for e := range c.Events() {
		if e.Type == sandbox.EventStdout {
			seen += string(e.Data)
		}
		if strings.Contains(seen, text) {
			return
		}
	}
	t.Fatalf("waiting for %q, got %q", text, seen)
}

// awaitStart reads events until the command started.
func (c *command) awaitStart(t *testing.T) {
	t.Helper()
	for e := range c.Events() {
		if e.Type == sandbox.EventStart {
			return
		}
	}
	t.Fatal("it never started")
}

// events are all remaining events: numbered without a gap, first a start if the
// command started, and last one result.
func (c *command) events(t *testing.T) (list []sandbox.Event) {
	t.Helper()
	for e := range c.Events() {
		list = append(list, e)
	}
	started := false
	for i, e := range list {
		if e.Seq != list[0].Seq+uint64(i) {
			t.Errorf("event %d of %d has number %d, and the first has %d", i+1, len(list), e.Seq, list[0].Seq)
		}
		if e.Time.IsZero() {
			t.Errorf("event %d has no time", e.Seq)
		}
		if last := i == len(list)-1; (e.Type == sandbox.EventResult) != last || (e.Result != nil) != last {
			t.Errorf("event %d of %d is a %s with result %v", i+1, len(list), e.Type, e.Result)
		}
		if !started && (e.Type == sandbox.EventStdout || e.Type == sandbox.EventStderr || e.Type == sandbox.EventView) {
			t.Errorf("a %s before the start", e.Type)
		}
		started = started || e.Type == sandbox.EventStart || list[0].Seq > 1
	}
	if len(list) == 0 {
		t.Fatal("there are no events, not even a result")
	}
	return list
}

func wantFate(t *testing.T, r sandbox.Result, status sandbox.Status, cause sandbox.Cause, exitCode int) {
	t.Helper()
	if r.Status != status || r.Cause != cause || r.ExitCode != exitCode {
		t.Errorf("%s, %s, exit code %d (%s); want %s, %s, %d", r.Status, r.Cause, r.ExitCode, r.Message, status, cause, exitCode)
	}
}

func wantOutput(t *testing.T, name string, o sandbox.Output, want string) {
	t.Helper()
	if string(o.Bytes()) != want || o.Dropped != 0 || o.Total != int64(len(want)) || o.Lines != int64(strings.Count(want, "\n")) {
		t.Errorf("%s: %.100q, dropped %d of %d, %d lines; want %.100q", name, o.Bytes(), o.Dropped, o.Total, o.Lines, want)
	}
}

// readAll reads to the end. The number of missed bytes is counted separately.
func readAll(ctx context.Context, t *testing.T, r sandbox.Reader, err error) (text string, missed int64) {
	t.Helper()
	if err != nil {
		t.Fatalf("opening the reader: %v", err)
	}
	defer closing(t, r)
	var all strings.Builder
	for {
		c, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			return all.String(), missed
		}
		if err != nil {
			t.Fatalf("Next after %d bytes: %v", all.Len(), err)
		}
		missed += c.Missed
		all.Write(c.Data)
	}
}

func closing(t *testing.T, c io.Closer) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}
