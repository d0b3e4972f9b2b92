package docker

import (
	"context"
	"os"
	"slices"

	"belljar/sandbox"
	"belljar/sandbox/internal/cgroup"
	"belljar/sandbox/internal/lockdown"
	"belljar/sandbox/internal/proc"

	"github.com/docker/docker/api/types/container"
	"golang.org/x/sys/unix"
)

// inspector sees what runs in a container, and acts on it, from where this
// process can: this host's kernel, the engine's top, or inside the container. One
// is chosen for each container, once the engine reports its runtime and its first
// process.
type inspector interface {
	counter
	hostAccess

	// processes lists what runs, without the container's own processes. With an
	// error the list may lack some; see proc.ErrMissed.
	processes(ctx context.Context) ([]sandbox.Process, error)
	// prepare does in advance, in the background, what the first list needs.
	prepare()
	// stop ends what prepare and processes started: no more lists are made.
	// close also waits for that end, and is called last.
	stop()
	close()
}

// hostAccess is what needs access to the kernel of the container's host.
type hostAccess interface {
	// signal sends a signal to a process that was listed, and to no other that got
	// its PID since. It reports whether the process has the signal, or is gone.
	signal(p sandbox.Process, number unix.Signal) bool
	// killStopped kills the runtime's processes that a command has stopped, and
	// reports whether there were any.
	killStopped() bool
	// killAll kills all that runs in the container, also where the engine does not answer.
	killAll()
	// thaw continues processes that a killed belljar left frozen.
	thaw()
	// root opens the container's root directory. Links in it lead into it, never
	// out of it. It is nil where this process may not look.
	root() *os.File
	// ended reports whether the container's first process has ended or is about to,
	// which takes all others with it.
	ended() (ended, known bool)
	// runs reports whether the process with that PID on the engine's host runs.
	runs(pid int) (runs, known bool)
	// waitExit waits for a process's end and reports whether it came.
	waitExit(ctx context.Context, r *running) bool
}

// noHostAccess is for a container on another host, or one whose processes
// this host's kernel does not have. The engine, or the container, is asked instead.
type noHostAccess struct{}

func (noHostAccess) signal(sandbox.Process, unix.Signal) bool { return false }
func (noHostAccess) killStopped() bool                        { return false }
func (noHostAccess) killAll()                                 {}
func (noHostAccess) thaw()                                    {}
func (noHostAccess) root() *os.File                           { return nil }
func (noHostAccess) ended() (ended, known bool)               { return false, false }
func (noHostAccess) runs(int) (runs, known bool)              { return false, false }

// waitExit implements hostAccess.
func (noHostAccess) waitExit(ctx context.Context, r *running) bool { return r.reported(ctx) }

// chooseInspector is called with what the engine reports about a running container.
func (b *box) chooseInspector(about container.InspectResponse) {
	b.runtime = about.HostConfig.Runtime
	first := about.State.Pid
	var group *cgroup.Group
	if b.engine.local() {
		group = cgroup.Find(b.id, first)
	}
	var counts counter = &engineCounter{box: b}
	watched := &proc.Counter{Group: group, First: first, Dirs: append(lockdown.WritableDirs(b.spec), "/dev/shm")}
	if b.spec.Limits.Disk > 0 {
		watched.Dirs = append(watched.Dirs, "/")
	}
	if group != nil {
		counts = watched
	}
	switch {
	case !b.sharesKernel():
		b.inspector = newInsideInspector(b, counts)
		return
	case group != nil:
		if status, err := proc.ReadStatus(first); err == nil {
			b.inspector = &hostInspector{
				counter: counts, Lister: proc.Lister{Group: group, KeeperUID: b.keeperUID, HostUID: status.UID, Taken: b.root != ""}, id: b.id, first: first,
				unwatch: watched.Watch(),
			}
			return
		}
	}
	b.inspector = &topInspector{counter: counts, box: b, first: first}
}

// sharesKernel reports whether a process in the container is one of the engine's
// host's. Under gVisor the engine's top lists other processes of the host.
func (b *box) sharesKernel() bool { return sharesKernel(b.runtime) }

func sharesKernel(runtime string) bool {
	return slices.Contains([]string{"", "runc", "crun", "io.containerd.runc.v2"}, runtime)
}

// Processes implements sandbox.Container.
func (b *box) Processes(ctx context.Context) ([]sandbox.Process, error) {
	if _, here := b.inspector.(*hostInspector); here || b.init == nil {
		return b.inspector.processes(ctx)
	}
	l, err := b.attached(ctx)
	if err != nil || l == nil {
		return nil, err
	}
	defer l.Release()
	keeper := b.keeperUID
	if b.root != "" { // commands may be that user, too; the init is not in its own list
		keeper = -1
	}
	return l.Processes(ctx, keeper)
}
