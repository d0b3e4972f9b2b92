package docker

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/failure"
	"belljar/sandbox/internal/proc"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"golang.org/x/sys/unix"
)

const (
	// startTimeout is how long a container may take to start, also on a busy host.
	startTimeout = time.Minute

	// waitsAfter is how long the runtime may take to start a container before it
	// counts as hanging: 50 at once take 35 s on a slow host.
	waitsAfter = 40 * time.Second
)

// errWaits is why the runtime was killed.
var errWaits = errors.New("the runtime hangs on a file in the image")

// start attaches to the keeper's stdin before it starts the keeper, which so never runs
// without us.
func (b *box) start(ctx context.Context) error {
	if err := b.checkUserFiles(ctx); err != nil {
		return err
	}
	if err := b.startMain(ctx); err != nil {
		return err
	}
	about, err := b.engine.inspect(ctx, b.id)
	if errdefs.IsNotFound(err) && b.init == nil && b.noShell(ctx, true) { // and is removed already
		return noShellError(nil, b.spec)
	}
	if err != nil {
		return engineError(err, "inspecting the container").Hint("see: belljar doctor")
	}
	if b.init != nil {
		b.init.know(about)
	}
	b.chooseInspector(about)
	switch {
	case b.init == nil:
		return nil
	case b.spec.Session != "":
		return b.hasShell(ctx)
	case b.spec.Pool != "":
		return b.warmUp(ctx)
	}
	return nil
}

// warmUp runs the shell once in a container of a pool, before there is a command: the first one
// in a container waits until the storage driver has found and read it. On fuse-overlayfs that
// takes 60 requests, and longer than all the rest of a warm command. Without a shell, the
// command is told so.
func (b *box) warmUp(ctx context.Context) error {
	if err := b.checkShell(ctx); err != nil && sandbox.CauseOf(err) != sandbox.CauseImage {
		return err
	}
	if h, ok := b.inspector.(*hostInspector); ok {
		h.Prepare()
	}
	return nil
}

// hasShell is checkShell once for each image, which is read-only, where nothing is mounted over it: a harness makes
// thousands of containers.
func (b *box) hasShell(ctx context.Context) error {
	if len(b.spec.Mounts) > 0 || b.spec.Image.ID == "" {
		return b.checkShell(ctx)
	}
	key := [3]string{b.spec.Image.ID, b.spec.User.String(), b.runtime}
	if _, known := b.engine.shells.Load(key); known {
		return nil
	}
	err := b.checkShell(ctx)
	if err == nil {
		b.engine.shells.Store(key, nil)
	}
	return err
}

// checkShell refuses a session in whose image no sh runs, before it is one. A keeper needs
// sh itself.
func (b *box) checkShell(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	sh, err := b.begin(ctx, sandbox.Exec{Script: ":", Dir: "/", User: b.spec.User, Stdout: io.Discard, Stderr: io.Discard})
	if err == nil {
		_, err = sh.Wait(ctx)
	}
	return err
}

// startMain starts the container's main process, with us attached to it.
func (b *box) startMain(ctx context.Context) error {
	if b.init != nil {
		return b.startInit(ctx)
	}
	if b.engine.endsWithUs(b.spec) {
		if err := b.attachKeeper(ctx); err != nil {
			return err
		}
	}
	return b.run(ctx)
}

// attachKeeper attaches to the keeper's stdin: while that is open, the container runs.
func (b *box) attachKeeper(ctx context.Context) error {
	var err error
	b.stdin, err = hijack(ctx, func(ctx context.Context) (types.HijackedResponse, error) {
		return b.engine.client.ContainerAttach(ctx, b.id, container.AttachOptions{Stream: true, Stdin: true})
	})
	if err != nil {
		return engineError(err, "attaching to the container's keeper").Hint("see: belljar doctor")
	}
	if b.spec.Session != "" { // which lives as long as the engine's connections, not as this box
		b.engine.keepers.Store(b.id, b.stdin)
		b.stdin = types.HijackedResponse{}
	}
	return nil
}

// run starts the container. The runtime may hang on a file in it or in a mount, while
// the engine holds the container's lock: it can be neither inspected nor removed. So the
// runtime's process in it is killed, and the engine reports a failed start.
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
		return engineError(errWaits, "image %q did not start in %v", b.spec.Image.Reference, waitsAfter).As(sandbox.CauseImage).
			Hint("check /etc/passwd, /etc/group and special files in the image; or the host is too busy")
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return engineError(nil, "the engine did not start a container of image %q in %v", b.spec.Image.Reference, startTimeout).
			Hint("see: belljar doctor; or restart the engine: systemctl restart docker")
	}
	if b.init != nil && targetError(err, b.spec) == nil {
		return b.engine.unlessProven(b.spec.Runtime, initStartError(err))
	}
	return startError(err, b.spec)
}

// startError says why a container did not start. For a keeper that could not be started
// moby answers 400.
func startError(err error, spec sandbox.Spec) error {
	if refused := targetError(err, spec); refused != nil {
		return refused
	}
	switch {
	case errdefs.IsInvalidArgument(err):
		return noShellError(errors.New(failure.OneLine(err.Error())), spec)
	case errdefs.IsNotFound(err):
		return engineError(err, "the engine cannot find something that the container needs").As(sandbox.CauseInvalid).Hint("check the network: docker network ls")
	}
	return engineError(errors.New(failure.OneLine(err.Error())), "starting the container").Hint("see: belljar doctor; a mount's source and target must both be directories or both be files")
}

// killInGroup kills the processes of this host that are in a group with a
// container's ID, and reports whether there was one. Before the container has
// started these are the runtime's.
func killInGroup(id string) (found bool) {
	groups, _ := filepath.Glob("/proc/[0-9]*/cgroup")
	for _, file := range groups {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		before, err := proc.ReadStat(pid)
		if err != nil {
			continue
		}
		if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), id) {
			found = proc.Signal(sandbox.Process{HostPID: pid, StartTicks: before.StartTicks}, unix.SIGKILL) || found
		}
	}
	return found
}
