package oci

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/bindmount"
	"belljar/sandbox/internal/boxlink"
	"belljar/sandbox/internal/cgroup"
	"belljar/sandbox/internal/proc"

	"golang.org/x/sys/unix"
)

// box is a container.
type box struct {
	engine   *Engine
	id, name string // name is that of its control group
	group    *cgroup.Group
	record   record
	spec     sandbox.Spec
	run      *launched // nil if it was adopted
	link     *boxlink.Link
	lister   proc.Lister

	namespace *os.File // see holdNamespace
	counter   proc.Counter

	gone   chan struct{} // closed when the runtime ended
	lost   chan struct{} // see Lost
	losing sync.Once
	life   context.Context // until Remove or Close
	end    context.CancelFunc
	all    sync.WaitGroup // what watches it until then
	ending atomic.Bool    // Remove was called
	status atomic.Int64   // the runtime's exit status, once gone is closed

	removal sync.Mutex
	removed bool
	mu      sync.Mutex
	started []*running
	closed  bool // by Close
}

func newBox(e *Engine, id, name string, r record) *box {
	b := &box{engine: e, id: id, name: name, record: r, gone: make(chan struct{}), lost: make(chan struct{})}
	b.life, b.end = context.WithCancel(context.Background())
	return b
}

// watch waits for the runtime's end. A session's may run longer than this engine.
func (b *box) watch() {
	run, gone := b.run, b.gone
	b.engine.all.Go(func() {
		if proc.WaitEnd(b.engine.life, run.pidfd) {
			if state, err := run.process.Wait(); err == nil {
				b.status.Store(int64(state.ExitCode()))
			}
			b.engine.unkeep(b.id)
			close(gone)
		} else {
			run.process.Release()
		}
		run.pidfd.Close()
	})
}

// hello waits until the init answers, and looks at what there is.
func (b *box) hello(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-b.gone:
			cancel()
		case <-stop:
		}
	}()
	err := b.link.Hello(ctx)
	select {
	case <-b.gone:
		return b.startError(io.EOF)
	default:
	}
	if err != nil {
		return b.startError(err)
	}
	first, err := b.findFirst()
	if b.record.ownKernel() {
		first, err = b.run.sentry(ctx)
	}
	if err != nil {
		select {
		case <-b.gone:
			return b.startError(io.EOF)
		default:
		}
		return engineError(err, "looking for the container's init").Hint("see: belljar doctor")
	}
	b.record.First = first
	if b.record.Parent, err = processOf(b.run.process.Pid); err != nil {
		return engineError(err, "looking for the container's runtime").Hint("see: belljar doctor")
	}
	if p, err := profileOf(b.record.Root); err == nil && !b.record.ownKernel() {
		b.engine.filter.take(b.record.Runtime, b.id, p, b.run.private)
	}
	if err := b.holdNamespace(); err != nil {
		return engineError(err, "looking at the container's init").Hint("see: belljar doctor")
	}
	b.record.PIDs = b.group.Instead
	if err := b.note(); err != nil {
		return engineError(err, "making the container").Hint("see: belljar doctor")
	}
	b.look()
	return nil
}

// startError says why a container did not start.
func (b *box) startError(err error) error {
	if errors.Is(err, io.EOF) { // all that it means is that the init has ended, and so does the runtime
		select {
		case <-b.gone:
		case <-time.After(killTimeout):
		}
	}
	said := b.run.said()
	select {
	case <-b.gone:
		err = b.runtimeError(said)
	default:
		if said == "" && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
			return err
		}
		if said != "" {
			err = fmt.Errorf("%w: %s", err, said)
		}
	}
	return engineError(err, "starting the container").Hint("see: belljar doctor")
}

// runtimeError is how the runtime ended, and what it said. The container's init says it there, too.
func (b *box) runtimeError(said string) error {
	how := fmt.Sprintf("%s ended with exit status %d", filepath.Base(b.record.Runtime), b.status.Load())
	if b.status.Load() < 0 {
		how = filepath.Base(b.record.Runtime) + " was killed"
	}
	return fmt.Errorf("%s: %s", how, cmp.Or(said, "it said nothing"))
}

// findFirst finds the init: it is the only process, and the first in its PID namespace.
func (b *box) findFirst() (process, error) {
	pids, err := b.group.Processes()
	if b.group.Instead != "" {
		pids, err = proc.Children(b.run.process.Pid)
	}
	if err != nil {
		return process{}, err
	}
	for _, pid := range pids {
		if s, err := proc.ReadStatus(pid); err == nil && s.PID == 1 {
			return processOf(pid)
		}
	}
	return process{}, fmt.Errorf("it is not among the processes %v of control group %s", pids, b.name)
}

// look begins to watch a container that runs.
func (b *box) look() {
	b.lister.Group, b.lister.KeeperUID, b.lister.HostUID, b.lister.Taken = b.group, b.record.Keeper, b.record.hostKeeper(), b.record.Root
	b.counter.Group, b.counter.First, b.counter.Dirs = b.group, b.record.First.PID, b.record.Dirs
	if b.record.ownKernel() {
		b.counter.Dirs = nil // only the sentry knows how full they are
	}
	stop := b.counter.Watch()
	b.all.Go(func() {
		<-b.life.Done()
		stop()
		if b.namespace != nil {
			b.namespace.Close()
		}
	})
	b.all.Go(func() {
		select {
		case <-b.link.Done():
		case <-b.gone:
		case <-b.life.Done():
			return
		}
		b.lose()
	})
}

func (b *box) lose() { b.losing.Do(func() { close(b.lost) }) }

// check compares what was mounted with what the policy checked.
func (b *box) check(judged []bindmount.Source) error {
	root, err := os.Open(filepath.Join(b.counter.Proc(), "root"))
	if err != nil {
		return engineError(err, "looking into the container").Hint("see: belljar doctor")
	}
	defer root.Close()
	return bindmount.CheckMounted(root, b.spec, judged)
}

// Info implements sandbox.Container.
func (b *box) Info() sandbox.ContainerInfo {
	i := b.record.Image
	info := sandbox.ContainerInfo{ID: b.id, Image: i.Reference, ImageDigest: i.Digest, Engine: "oci", Way: sandbox.WayInit, Runtime: filepath.Base(b.record.Runtime)}
	info.Limits = b.record.Limits
	switch {
	case b.record.Root && b.record.ownKernel():
		info.Root = "gvisor"
	case b.record.Root:
		info.Root = "userns"
	}
	return info
}

// Lost implements sandbox.Container. An init that was killed a moment ago is lost also before that was
// heard of.
func (b *box) Lost() <-chan struct{} {
	if b.record.First.ended() {
		b.lose()
	}
	return b.lost
}

// Processes implements sandbox.Container.
func (b *box) Processes(ctx context.Context) ([]sandbox.Process, error) {
	if b.record.ownKernel() {
		keeper := b.record.Keeper
		if b.record.Root { // commands may be that user, too; the init is not in its own list
			keeper = -1
		}
		return b.link.Processes(ctx, keeper)
	}
	return b.lister.Processes(ctx)
}

// WaitsForInput reports whether one of the listed processes is blocked reading its stdin,
// and that comes from outside the container.
func (b *box) WaitsForInput(list []sandbox.Process) bool { return b.lister.WaitForInput(list) }

// Answers reports whether the init answers.
func (b *box) Answers(ctx context.Context) bool { return b.link.Answers(ctx) }

// Signal implements sandbox.Container.
func (b *box) Signal(ctx context.Context, list []sandbox.Process, signal sandbox.Signal) error {
	number := unix.SignalNum(string(signal))
	if number == 0 {
		return engineError(nil, "signal %.80q is unknown", string(signal)).As(sandbox.CauseInvalid).Hint("give a name such as SIGTERM")
	}
	for _, p := range list {
		if b.record.ownKernel() {
			if err := b.link.Signal(ctx, p.PID, p.StartTicks, number); err != nil {
				return engineError(err, "sending %s to process %d", signal, p.PID).Hint("see: belljar doctor")
			}
			continue
		}
		if !proc.Signal(p, number) {
			return engineError(nil, "sending %s to process %d", signal, p.HostPID).Hint("see: belljar doctor")
		}
	}
	return nil
}

// Counters implements sandbox.Container.
func (b *box) Counters(ctx context.Context) (sandbox.Counters, error) {
	ended := !b.ending.Load() && b.record.First.ended()
	starved := ended && b.counter.EndedByMemory()
	c, source := b.counter.Counters(ctx)
	c.Source = source
	if ended && (!b.record.ownKernel() || !b.record.Root) {
		c.KilledBy = "outside" // an init does not end by itself
		c.Stopped = !starved && c.OOMKills > 0 && !b.record.ownKernel()
	}
	return c, nil
}
