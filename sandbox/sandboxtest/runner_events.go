package sandboxtest

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"belljar/sandbox"
)

var runnerEventTests = map[string]func(*testing.T, *opener){
	"events are complete and in order": func(t *testing.T, o *opener) {
		x := o.runner(t).start(t, scriptBoth)
		list := x.events(t)
		if list[0].Type != sandbox.EventStart || list[0].Seq != 1 {
			t.Errorf("the first event is %d, a %s", list[0].Seq, list[0].Type)
		}
		said := map[sandbox.EventType]string{}
		for _, e := range list {
			said[e.Type] += string(e.Data)
		}
		if said[sandbox.EventStdout] != "out\n" || said[sandbox.EventStderr] != "err\n" {
			t.Errorf("%q", said)
		}
		wantSame(t, x.wait(t), *list[len(list)-1].Result)
	},
	"the start event describes the command": func(t *testing.T, o *opener) {
		x := o.runner(t).start(t, scriptBoth, func(c *sandbox.Command) {
			c.ID, c.Description, c.TTY = "named", "says both", &sandbox.TerminalSize{Columns: 100, Rows: 30}
		})
		list := x.events(t)
		r := x.wait(t)
		want := sandbox.Start{ID: "named", Command: scriptBoth, Dir: "/work", Description: "says both", Container: r.Container, TTY: &sandbox.TerminalSize{Columns: 100, Rows: 30}}
		if !reflect.DeepEqual(list[0].Start, &want) || r.Description != "says both" {
			t.Errorf("%+v, want %+v; the result's description is %q", list[0].Start, want, r.Description)
		}
		for _, e := range list[1:] {
			if e.Start != nil {
				t.Errorf("a %s event has a start", e.Type)
			}
		}
	},
	"a result is complete": func(t *testing.T, o *opener) {
		r := o.runner(t).run(t, scriptBoth, func(c *sandbox.Command) { c.ID = "whole" })
		wantFate(t, r, sandbox.StatusError, sandbox.CauseExited, 3)
		wantOutput(t, "stdout", r.Stdout, "out\n")
		wantOutput(t, "stderr", r.Stderr, "err\n")
		if r.ID != "whole" || r.Command != scriptBoth || r.Dir != "/work" || r.Profile != sandbox.DefaultProfile || r.Session != "" || r.User != user {
			t.Errorf("%+v", r)
		}
		if r.Stdout.SHA256 == "" || r.Container.ID == "" || r.Container.Image != "belljar/base" || r.Container.ImageDigest == "" || r.Evidence.Source == "" || r.Timing.Total <= 0 {
			t.Errorf("%+v", r)
		}
	},
	"a caller can choose the ID": func(t *testing.T, o *opener) {
		r := o.runner(t)
		x, y := r.start(t, scriptMarker), r.start(t, scriptMarker)
		if x.ID() == "" || x.ID() == y.ID() || x.wait(t).ID != x.ID() || y.wait(t).ID != y.ID() {
			t.Errorf("%q and %q", x.ID(), y.ID())
		}
	},
	"binary output arrives unchanged": func(t *testing.T, o *opener) {
		x := o.runner(t).start(t, scriptBinary)
		var stdout []byte
		for e := range x.Events() {
			if e.Type == sandbox.EventStdout {
				stdout = append(stdout, e.Data...)
				if !e.Binary {
					t.Error("an event does not say that its stream is binary")
				}
			}
		}
		r := x.wait(t)
		if want := "a\x00\xff\xfeb\n"; string(stdout) != want || string(r.Stdout.Bytes()) != want || string(r.Stderr.Bytes()) != "\x01\x00e\n" {
			t.Errorf("%q, %q, %q", stdout, r.Stdout.Bytes(), r.Stderr.Bytes())
		}
	},
	"a binary script runs unchanged": func(t *testing.T, o *opener) {
		r := o.runner(t).run(t, scriptBytes)
		wantFate(t, r, sandbox.StatusSuccess, sandbox.CauseExited, 0)
		wantOutput(t, "stdout", r.Stdout, "\xff\xe2\x82")
		if r.Command != scriptBytes {
			t.Errorf("command %q", r.Command)
		}
	},
	"Wait reads what nobody did": func(t *testing.T, o *opener) {
		r := o.runner(t).run(t, scriptMuch)
		wantFate(t, r, sandbox.StatusSuccess, sandbox.CauseExited, 0)
		if r.Stdout.Total != 1<<20 {
			t.Errorf("%d bytes", r.Stdout.Total)
		}
	},
	"Wait after some events, by several and again": func(t *testing.T, o *opener) {
		x := o.runner(t).start(t, scriptInterleave)
		<-x.Events()
		var all sync.WaitGroup
		results := make([]sandbox.Result, 4)
		for i := range results {
			all.Go(func() { results[i], _ = x.Wait() })
		}
		all.Wait()
		for _, r := range results {
			wantSame(t, r, x.wait(t))
			wantFate(t, r, sandbox.StatusSuccess, sandbox.CauseExited, 0)
		}
		if _, more := <-x.Events(); more {
			t.Error("an event after the result")
		}
	},
	"a command with unread events is not idle": func(t *testing.T, o *opener) {
		x := o.runner(t).start(t, scriptMuch, func(c *sandbox.Command) { c.IdleTimeout = 2 * time.Second })
		time.Sleep(4 * time.Second) // longer than the idle timeout
		wantFate(t, x.wait(t), sandbox.StatusSuccess, sandbox.CauseExited, 0)
	},
}

var runnerCancelTests = map[string]func(*testing.T, *opener){
	"Kill ends it, and its output is kept": func(t *testing.T, o *opener) {
		x := o.runner(t).start(t, scriptStubborn)
		x.await(t, "ready")
		x.Kill()
		wantCanceled(t, x)
		x.Kill()
	},
	"Kill of one whose events nobody reads": func(t *testing.T, o *opener) {
		x := o.runner(t).start(t, scriptMuch, func(c *sandbox.Command) { c.Limits.Output = 64 << 10 })
		x.awaitStart(t)
		x.Kill()
		if r := x.wait(t); r.Cause != sandbox.CauseCanceled && r.Cause != sandbox.CauseExited {
			t.Errorf("%s: %s", r.Cause, r.Message)
		}
	},
	"Kill after the end changes nothing": func(t *testing.T, o *opener) {
		x := o.runner(t).start(t, scriptBoth)
		before := x.wait(t)
		x.Kill()
		x.cancel()
		wantSame(t, x.wait(t), before)
	},
	"canceling ends it, and lists the processes": func(t *testing.T, o *opener) {
		x := o.runner(t).start(t, scriptBackground)
		x.await(t, "ready")
		x.cancel()
		r := wantCanceled(t, x)
		if !slices.ContainsFunc(r.Lingering, func(p sandbox.Process) bool { return p.Command == "sleep 1001" }) {
			t.Errorf("what ran: %+v", r.Lingering)
		}
	},
	"a context deadline cancels": func(t *testing.T, o *opener) {
		r := o.runner(t)
		ctx, cancel := context.WithTimeout(r.ctx, 50*time.Millisecond)
		defer cancel()
		result, _ := sandbox.Run(ctx, r, sandbox.Command{Script: scriptStubborn})
		if result.Status != sandbox.StatusCanceled || result.Cause != sandbox.CauseCanceled {
			t.Errorf("%s, %s: %s", result.Status, result.Cause, result.Message)
		}
	},
	"canceling before Start": func(t *testing.T, o *opener) {
		r := o.runner(t)
		ctx, cancel := context.WithCancel(r.ctx)
		cancel()
		result, _ := sandbox.Run(ctx, r, sandbox.Command{Script: scriptStubborn})
		wantFate(t, result, sandbox.StatusCanceled, sandbox.CauseCanceled, sandbox.ExitNeverRan)
	},
	"canceling while the image is resolved":  func(t *testing.T, o *opener) { cancelIn(t, o, ImageHangs) },
	"canceling while a container is created": func(t *testing.T, o *opener) { cancelIn(t, o, CreateHangs) },
	"canceling while the command is started": func(t *testing.T, o *opener) { cancelIn(t, o, ExecHangs) },
	"canceling in the queue": func(t *testing.T, o *opener) {
		r := o.runner(t, func(b *Behind) { b.Admission.MaxRunning = 1 })
		first := r.start(t, scriptStubborn)
		first.await(t, "ready")
		second := r.start(t, scriptMarker)
		second.cancel()
		wantFate(t, second.wait(t), sandbox.StatusCanceled, sandbox.CauseCanceled, sandbox.ExitNeverRan)
		first.cancel()
		wantCanceled(t, first)
	},
	"canceling during approval": func(t *testing.T, o *opener) {
		r := o.runner(t)
		for name, begin := range map[string]func(context.Context) error{
			"Prepare": func(ctx context.Context) error {
				_, err := r.Prepare(ctx, sandbox.Command{Script: scriptAsked})
				return err
			},
			"Start": func(ctx context.Context) error {
				_, err := r.Start(ctx, sandbox.Command{Script: scriptAsked})
				return err
			},
		} {
			ctx, cancel := context.WithTimeout(r.ctx, 50*time.Millisecond)
			if err := begin(ctx); sandbox.CauseOf(err) != sandbox.CauseCanceled {
				t.Errorf("%s: %v", name, err)
			}
			cancel()
		}
	},
}

// cancelIn cancels a command whose start hangs.
func cancelIn(t *testing.T, o *opener, fault FaultName) {
	x := o.runner(t, func(b *Behind) { b.Fault = fault }).start(t, scriptMarker)
	time.Sleep(20 * time.Millisecond) // usually it has got there by then
	x.cancel()
	list := x.events(t)
	for _, e := range list {
		if e.Type == sandbox.EventStart {
			t.Error("it started")
		}
	}
	wantFate(t, x.wait(t), sandbox.StatusCanceled, sandbox.CauseCanceled, sandbox.ExitNeverRan)
}

// wantCanceled expects the end of a command that was canceled once it was ready.
func wantCanceled(t *testing.T, x *command) sandbox.Result {
	t.Helper()
	r := x.wait(t)
	wantFate(t, r, sandbox.StatusCanceled, sandbox.CauseCanceled, sandbox.ExitEnded)
	wantOutput(t, "stdout", r.Stdout, "ready\n")
	return r
}

// wantSame expects the same result twice.
func wantSame(t *testing.T, got, want sandbox.Result) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("two results of one command: %+v and %+v", got, want)
	}
}

// wantRefusal expects a *sandbox.Error of that cause, with a hint.
func wantRefusal(t *testing.T, what string, err error, cause sandbox.Cause) *sandbox.Error {
	t.Helper()
	e, ok := errors.AsType[*sandbox.Error](err)
	if !ok || e.Cause != cause || e.Message == "" || e.Hint == "" {
		t.Errorf("%s: error %v (%T), want a *sandbox.Error of cause %s with a hint", what, err, err, cause)
		return &sandbox.Error{}
	}
	return e
}
