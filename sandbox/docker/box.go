package docker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"belljar/sandbox"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
)

// killAfter is how long a container may take to end after its keeper's stdin was
// closed, before belljar asks the engine to kill it.
const killAfter = 500 * time.Millisecond

// countPause is the time between two reads of the counts while the container ends:
// limits that its processes hit up to their end are evidence, too.
const countPause = 5 * time.Millisecond

// removePause is the time between two tries to remove a busy container.
const removePause = 20 * time.Millisecond

// box is a container with its main process: our init, or a keeper.
type box struct {
	engine    *Engine
	id        string
	spec      sandbox.Spec
	init      *ownInit               // nil: it has a keeper
	stdin     types.HijackedResponse // the keeper's; while it is open, the container lives
	keeperUID int                    // who the container's own processes run as
	root      string                 // how commands that are root are contained, "" where none may be
	runtime   string                 // as reported by the engine
	inspector inspector              // the engine's top, until another is chosen
	watch     *watch

	removal sync.Mutex
	removed bool
	ending  atomic.Bool // Remove was called

	mu    sync.Mutex
	execs []*running
}

func newBox(e *Engine, id string, w *watch) *box {
	b := &box{engine: e, id: id, watch: w}
	b.inspector = &topInspector{counter: &engineCounter{box: b}, box: b}
	return b
}

// Info implements sandbox.Container.
func (b *box) Info() sandbox.ContainerInfo {
	way := sandbox.WayExec
	if b.init != nil {
		way = sandbox.WayInit
	}
	return sandbox.ContainerInfo{ID: b.id, Image: b.spec.Image.Reference, ImageDigest: b.spec.Image.Digest, Engine: "docker", Way: way, Runtime: b.runtime, Root: b.root}
}

// Remove implements sandbox.Container.
func (b *box) Remove(ctx context.Context) error {
	b.removal.Lock()
	defer b.removal.Unlock()
	if b.removed {
		return nil
	}
	b.ending.Store(true)
	b.inspector.killStopped()
	b.inspector.stop() // lists are not read any more, and unread output blocks the engine
	err := b.remove(ctx)
	b.detach()
	if b.init != nil && err == nil {
		b.init.following.Wait()
	}
	b.inspector.close()
	for _, exec := range b.started() {
		if !exec.waited.Load() {
			exec.close()
		}
	}
	b.engine.events.remove(b.id, b.watch)
	if b.removed = err == nil; b.removed {
		b.watch.update(func(s *state) { s.destroyed = true })
		b.engine.forgetLock(b.id)
	}
	return err
}

// Lost implements sandbox.Container.
func (b *box) Lost() <-chan struct{} { return b.watch.lost }

// Close implements sandbox.Container. A Wait for one of its processes then asks
// the engine for the exit status.
func (b *box) Close() error {
	b.detach()
	b.inspector.close()
	b.engine.events.remove(b.id, b.watch)
	b.watch.markMissed()
	return nil
}

// add remembers an exec, whose connection Remove closes.
func (b *box) add(exec *running) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.execs = append(b.execs, exec)
}

// forget drops an exec that is over: a session has many.
func (b *box) forget(exec *running) {
	b.mu.Lock()
	b.execs = slices.DeleteFunc(b.execs, func(other *running) bool { return other == exec })
	b.mu.Unlock()
	b.watch.update(func(s *state) {
		if end, known := s.exits[exec.id]; known {
			exec.when.Store(end.when)
		}
		delete(s.exits, exec.id)
	})
}

func (b *box) started() []*running {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.execs)
}

func (b *box) remove(ctx context.Context) error {
	if (b.endInit(ctx) || b.closeStdin()) && b.wait(ctx, killAfter) {
		return nil
	}
	// A session's keeper has no such stdin, or the keeper did not see its stdin
	// end: stopped, frozen, or never started. Or the engine does not answer: the command ends all the same.
	b.inspector.killAll()
	if err := b.engine.client.ContainerKill(ctx, b.id, "KILL"); err != nil && !errdefs.IsNotFound(err) && !errdefs.IsConflict(err) {
		return fmt.Errorf("killing: %w", err)
	}
	if b.wait(ctx, killAfter) {
		return nil
	}
	return b.engine.forceRemove(ctx, b.id)
}

// wait waits until the container is gone, but not longer than d.
func (b *box) wait(ctx context.Context, d time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	for {
		now, changed := b.watch.now()
		switch {
		case now.destroyed:
			return true
		case now.missed:
			return b.askGone(ctx)
		}
		select {
		case <-changed:
		case <-time.After(countPause):
			b.inspector.Count()
		case <-ctx.Done():
			return false
		}
	}
}

// askGone asks the engine for the same, in case events were missed.
func (b *box) askGone(ctx context.Context) bool {
	waiting, errs := b.engine.client.ContainerWait(ctx, b.id, container.WaitConditionRemoved)
	select {
	case end := <-waiting:
		return end.Error == nil // an error means that the engine gave up: something busy keeps it
	case err := <-errs:
		return errdefs.IsNotFound(err)
	}
}

// abandon removes a container that Create does not return.
func (b *box) abandon(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.engine.callTime())
	defer cancel()
	b.detach()
	b.closeStdin()
	b.engine.events.remove(b.id, b.watch)
	b.inspector.close()
	return b.engine.forceRemove(ctx, b.id)
}

// closeStdin ends a keeper that reads one, and reports whether this one does.
func (b *box) closeStdin() bool {
	if kept, ok := b.engine.keepers.LoadAndDelete(b.id); ok {
		b.stdin = kept.(types.HijackedResponse)
	}
	if b.stdin.Conn == nil {
		return false
	}
	b.stdin.Close()
	return true
}

// removeUnanswered removes the container that the engine made for a request that it
// did not answer, and reports whether there was one. The name alone is not enough: it
// may be another container's.
func (e *Engine) removeUnanswered(ctx context.Context, name, seal string) (removed bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.callTime())
	defer cancel()
	for {
		about, err := e.client.ContainerInspect(ctx, name)
		switch {
		case err == nil && about.Config.Labels[labelSeal] == seal:
			err = e.forceRemove(ctx, about.ID)
			return err == nil, err
		case err == nil, errdefs.IsNotFound(err):
			return false, nil
		case !client.IsErrConnectionFailed(err):
			return false, fmt.Errorf("looking for container %s: %w", name, err)
		}
		select {
		case <-time.After(removePause):
		case <-ctx.Done():
			return false, errors.Join(ctx.Err(), err)
		}
	}
}

// forceRemove removes a container by ID, in any state. One that is already removed, or
// being removed, is no error. An engine that cannot be reached is asked
// again: it may be restarting, with the container.
func (e *Engine) forceRemove(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.callTime())
	defer cancel()
	for {
		err := e.client.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
		if err == nil || errdefs.IsNotFound(err) {
			return nil
		}
		// A conflict is a removal under way already, started by AutoRemove.
		if !errdefs.IsConflict(err) && !client.IsErrConnectionFailed(err) {
			return fmt.Errorf("removing container %s: %w", id, err)
		}
		select {
		case <-time.After(removePause):
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}
