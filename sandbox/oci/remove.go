package oci

import (
	"context"
	"os"
	"time"

	"belljar/sandbox/internal/proc"

	"golang.org/x/sys/unix"
)

const (
	// killTimeout bounds how long the init may take to kill all processes, before the
	// kernel does by the init's own end.
	killTimeout = 2 * time.Second

	// endTimeout bounds how long a runtime may take to remove what it made.
	endTimeout = 5 * time.Second
)

// Remove implements sandbox.Container.
func (b *box) Remove(ctx context.Context) error {
	b.removal.Lock()
	defer b.removal.Unlock()
	if b.removed {
		return nil
	}
	b.ending.Store(true)
	b.killAll(ctx)
	err := b.remove()
	b.close()
	b.lose()
	b.removed = err == nil
	return err
}

// killAll has the init kill all processes but itself: what the kernel counted is final then, and
// still there.
func (b *box) killAll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTimeout)
	defer cancel()
	b.group.Thaw()
	b.link.KillAll(ctx)
	b.counter.Count()
}

// remove ends the init, with it whatever is left, and waits until nothing is.
func (b *box) remove() error {
	b.engine.unkeep(b.id)
	proc.Signal(b.record.First.asListed(), unix.SIGKILL)
	b.endSentry()
	b.awaitRuntime()
	if err := b.engine.removeGroup(b.name); err != nil {
		return engineError(err, "removing the container").Hint("see: belljar doctor")
	}
	return nil
}

// awaitRuntime waits until the runtime has removed what it made, and ends one that does not.
func (b *box) awaitRuntime() {
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	if b.run != nil {
		select {
		case <-b.gone:
			return
		case <-ctx.Done():
			b.run.killAll()
		case <-b.engine.life.Done():
		}
		select {
		case <-b.gone:
			return
		case <-time.After(endTimeout): // it hangs in the kernel, as on a dead file system: removing the group tells
			return
		case <-b.engine.life.Done(): // its engine was closed, which was who waited
		}
	}
	awaitEnd(ctx, b.record.Parent)
}

// awaitEnd waits for the end of a process that is not our child.
func awaitEnd(ctx context.Context, p process) {
	fd, err := unix.PidfdOpen(p.PID, unix.PIDFD_NONBLOCK)
	if err != nil {
		return
	}
	file := os.NewFile(uintptr(fd), "pidfd")
	defer file.Close()
	if !p.ended() && !proc.WaitEnd(ctx, file) {
		proc.Signal(p.asListed(), unix.SIGKILL)
	}
}

// abandon removes a container that Create does not return. The init ends with its first connection,
// if it has come to run, and the runtime removes what it has made.
func (b *box) abandon() error {
	b.ending.Store(true)
	if b.link != nil {
		b.link.Close()
	}
	b.engine.unkeep(b.id)
	if b.run != nil {
		if first, err := b.findFirst(); err == nil {
			proc.Signal(first.asListed(), unix.SIGKILL)
		}
		b.endSentry()
		b.awaitRuntime()
	}
	err := b.engine.removeGroup(b.name)
	b.close()
	return err
}

// endSentry ends gVisor's runtime, and with it all that it started: it leaves nothing that it would
// have to remove.
func (b *box) endSentry() {
	switch {
	case !b.record.ownKernel():
	case b.run != nil:
		b.run.process.Kill()
	default:
		proc.Signal(b.record.Parent.asListed(), unix.SIGKILL)
	}
}
