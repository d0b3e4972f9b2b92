package docker

import (
	"context"
	"time"

	"belljar/sandbox"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
)

// Wait implements sandbox.Running.
func (r *running) Wait(ctx context.Context) (int, error) {
	r.waited.Store(true)
	status, err := r.status(ctx)
	if err == nil {
		r.exited.seen()
		r.drain(ctx)
	}
	r.close()
	r.box.forget(r)
	if r.start != nil {
		return 0, r.start
	}
	return status, err
}

// drain waits for the stream's end, or until nothing came for a while. That its
// reader is kept waiting by a slow writer is no sign of the end.
func (r *running) drain(ctx context.Context) {
	for before := r.writes.Load(); ; {
		select {
		case <-r.copied:
			return
		case <-ctx.Done():
			return
		case <-time.After(drain):
		}
		now := r.writes.Load()
		if now == before && now%2 == 0 {
			r.lose("the stream did not end with the command, and was not waited for")
			return
		}
		before = now
	}
}

// status waits until the engine knows the exit status: by its event, or, once
// the stream ended, which it mostly does with the process, by asking.
func (r *running) status(ctx context.Context) (int, error) {
	copied, gone, pause := r.copied, r.exited.C, time.Millisecond
	var eof time.Time
	poll := make(<-chan time.Time)
	var failing time.Time
	for {
		status, ok, changed := r.box.watch.exit(r.id)
		if ok {
			return status, nil
		}
		select {
		case <-changed:
			if r.box.watch.uncertain() {
				poll = time.After(pause)
			}
			continue
		case <-copied:
			copied, eof = nil, time.Now()
		case <-gone:
			// The status is near; if not, it is worth asking for.
			gone, pause = nil, slowPoll
			poll = time.After(pause)
			continue
		case <-poll:
		case <-ctx.Done():
			return 0, engineError(ctx.Err(), "waiting for the command's end").as(sandbox.CauseEngineLost).hint("see: belljar doctor")
		}
		about, err := r.inspect(ctx)
		switch {
		case err == nil && !about.Running && about.Pid != 0:
			return about.ExitCode, nil
		case err == nil && !about.Running && copied == nil:
			return 0, r.startError("it gives no reason") // unless copy has it
		case errdefs.IsNotFound(err), errdefs.IsConflict(err):
			// An image without a shell that runs may take the container away
			// before the exec's stream says anything.
			if r.box.noShell(ctx) {
				return 0, noShellError(nil, r.box.spec)
			}
			return 0, engineError(nil, "the container was removed from outside, or the engine restarted: the command's exit status is unknown").
				as(sandbox.CauseEngineLost).hint("run it again; partial output kept")
		case err == nil:
			failing = time.Time{}
			if copied == nil && time.Since(eof) > earlyEnd {
				r.lose("the stream ended before the command")
			}
		case failing.IsZero():
			failing = time.Now()
		case time.Since(failing) > recovery:
			return 0, engineError(err, "the engine stopped answering: the command's exit status is unknown").
				as(sandbox.CauseEngineLost).hint("see: belljar doctor; partial output kept")
		}
		poll = time.After(pause)
		pause = min(2*pause, slowPoll)
	}
}

func (r *running) inspect(ctx context.Context) (container.ExecInspect, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return r.box.engine.client.ContainerExecInspect(ctx, r.id)
}
