package local

import (
	"context"
	"fmt"
	"iter"
	"time"

	"belljar/internal/names"
	"belljar/sandbox"
	"belljar/sandbox/internal/spool"
)

func (l *Local) spools() spool.Store {
	l.open() // which sets defaults
	return l.store()
}

func (l *Local) store() spool.Store { return spool.Store{Dir: l.stateDir("spool"), Spooling: l.Spool} }

// openSpool is called before anything runs: if output cannot be kept and on_error
// is to end the command, the command does not begin.
func (x *execution) openSpool() error {
	c, dir := x.command, x.local.spools().Path(x.command.ID)
	keep := int64(x.local.Spool.Age / time.Second)
	x.output.recorder.spool.Spares = x.local.upkeep.spares
	err := x.output.recorder.spool.Open(dir, sandbox.LogInfo{ID: c.ID, Command: c.Script, Description: x.result.Description, Profile: c.Profile, Session: c.Session, Started: x.received, Keep: keep})
	if err != nil {
		x.notice("output is stored only until the command ends: %v", err)
	}
	if err := x.output.recorder.spool.Err(); err != nil && x.output.recorder.onError == sandbox.SpoolEnd {
		return &sandbox.Error{Cause: sandbox.CauseEngine, Message: "output cannot be stored (spool.on_error: end)", Err: err, Hint: "free disk space, or set XDG_STATE_HOME or TMPDIR to a writable directory"}
	}
	return nil
}

// collect puts the output into the result, once it is complete. Cancelling ctx
// shortens the slow parts.
func (x *execution) collect(ctx context.Context) {
	s, r := x.output.recorder.spool, &x.result
	if err := s.End(sandbox.LogEnd{Status: r.Status, Cause: r.Cause, ExitCode: r.ExitCode}, x.local.Spool.Age); err != nil {
		x.local.upkeep.log.Warn("recording how a command ended failed", "command", r.ID, "error", err)
	}
	outputs, err := s.Outputs(x.inResult())
	if r.Stdout, r.Stderr = outputs[spool.Stdout], outputs[spool.Stderr]; err != nil {
		r.Evidence.OutputError = join(r.Evidence.OutputError, err.Error())
	}
	r.Views, r.Screen = x.views(), x.output.screen.shot(true)
	if x.output.screen.tooSlow {
		x.notice("no screen: drawing the output took longer than %v", screenTime)
	}
	if wantsSummary(x.profile.Summarize, s.Merged().Bytes) {
		if r.Summary, err = x.summarize(ctx); err != nil {
			x.notice("summarizing the output failed: %v", err)
		} else if x.replacesViews() {
			r.Views = nil
		}
	}
}

// summarize waits for a free slot: these programs run on our host.
func (x *execution) summarize(ctx context.Context) (string, error) {
	if err := acquire(ctx, x.local.upkeep.summaries); err != nil {
		return "", err
	}
	defer func() { <-x.local.upkeep.summaries }()
	from := x.output.recorder.spool.ByteReader(sandbox.Merged)
	defer from.Close()
	about := summarized{command: x.masked([]string{x.command.Script})[0], exitCode: x.result.ExitCode, most: maxSummary}
	if x.replacesViews() {
		about.most = int(min(maxSummary, x.command.View.Bytes))
	}
	return runSummary(ctx, about, x.profile.Summarize, from)
}

// replacesViews reports whether a summary takes the place of the views: then it has their
// bound, too.
func (x *execution) replacesViews() bool {
	return x.profile.Summarize.Replace && x.command.Streams == sandbox.StreamsView
}

// kept reports whether others may read the output later.
func (x *execution) kept() bool { return !x.output.recorder.spool.Temporary && x.local.Spool.Age != 0 }

// keep leaves output and result to others, if they may be kept. The result is
// complete: those who wait for the command read it from now on.
func (x *execution) keep(ctx context.Context) error {
	s := x.output.recorder.spool
	if !x.kept() {
		return s.Remove()
	}
	err := s.Keep(spool.Ending{Result: x.result, Replace: x.command.Encoding == sandbox.EncodingReplace, Notices: append(x.masked(x.output.events.noticed), x.notices...)})
	if err != nil {
		x.notice("the result is not stored: %v", err)
	}
	s.Close()
	if s.Dir == "" {
		return nil
	}
	return x.local.spools().Added(context.WithoutCancel(ctx), s.Size())
}

func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

// views are those that the command asked for.
func (x *execution) views() *sandbox.Views {
	s, v := x.output.recorder.spool, x.command.View
	view := func(which sandbox.Stream, total sandbox.Total) *sandbox.Text {
		text, count := maskedView(x.output.masks, x.local.Viewer, v, func() iter.Seq[sandbox.Chunk] { return s.Chunks(which) }, total)
		x.result.Masked += count
		return &text
	}
	switch v.Mode {
	case sandbox.ViewSeparate:
		return &sandbox.Views{Stdout: view(sandbox.Stdout, s.StreamTotal(spool.Stdout)), Stderr: view(sandbox.Stderr, s.StreamTotal(spool.Stderr))}
	case sandbox.ViewMerged:
		return &sandbox.Views{Merged: view(sandbox.Merged, s.Merged())}
	}
	return nil
}

// Read implements Execution.
func (x *execution) Read(_ context.Context, which sandbox.Stream, offset int64) (sandbox.Reader, error) {
	return spool.NewReader(x.output.recorder.spool.LiveSource(), which, offset)
}

// Await waits until a command ended, also one of another process, and returns its result
// and its notices. A command whose belljar died before that has CauseEngineLost. An error
// means that nothing is kept of it, or that ctx was canceled.
func (l *Local) Await(ctx context.Context, id string) (sandbox.Result, []string, error) {
	if _, err := l.LogInfo(ctx, id); err != nil {
		return sandbox.Result{}, nil, err
	}
	if err := l.spools().Wait(ctx, id); err != nil {
		return sandbox.Result{}, nil, err
	}
	e, err := l.spools().Ending(id)
	return e.Result, e.Notices, err
}

// CountLog makes a file that a front end keeps about a command count as a part of what is kept of
// it: spool.total bounds both.
func (l *Local) CountLog(id, file string) error { return l.spools().Beside(id, file) }

// Logs implements sandbox.Logs, also for the commands of other processes.
func (l *Local) Logs(context.Context) ([]sandbox.LogInfo, error) {
	found, err := l.spools().All()
	if err != nil {
		return nil, &sandbox.Error{Cause: sandbox.CauseEngine, Message: "listing stored output", Err: err, Hint: "check the state directory's permissions"}
	}
	list := make([]sandbox.LogInfo, 0, len(found))
	for _, f := range found {
		if !spool.Expired(f.LogInfo) {
			list = append(list, f.LogInfo)
		}
	}
	return list, nil
}

// LogInfo implements sandbox.Logs.
func (l *Local) LogInfo(_ context.Context, id string) (sandbox.LogInfo, error) {
	if names.CheckID(id) == nil && id != "" && l.spools().Has(id) {
		if found := l.spools().Find(id); !spool.Expired(found.LogInfo) {
			return found.LogInfo, nil
		}
	}
	return sandbox.LogInfo{}, sandbox.Invalid("see: belljar logs; output expires (spool.age, spool.total)", "no stored output of command %.80q", id)
}

// ReadLog implements sandbox.Logs.
func (l *Local) ReadLog(ctx context.Context, id string, which sandbox.Stream, offset int64) (sandbox.Reader, error) {
	if _, err := l.LogInfo(ctx, id); err != nil {
		return nil, err
	}
	return spool.NewReader(l.spools().FileSource(id), which, offset)
}

// SweepLogs removes outputs that expired, unless that was just done.
func (l *Local) SweepLogs(ctx context.Context) error {
	if err := l.spools().SweepSeldom(ctx); err != nil {
		return fmt.Errorf("removing expired output: %w", err)
	}
	return nil
}

// sweepLogs does so periodically.
func (l *Local) sweepLogs() {
	for {
		if err := l.SweepLogs(l.upkeep.ctx); err != nil && l.upkeep.ctx.Err() == nil {
			l.upkeep.log.Warn("removing expired output failed", "error", err)
		}
		select {
		case <-time.After(spool.SweepPause):
		case <-l.upkeep.ctx.Done():
			return
		}
	}
}
