package local_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/local"
	"belljar/sandbox/sandboxtest"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if !servedPipe() {
		goleak.VerifyTestMain(m)
	}
}

// profile is the shipped default without its pool, for long commands, too.
func profile() sandbox.Profile {
	p := sandbox.Defaults().Profile
	p.MaxTimeout, p.Pool = 24*time.Hour, sandbox.PoolSize{Max: sandbox.NoPool}
	return p
}

func newLocal(e *sandboxtest.Engine) *local.Local {
	return &local.Local{Engine: e, Images: &sandboxtest.Images{}, Profiles: map[string]sandbox.Profile{"default": profile()}}
}

// playing is an engine on which every command runs play.
func playing(play func(p *sandboxtest.Proc) int) *sandboxtest.Engine {
	return &sandboxtest.Engine{Script: play}
}

// command has a name for a script, which the fake does not read.
func command() sandbox.Command { return sandbox.Command{Script: "the script"} }

func begin(t *testing.T, e *sandboxtest.Engine, c sandbox.Command) sandbox.Execution {
	t.Helper()
	x, err := newLocal(e).Start(t.Context(), c)
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	return x
}

// run runs a command to its end and wants no container left.
func run(t *testing.T, e *sandboxtest.Engine, c sandbox.Command) sandbox.Result {
	t.Helper()
	r, err := begin(t, e, c).Wait()
	if fatal := r.Status == sandbox.StatusFatal || r.Status == sandbox.StatusDenied; fatal != (err != nil) {
		t.Errorf("status %s with error %v", r.Status, err)
	}
	wantNoneLeft(t, e)
	return r
}

func wantNoneLeft(t *testing.T, e *sandboxtest.Engine) {
	t.Helper()
	if n := len(e.Left()); n > 0 {
		t.Errorf("%d containers left", n)
	}
}

func wantFate(t *testing.T, r sandbox.Result, status sandbox.Status, cause sandbox.Cause, exitCode int) {
	t.Helper()
	if r.Status != status || r.Cause != cause || r.ExitCode != exitCode {
		t.Errorf("%s, %s, exit code %d (%s); want %s, %s, %d", r.Status, r.Cause, r.ExitCode, r.Message, status, cause, exitCode)
	}
}

func wantStream(t *testing.T, name string, o sandbox.Output, want string) {
	t.Helper()
	if string(o.Bytes()) != want || o.Dropped != 0 || o.Total != int64(len(want)) {
		t.Errorf("%s: %.100q, dropped %d of %d; want %.100q", name, o.Bytes(), o.Dropped, o.Total, want)
	}
}

// wantAfter wants that the bubble's clock moved on by d.
func wantAfter(t *testing.T, began time.Time, d time.Duration) {
	t.Helper()
	if got := time.Since(began); got != d {
		t.Errorf("ended after %v, want %v", got, d)
	}
}

// wantEvents reads the events to their end: numbered without a gap, a start
// first, if the command started, and one result last.
func wantEvents(t *testing.T, x sandbox.Execution) (list []sandbox.Event) {
	t.Helper()
	for e := range x.Events() {
		list = append(list, e)
		if e.Seq != uint64(len(list)) {
			t.Errorf("event %d has number %d", len(list), e.Seq)
		}
		if (e.Type == sandbox.EventResult) != (e.Result != nil) {
			t.Errorf("event %s with result %v", e.Type, e.Result)
		}
	}
	for i, e := range list {
		if e.Type == sandbox.EventStart && i != 0 || (e.Type == sandbox.EventResult) != (i == len(list)-1) {
			t.Errorf("event %d of %d is a %s", i+1, len(list), e.Type)
		}
	}
	return list
}

func sleep(d time.Duration) func(p *sandboxtest.Proc) int {
	return func(p *sandboxtest.Proc) int { p.Sleep(d); return 0 }
}

// say writes to stdout, then sleeps for an hour.
func say(text string) func(p *sandboxtest.Proc) int {
	return func(p *sandboxtest.Proc) int {
		fmt.Fprint(p.Stdout, text)
		p.Sleep(time.Hour)
		return 0
	}
}

// cancelAfter is a context that is cancelled after d.
func cancelAfter(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	timer := time.AfterFunc(d, cancel)
	t.Cleanup(func() { timer.Stop(); cancel() })
	return ctx
}

func pools(l *local.Local) []sandbox.PoolStatus {
	list, _ := l.Pools(context.Background()) // which has no error
	return list
}
