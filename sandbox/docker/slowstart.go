package docker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"belljar/sandbox"

	"github.com/docker/docker/api/types/container"
)

const (
	// startTimeout is for a container to start, also on a busy host.
	startTimeout = time.Minute

	// waitsAfter is how long the runtime may take to start one before it is taken
	// to wait for what never comes.
	waitsAfter = 20 * time.Second
)

// errWaits is why the runtime was ended.
var errWaits = errors.New("the runtime waits for something of the image")

// run starts the container. What the runtime opens in it, or what is mounted
// there, may have it wait for ever, while the engine holds the container's lock:
// nothing can be asked of it, and it cannot be removed. So the runtime's process
// in it is killed, which the engine takes for a failed start.
func (b *box) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	var all sync.WaitGroup
	var killed atomic.Bool
	done := make(chan struct{})
	all.Go(func() {
		for wait := waitsAfter; ; wait = stuckAfter {
			select {
			case <-time.After(wait):
				if b.engine.local() && killInGroup(b.id) {
					killed.Store(true)
				}
			case <-done:
				return
			}
		}
	})
	err := b.engine.client.ContainerStart(ctx, b.id, container.StartOptions{})
	close(done)
	all.Wait()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil && b.engine.local():
		killInGroup(b.id) // the engine starts it all the same, and it is about to be removed
	}
	switch {
	case killed.Load():
		return engineError(errWaits, "image %q did not start in %v", b.spec.Image.Reference, waitsAfter).as(sandbox.CauseImage).
			hint("look at what is no regular file in it, and at its /etc/passwd and /etc/group; or the host is too busy")
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return engineError(nil, "the engine did not start a container of image %q in %v", b.spec.Image.Reference, startTimeout).
			hint("see: belljar doctor; the engine may have to be restarted: systemctl restart docker")
	}
	return startError(err, b.spec)
}

// killInGroup kills the processes of this host that are in a group with a
// container's ID, and tells whether there was one. Before the container has
// started these are the runtime's.
func killInGroup(id string) (found bool) {
	groups, _ := filepath.Glob("/proc/[0-9]*/cgroup")
	for _, file := range groups {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		before, err := readStat(pid)
		if err != nil {
			continue
		}
		if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), id) {
			found = killProcess(sandbox.Process{HostPID: pid, StartTicks: before.startTicks}) || found
		}
	}
	return found
}
