package sandbox

import (
	"context"
	"fmt"
	"iter"
	"time"
)

func (l *Local) spools() spools { return spools{dir: l.stateDir("spool"), Spooling: l.Spool} }

// openSpool is called before anything runs: where nothing can be kept, and that
// is to end the command, it does not begin.
func (x *execution) openSpool() error {
	c, dir := x.command, x.local.spools().path(x.command.ID)
	keep := int64(x.local.Spool.Age / time.Second)
	err := x.output.spool.open(dir, LogInfo{ID: c.ID, Command: c.Script, Profile: c.Profile, Session: c.Session, Started: x.taken, Keep: keep})
	if err != nil {
		x.notice("output is kept until the command ends, and no longer: %v", err)
	}
	if err := x.output.spool.lost(); err != nil && x.output.onError == SpoolEnd {
		return &Error{Cause: CauseEngine, Message: "the command's output cannot be kept (spool.on_error: end)", Err: err, Hint: "make room, or set XDG_STATE_HOME or TMPDIR to a directory that can be written"}
	}
	return nil
}

// keep writes what the command wrote into the result, once nothing more comes.
// Cancelling ctx ends what takes long of it.
func (x *execution) keep(ctx context.Context) {
	s, r := x.output.spool, &x.result
	if err := s.end(r.Status, r.ExitCode, x.local.Spool.Age); err != nil {
		x.local.house.log.Warn("how a command ended is not written down", "command", r.ID, "error", err)
	}
	outputs, err := s.outputs()
	if r.Stdout, r.Stderr = outputs[stdout], outputs[stderr]; err != nil {
		r.Evidence.OutputError = join(r.Evidence.OutputError, err.Error())
	}
	r.Views, r.Screen = x.views(), x.output.shot()
	if x.output.undrawn {
		x.notice("there is no screen: it took more than %v to draw what the command wrote", screenTime)
	}
	if x.profile.Summarize.wants(s.merged().Bytes) {
		if r.Summary, err = x.summarize(ctx); err != nil {
			x.notice("the output was not summarized: %v", err)
		}
	}
	if err := x.leaveSpool(ctx); err != nil {
		x.local.house.log.Warn("what was kept of outputs cannot be removed", "command", r.ID, "error", err)
	}
}

// summarize waits for its turn: these programs run on our host.
func (x *execution) summarize(ctx context.Context) (string, error) {
	if err := lock(ctx, x.local.house.summaries); err != nil {
		return "", err
	}
	defer func() { <-x.local.house.summaries }()
	from := x.output.spool.reader(Merged)
	defer from.close()
	return x.profile.Summarize.run(ctx, from)
}

// leaveSpool leaves what was written to those who ask for it later, if any may.
func (x *execution) leaveSpool(ctx context.Context) error {
	s := x.output.spool
	neverRan := x.result.ExitCode == ExitNeverRan && s.total == 0 // else only its end is not known
	if neverRan || s.temporary || x.local.Spool.Age == 0 {
		return s.remove()
	}
	s.close()
	if s.dir == "" {
		return nil
	}
	return x.local.spools().added(context.WithoutCancel(ctx), s.size())
}

func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

// views are those that the command asked for.
func (x *execution) views() *Views {
	s, v := x.output.spool, x.command.View
	view := func(which Stream, total Total) *Text {
		text, count := maskedView(x.masks, x.local.Viewer, v, func() iter.Seq[Chunk] { return s.chunks(which) }, total)
		x.result.Masked += count
		return &text
	}
	switch v.Mode {
	case ViewSeparate:
		return &Views{Stdout: view(Stdout, s.streams[stdout].Total), Stderr: view(Stderr, s.streams[stderr].Total)}
	case ViewMerged:
		return &Views{Merged: view(Merged, s.merged())}
	}
	return nil
}

// keptReader reads what is kept as a file.
type keptReader struct {
	reader *outputReader
	rest   []byte
}

func (k *keptReader) Read(p []byte) (int, error) {
	for len(k.rest) == 0 {
		c, err := k.reader.Next(context.Background())
		if err != nil {
			return 0, err
		}
		k.rest = c.Data
		if c.Missed > 0 {
			k.rest = append(fmt.Appendf(nil, "\n[%d bytes were not kept]\n", c.Missed), c.Data...)
		}
	}
	n := copy(p, k.rest)
	k.rest = k.rest[n:]
	return n, nil
}

func (k *keptReader) close() { k.reader.Close() }

// Read implements Execution.
func (x *execution) Read(which Stream, offset int64) (Reader, error) {
	return newOutputReader(x.output.spool.live(), which, offset)
}

// Logs are the commands whose output is kept, the oldest first, also those of
// other processes.
func (l *Local) Logs() ([]LogInfo, error) {
	found, err := l.spools().all()
	if err != nil {
		return nil, &Error{Cause: CauseEngine, Message: "listing what is kept of outputs", Err: err, Hint: "look at the state directory's permissions"}
	}
	list := make([]LogInfo, 0, len(found))
	for _, f := range found {
		if !expired(f.LogInfo) {
			list = append(list, f.LogInfo)
		}
	}
	return list, nil
}

// LogInfo is what is known of a command whose output is kept.
func (l *Local) LogInfo(id string) (LogInfo, error) {
	unknown := invalid("see what there is: belljar logs; outputs expire by spool.age and spool.total", "no output of a command %.80q is kept", id)
	if CheckID(id) != nil || id == "" {
		return LogInfo{}, unknown
	}
	if checkStateDir(l.spools().dir) != nil || !isSpool(l.spools().path(id)) {
		return LogInfo{}, unknown
	}
	if found := l.spools().find(id); !expired(found.LogInfo) {
		return found.LogInfo, nil
	}
	return LogInfo{}, unknown
}

// ReadLog is Execution.Read of a command of any process.
func (l *Local) ReadLog(id string, which Stream, offset int64) (Reader, error) {
	if _, err := l.LogInfo(id); err != nil {
		return nil, err
	}
	return newOutputReader(l.spools().files(id), which, offset)
}

// SweepLogs removes outputs that expired, unless that was just done.
func (l *Local) SweepLogs(ctx context.Context) error {
	if err := l.spools().sweepSeldom(ctx); err != nil {
		return fmt.Errorf("removing outputs that expired: %w", err)
	}
	return nil
}

// sweepLogs does so now and then.
func (l *Local) sweepLogs() {
	for {
		if err := l.SweepLogs(l.house.ctx); err != nil {
			l.house.log.Warn("outputs that expired may still be there", "error", err)
		}
		select {
		case <-time.After(spoolSweepPause):
		case <-l.house.ctx.Done():
			return
		}
	}
}
