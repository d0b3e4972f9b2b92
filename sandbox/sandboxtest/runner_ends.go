package sandboxtest

import (
	"context"
	"strings"
	"testing"
	"time"

	"belljar/sandbox"
)

// At every kind of end, the result has the cause and the output so far.
var runnerEndTests = map[string]func(*testing.T, *opener){
	"a success": func(t *testing.T, o *opener) {
		r := o.runner(t).run(t, scriptMarker)
		wantFate(t, r, sandbox.StatusSuccess, sandbox.CauseExited, 0)
		wantOutput(t, "stdout", r.Stdout, "marker\n")
	},
	"a signal": func(t *testing.T, o *opener) {
		r := o.runner(t).run(t, scriptKillSelf)
		wantFate(t, r, sandbox.StatusError, sandbox.CauseSignaled, 137)
		if r.Signal != "SIGKILL" {
			t.Errorf("signal %q", r.Signal)
		}
	},
	"the wall timeout": func(t *testing.T, o *opener) {
		r := o.runner(t).run(t, scriptBackground, func(c *sandbox.Command) { c.Timeout = sandbox.MinTimeout })
		wantFate(t, r, sandbox.StatusTimeout, sandbox.CauseWallTimeout, sandbox.ExitEnded)
		wantOutput(t, "stdout", r.Stdout, "ready\n")
	},
	"the idle timeout": func(t *testing.T, o *opener) {
		r := o.runner(t).run(t, scriptBackground, func(c *sandbox.Command) { c.IdleTimeout = sandbox.MinTimeout })
		wantFate(t, r, sandbox.StatusTimeout, sandbox.CauseIdleTimeout, sandbox.ExitEnded)
		wantOutput(t, "stdout", r.Stdout, "ready\n")
	},
	"the output limit": func(t *testing.T, o *opener) {
		r := o.runner(t).run(t, scriptMuch, func(c *sandbox.Command) { c.Limits.Output, c.OnOutputLimit = 64<<10, sandbox.OutputEnd })
		wantFate(t, r, sandbox.StatusError, sandbox.CauseOutputLimit, sandbox.ExitEnded)
		if kept := len(r.Stdout.Bytes()); kept != 64<<10 || r.Stdout.Total < 64<<10 {
			t.Errorf("%d bytes kept of %d", kept, r.Stdout.Total)
		}
	},
	"output over the limit that is truncated": func(t *testing.T, o *opener) {
		r := o.runner(t).run(t, scriptMuch, func(c *sandbox.Command) { c.Limits.Output = 64 << 10 })
		wantFate(t, r, sandbox.StatusSuccess, sandbox.CauseExited, 0)
		head, tail := int64(len(r.Stdout.Head)), int64(len(r.Stdout.Tail))
		if head == 0 || tail == 0 || head+tail > 64<<10 || head+r.Stdout.Dropped+tail != 1<<20 || r.Stdout.Total != 1<<20 {
			t.Errorf("%d bytes, %d dropped, %d bytes, %d in all", head, r.Stdout.Dropped, tail, r.Stdout.Total)
		}
	},
	"a lost container": func(t *testing.T, o *opener) {
		r := o.runner(t).run(t, scriptGone)
		if r.Status != sandbox.StatusFatal || r.Cause != sandbox.CauseEngineLost {
			t.Errorf("%s, %s: %s", r.Status, r.Cause, r.Message)
		}
		wantOutput(t, "stdout", r.Stdout, "ready\n")
	},
	"a failing engine": func(t *testing.T, o *opener) {
		wantFailure(t, o, CreateFails, sandbox.CauseEngine, "no space left")
	},
	"a missing image": func(t *testing.T, o *opener) {
		wantFailure(t, o, ImageFails, sandbox.CauseImage, "no such image")
	},
	"a missing directory": func(t *testing.T, o *opener) {
		r, err := sandbox.Run(o.ctx, o.runner(t), sandbox.Command{Script: scriptMarker, Dir: missingDir})
		wantResultError(t, r, err)
		wantRefusal(t, "error", err, sandbox.CauseInvalid)
	},
	"a timeout in the queue": func(t *testing.T, o *opener) {
		r := o.runner(t, func(b *Behind) { b.Admission.MaxRunning, b.Admission.MaxWait = 1, 100*time.Millisecond })
		first := r.start(t, scriptStubborn)
		first.await(t, "ready")
		result, err := r.start(t, scriptMarker).Wait()
		wantResultError(t, result, err)
		wantFate(t, result, sandbox.StatusFatal, sandbox.CauseBusy, sandbox.ExitNeverRan)
		if e := wantRefusal(t, "error", err, sandbox.CauseBusy); e.RetryAfter <= 0 || result.Error.RetryAfter != e.RetryAfter {
			t.Errorf("retry after %v, %v", e.RetryAfter, result.Error)
		}
		first.Kill()
		wantCanceled(t, first)
	},
}

// wantFailure expects a fatal result, with an error that gives the reason.
func wantFailure(t *testing.T, o *opener, fault FaultName, cause sandbox.Cause, why string) {
	x := o.runner(t, func(b *Behind) { b.Fault = fault }).start(t, scriptMarker)
	x.events(t)
	r, err := x.Wait()
	wantResultError(t, r, err)
	wantFate(t, r, sandbox.StatusFatal, cause, sandbox.ExitNeverRan)
	if wantRefusal(t, "error", err, cause); !strings.Contains(r.Message, why) {
		t.Errorf("message %q", r.Message)
	}
}

var runnerRefusalTests = map[string]func(*testing.T, *opener){
	"an invalid command is refused before anything starts": func(t *testing.T, o *opener) { refusals(t, o.runner(t)) },
	"a full queue": func(t *testing.T, o *opener) {
		r := o.runner(t, func(b *Behind) { b.Admission = sandbox.Admission{MaxRunning: 1, MaxQueued: 1} })
		first := r.start(t, scriptStubborn)
		first.await(t, "ready")
		second := r.start(t, scriptMarker)
		_, err := r.Start(r.ctx, sandbox.Command{Script: scriptMarker})
		if e := wantRefusal(t, "third", err, sandbox.CauseBusy); e.RetryAfter <= 0 {
			t.Errorf("retry after %v", e.RetryAfter)
		}
		first.Kill()
		wantCanceled(t, first)
		wantFate(t, second.wait(t), sandbox.StatusSuccess, sandbox.CauseExited, 0)
	},
	"a prepared command runs once it is started": func(t *testing.T, o *opener) {
		r := o.runner(t, func(b *Behind) { b.Answer = sandbox.AnswerOnce })
		for script, want := range map[string]string{scriptMarker: "marker\n", scriptAsked: "asked\n"} {
			p, err := r.Prepare(r.ctx, sandbox.Command{ID: "prepared-" + want[:3], Script: script})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.LogInfo(r.ctx, "prepared-"+want[:3]); sandbox.CauseOf(err) != sandbox.CauseInvalid {
				t.Errorf("%q ran before it was started: %v", script, err)
			}
			x, err := p.Start(r.ctx)
			if err != nil {
				t.Fatal(err)
			}
			result, err := x.Wait()
			wantResultError(t, result, err)
			wantOutput(t, script, result.Stdout, want)
		}
	},
	"a prepared command can be canceled after its start": func(t *testing.T, o *opener) {
		r := o.runner(t)
		p, err := r.Prepare(r.ctx, sandbox.Command{Script: scriptStubborn})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(r.ctx)
		defer cancel()
		x, err := p.Start(ctx)
		if err != nil {
			t.Fatal(err)
		}
		c := &command{x, cancel}
		c.await(t, "ready")
		c.cancel()
		wantCanceled(t, c)
	},
	"a prepared command need not be started": func(t *testing.T, o *opener) {
		r := o.runner(t)
		ctx, cancel := context.WithCancel(r.ctx)
		defer cancel()
		if _, err := r.Prepare(ctx, sandbox.Command{Script: scriptMarker}); err != nil {
			t.Fatal(err)
		}
		cancel()
		wantFate(t, r.run(t, scriptMarker), sandbox.StatusSuccess, sandbox.CauseExited, 0)
	},
	"approval denied": func(t *testing.T, o *opener) {
		r := o.runner(t, func(b *Behind) { b.Answer = sandbox.AnswerDeny })
		_, err := r.Prepare(r.ctx, sandbox.Command{Script: scriptAsked})
		wantRefusal(t, "Prepare", err, sandbox.CauseDenied)
	},
}

// refusals expects that both Start and Prepare refuse each of these commands.
func refusals(t *testing.T, r *runner) {
	with := func(change func(*sandbox.Command)) sandbox.Command {
		c := sandbox.Command{ID: "refused", Script: scriptMarker}
		change(&c)
		return c
	}
	invalid, denied := sandbox.CauseInvalid, sandbox.CauseDenied
	for name, test := range map[string]struct {
		command sandbox.Command
		cause   sandbox.Cause
	}{
		"no script":                  {with(func(c *sandbox.Command) { c.Script = " \n" }), invalid},
		"a NUL":                      {with(func(c *sandbox.Command) { c.Script = "echo \x00" }), invalid},
		"a script that is too long":  {with(func(c *sandbox.Command) { c.Script = strings.Repeat("#", sandbox.MaxScript+1) }), invalid},
		"an ID with a slash":         {with(func(c *sandbox.Command) { c.ID = "a/b" }), invalid},
		"no such profile":            {with(func(c *sandbox.Command) { c.Profile = "none" }), invalid},
		"a directory outside":        {with(func(c *sandbox.Command) { c.Dir = "../etc" }), invalid},
		"root":                       {with(func(c *sandbox.Command) { c.User = sandbox.User{Name: "root"} }), invalid},
		"the host's network":         {with(func(c *sandbox.Command) { c.Network = "host" }), invalid},
		"a timeout that is short":    {with(func(c *sandbox.Command) { c.Timeout = time.Millisecond }), invalid},
		"a timeout that is long":     {with(func(c *sandbox.Command) { c.Timeout = 48 * time.Hour }), invalid},
		"a limit that is negative":   {with(func(c *sandbox.Command) { c.Limits.Memory = -1 }), invalid},
		"a session of no such name":  {with(func(c *sandbox.Command) { c.Session = "a/b" }), invalid},
		"parallel, and no session":   {with(func(c *sandbox.Command) { c.Parallel = true }), invalid},
		"existing, and no session":   {with(func(c *sandbox.Command) { c.Existing = true }), invalid},
		"no such view":               {with(func(c *sandbox.Command) { c.View.Mode = "odd" }), invalid},
		"no such live mode":          {with(func(c *sandbox.Command) { c.Live = "odd" }), invalid},
		"a long description":         {with(func(c *sandbox.Command) { c.Description = strings.Repeat("x", sandbox.MaxDescription+1) }), invalid},
		"a mount":                    {with(func(c *sandbox.Command) { c.Mounts = []sandbox.Mount{{Source: "/tmp", Target: "/mnt"}} }), denied},
		"a variable of the caller's": {with(func(c *sandbox.Command) { c.Env, c.Inherit = []string{"HOME"}, []string{"HOME=/root"} }), denied},
		"a script that is denied":    {with(func(c *sandbox.Command) { c.Script = scriptDenied }), denied},
	} {
		x, err := r.Start(r.ctx, test.command)
		wantRefusal(t, name+": Start", err, test.cause)
		if x != nil {
			t.Errorf("%s: an execution in addition to the refusal", name)
		}
		p, err := r.Prepare(r.ctx, test.command)
		wantRefusal(t, name+": Prepare", err, test.cause)
		if p != nil {
			t.Errorf("%s: something prepared in addition to the refusal", name)
		}
		result, err := sandbox.Run(r.ctx, r, test.command)
		wantResultError(t, result, err)
		if result.ExitCode != sandbox.ExitNeverRan || result.Cause != test.cause {
			t.Errorf("%s: %s, exit code %d", name, result.Cause, result.ExitCode)
		}
	}
	if list, err := r.Logs(r.ctx); err != nil || len(list) > 0 {
		t.Errorf("something ran: %+v, error %v", list, err)
	}
}
