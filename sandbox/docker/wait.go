package docker

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"belljar/sandbox"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"golang.org/x/sys/unix"
)

// Wait implements sandbox.Running.
func (r *running) Wait(ctx context.Context) (int, error) {
	r.waited.Store(true)
	status, err := r.status(ctx)
	if status == killed && !r.box.ending.Load() {
		r.box.survived(ctx)
	}
	if err == nil {
		r.exited.report()
		r.drain(ctx)
	}
	r.close()
	r.box.forget(r)
	if r.start != nil {
		return 0, r.start
	}
	if r.stuck.Load() && status == killed && r.writes.Load() == 0 {
		return 0, stuckError(r.box.spec)
	}
	if err == nil {
		status, err = r.exitStatus(ctx, status)
	}
	return status, err
}

// killed is the exit status of a process that SIGKILL ended.
const killed = 128 + int(unix.SIGKILL)

// eventTimeout bounds how long the engine may take to report that a container ended,
// after its processes did, and that someone asked for it.
const eventTimeout = 2 * time.Second

// aliveTimeout bounds how long a container that runs may take to show that, on a busy host: with gVisor, to start a process
// takes seconds there.
const aliveTimeout = 20 * time.Second

// survived reports whether the container of a killed command still runs. It waits
// until that is known. If this host does not see the container's first process, the
// test is whether another one can be started.
func (b *box) survived(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, aliveTimeout)
	defer cancel()
	if ended, known := b.inspector.ended(); known {
		return !ended
	}
	if b.init != nil && b.Answers(ctx) || b.init == nil && b.canExec(ctx) {
		return true
	}
	b.watch.until(ctx, func(s state) bool { return s.died || s.missed })
	return false
}

// canExec reports whether a process can be started.
func (b *box) canExec(ctx context.Context) bool {
	made, err := b.engine.client.ContainerExecCreate(ctx, b.id, container.ExecOptions{User: fmt.Sprint(b.keeperUID), Cmd: []string{"sh", "-c", ":"}})
	if err != nil {
		return false
	}
	return b.engine.client.ContainerExecStart(ctx, made.ID, container.ExecStartOptions{Detach: true}) == nil
}

// drain waits for the stream's end, or until no output came for a while. Time that its
// reader waits for a slow writer does not count.
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
			r.markCut("the stream stayed open after the command ended")
			return
		}
		before = now
	}
}

// goesOn reports whether a process runs of which the engine says that it failed: moby does, as soon as its attachment breaks.
func (r *running) goesOn(about container.ExecInspect) bool {
	runs, _ := r.box.inspector.runs(about.Pid)
	return runs && about.ExitCode == attachFailed
}

// attachFailed is the exit status that moby gives a process whose attachment broke.
const attachFailed = 126

// status waits until the engine knows the exit status: by its event, or, once
// the stream ended, which usually happens with the process, by asking.
func (r *running) status(ctx context.Context) (int, error) {
	copied, gone, pause := r.copied, r.exited.C, time.Millisecond
	var eof time.Time
	poll := make(<-chan time.Time)
	var failing, ended time.Time
	forgotten := false // by the engine, which tells a status of its own then
	for {
		end, ok, changed := r.box.watch.exit(r.id)
		if ok && (!forgotten || r.box.ending.Load()) {
			return r.killedWithContainer(ctx, end.status)
		}
		select {
		case <-changed:
			if r.box.watch.uncertain() {
				poll = time.After(pause)
			}
			continue
		case <-copied:
			copied, eof = nil, time.Now()
			if !r.box.sharesKernel() {
				r.box.inspector.Count() // see exitStatus
			}
		case <-gone:
			// The event is near; if it does not come, ask.
			gone, pause, ended = nil, slowPoll, time.Now()
			poll = time.After(pause)
			continue
		case <-poll:
		case <-ctx.Done():
			return 0, engineError(ctx.Err(), "waiting for the command's end").As(sandbox.CauseEngineLost).Hint("see: belljar doctor")
		}
		about, err := r.inspect(ctx)
		if err == nil && !about.Running && r.goesOn(about) {
			about.Running, forgotten = true, true
		}
		switch {
		case err == nil && !about.Running && forgotten && !r.box.ending.Load():
			return 0, engineError(nil, "the engine lost the command when its attachment broke: the exit status is unknown").
				As(sandbox.CauseEngineLost).Hint("partial output kept; run it again")
		case err == nil && !about.Running && about.Pid != 0:
			return r.killedWithContainer(ctx, about.ExitCode)
		case err == nil && !about.Running && copied == nil:
			return 0, r.startError("it gives no reason") // unless copy has the reason
		case errdefs.IsNotFound(err), errdefs.IsConflict(err):
			// An image without a shell that runs may take the container away
			// before the exec's stream says anything.
			if r.box.noShell(ctx, false) {
				return 0, noShellError(nil, r.box.spec)
			}
			if !r.box.sharesKernel() {
				return runtimeFailed, nil
			}
			return 0, engineError(nil, "another program removed the container, or the engine restarted: the exit status is unknown").
				As(sandbox.CauseEngineLost).Hint("partial output kept; run it again")
		case err == nil && !ended.IsZero() && time.Since(ended) > untold:
			return 0, engineError(nil, "the engine does not tell how the command ended: the exit status is unknown").
				As(sandbox.CauseEngineLost).Hint("partial output kept; see: belljar doctor")
		case err == nil:
			failing = time.Time{}
			if copied == nil && time.Since(eof) > earlyEnd {
				r.markCut("the stream ended before the command")
			}
		case failing.IsZero():
			failing = time.Now()
		case time.Since(failing) > recovery:
			return 0, engineError(err, "the engine stopped answering: the exit status is unknown").
				As(sandbox.CauseEngineLost).Hint("partial output kept; see: belljar doctor")
		}
		poll = time.After(pause)
		pause = min(2*pause, slowPoll)
	}
}

// killedWithContainer reports whether a process got SIGKILL as its container's init
// ended, which happens at once in an image without a shell: that status is not the
// command's.
func (r *running) killedWithContainer(ctx context.Context, status int) (int, error) {
	if status != 128+int(syscall.SIGKILL) {
		return status, nil
	}
	if ended, _ := r.box.inspector.ended(); ended && r.box.noShell(ctx, true) {
		return 0, noShellError(nil, r.box.spec)
	}
	return status, nil
}

func (r *running) inspect(ctx context.Context) (container.ExecInspect, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return r.box.engine.client.ContainerExecInspect(ctx, r.id)
}
