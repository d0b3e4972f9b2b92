package docker

import (
	"context"
	"time"

	"belljar/sandbox"

	"github.com/containerd/errdefs"
)

// statusWithoutInit is the exit status of a process whose container's init does not answer
// any more, and said so much before. The init's end is that of all others, by SIGKILL. But if only the connection
// broke, or the engine did, no one knows it.
func (b *box) statusWithoutInit(said string) (int, error) {
	if b.ending.Load() {
		return killed, nil
	}
	counted := b.inspector.Count() // the counts go with the container
	ctx, cancel := context.WithTimeout(context.Background(), eventTimeout)
	defer cancel()
	now := b.watch.until(ctx, func(s state) bool { return s.died || s.destroyed || s.missed })
	switch {
	case b.ending.Load():
		return killed, nil
	case now.missed || !now.died && !now.destroyed:
		if ended, err := b.askEnded(); !ended {
			return 0, err
		}
	}
	if !b.sharesKernel() {
		return b.kernelStatus(ctx, counted, said)
	}
	return killed, nil
}

// askEnded asks the engine whether the container has ended, or an error that says why this
// cannot be known.
func (b *box) askEnded() (bool, error) {
	for failing := time.Now(); ; time.Sleep(slowPoll) {
		about, err := b.engine.inspect(context.Background(), b.id)
		switch {
		case err == nil && about.State.Running:
			return false, engineError(nil, "the connection to the container broke: the exit status is unknown").
				As(sandbox.CauseEngineLost).Hint("partial output kept; run it again")
		case errdefs.IsNotFound(err), err == nil:
			return false, engineError(nil, "another program removed the container, or the engine restarted: the exit status is unknown").
				As(sandbox.CauseEngineLost).Hint("partial output kept; run it again")
		case time.Since(failing) > recovery:
			return false, engineError(err, "the engine stopped answering: the exit status is unknown").
				As(sandbox.CauseEngineLost).Hint("partial output kept; see: belljar doctor")
		}
	}
}

// endInit has the container's init kill all that runs, so that counts are final, and end.
// It reports whether the container is about to end by itself.
func (b *box) endInit(ctx context.Context) bool {
	if b.init == nil {
		return false
	}
	b.init.attaching.Lock()
	defer b.init.attaching.Unlock()
	l := b.init.link.Load()
	if l == nil {
		return false
	}
	asking, cancel := context.WithTimeout(ctx, killAfter)
	defer cancel()
	err := l.KillAll(asking)
	b.inspector.Count()
	if b.engine.endsWithUs(b.spec) {
		l.Close()
		return true
	}
	return err == nil && l.End(asking) == nil
}
