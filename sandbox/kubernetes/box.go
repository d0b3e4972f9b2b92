package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/kube"

	"golang.org/x/sys/unix"
)

// box is a handle on a pod.
type box struct {
	engine *Engine
	record record
	spec   sandbox.Spec

	attaching sync.Mutex // held while link changes
	link      *link
	closed    bool

	stay
	lost    chan struct{} // see Lost
	losing  sync.Once
	life    context.Context // until Remove or Close
	end     context.CancelFunc
	all     sync.WaitGroup  // what watches it until then
	ending  atomic.Bool     // Remove was called
	removal context.Context // until then
	remove  context.CancelFunc
	removes sync.Mutex
	removed bool
	counter counter
	finding sync.Mutex // held while it is found out how the pod ended
	ended   *fate      // then
	endedOf *link      // whose end that was for
}

func newBox(e *Engine, r record) *box {
	b := &box{engine: e, record: r, lost: make(chan struct{}), stay: stay{unwanted: make(chan struct{})}}
	b.life, b.end = context.WithCancel(context.Background())
	b.removal, b.remove = context.WithCancel(context.Background())
	b.spec = sandbox.Spec{
		Command: r.Command, Session: r.Session, Image: sandbox.Image{Reference: r.Image, ID: r.ImageID, Digest: r.Digest}, User: r.User,
		Deadline: r.Deadline, Limits: r.Limits, Tmpfs: r.Tmpfs, Mounts: r.Mounts, Runtime: r.Runtime,
	}
	return b
}

// use takes a link, of which this handle is a user already.
func (b *box) use(l *link) {
	b.link = l
	b.all.Go(func() {
		select {
		case <-l.Done():
			b.lose()
		case <-b.life.Done():
		}
	})
}

func (b *box) lose() { b.losing.Do(func() { close(b.lost) }) }

// Info implements sandbox.Container.
func (b *box) Info() sandbox.ContainerInfo {
	return sandbox.ContainerInfo{
		ID: b.record.UID, Image: b.record.Image, ImageDigest: b.record.Digest, Engine: "kubernetes", Way: sandbox.WayInit,
		Runtime: b.record.Runtime, Limits: "no-pids",
	}
}

// Lost implements sandbox.Container.
func (b *box) Lost() <-chan struct{} { return b.lost }

// OneUser reports that all commands of the container run as its first user.
func (b *box) OneUser() bool { return true }

// errEnded is of a pod that has ended, or is about to.
var errEnded error = engineError(nil, "the pod has ended").As(sandbox.CauseEngineLost).Hint("")

// endedError is that for who has no command in it yet, and by which link it was noticed, or nil.
func (b *box) endedError(of *link) error {
	why, hint := b.findFate(of).early()
	if why == "" {
		return engineError(nil, "the pod ended before the command started").As(sandbox.CauseEngineLost).Hint("another program may have deleted it: run the command again")
	}
	return engineError(nil, "the pod ended before the command started: %s", why).As(sandbox.CauseEngineLost).Hint(hint)
}

// attached is the link to the init, for one more user. A session's handle attaches again where the connection broke.
func (b *box) attached(ctx context.Context) (*link, error) {
	b.attaching.Lock()
	defer b.attaching.Unlock()
	if b.ending.Load() || b.closed {
		return nil, errEnded
	}
	if b.link != nil && !b.link.Broken() {
		b.link.AddUser()
		return b.link, nil
	}
	if b.link != nil {
		b.link.Release()
		b.link = nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(b.removal, cancel)() // who ends it waits for this
	defer context.AfterFunc(b.life, cancel)()
	l, err := b.reach(ctx)
	switch {
	case err != nil && (b.ending.Load() || b.life.Err() != nil):
		return nil, errEnded
	case err != nil:
		return nil, b.reachError(ctx, err)
	}
	b.use(l)
	l.AddUser()
	return l, nil
}

// reach is a link to the init of the pod, which this process has, or of a session.
func (b *box) reach(ctx context.Context) (*link, error) {
	done, err := b.engine.leases.reaching(ctx, b.record.UID)
	if err != nil {
		return nil, err
	}
	defer done()
	if l := b.engine.links.Use(b.record.UID); l != nil {
		return l, nil
	}
	if b.engine.endsWithUs(b.spec) {
		return nil, errEnded
	}
	hold, err := b.engine.leases.take(ctx, b.record.UID)
	if err != nil {
		return nil, err
	}
	l, err := b.engine.attach(ctx, b.record.Name, b.record.UID)
	if err != nil {
		hold.release()
		return nil, err
	}
	hold.serves(l)
	there, err := b.engine.exists(ctx, b.record.Name, b.record.UID) // attaching is by the name, which another pod may have by now
	if err != nil || !there {
		l.Release()
		return nil, cmp.Or(err, sessionGone(b.record.Session))
	}
	return l, nil
}

// Close implements sandbox.Container. What it started may go on using the link.
func (b *box) Close() error {
	b.end()
	b.attaching.Lock()
	b.closed = true
	l := b.link
	b.link = nil
	b.attaching.Unlock()
	b.all.Wait()
	if l != nil {
		l.Release()
	}
	b.lose()
	return nil
}

// Answers reports whether the init answers.
func (b *box) Answers(ctx context.Context) bool {
	l, err := b.attached(ctx)
	if err != nil {
		return false
	}
	defer l.Release()
	return l.Answers(ctx)
}

// noKeeper is the user of no process: the init lists all but itself.
const noKeeper = -1

// Processes implements sandbox.Container.
func (b *box) Processes(ctx context.Context) ([]sandbox.Process, error) {
	l, err := b.attached(ctx)
	if err != nil {
		return nil, err
	}
	defer l.Release()
	return l.Processes(ctx, noKeeper)
}

// Signal implements sandbox.Container.
func (b *box) Signal(ctx context.Context, list []sandbox.Process, signal sandbox.Signal) error {
	number := unix.SignalNum(string(signal))
	if number == 0 {
		return engineError(nil, "signal %.80q is unknown", string(signal)).As(sandbox.CauseInvalid).Hint("give a name such as SIGTERM")
	}
	if len(list) == 0 {
		return nil
	}
	l, err := b.attached(ctx)
	switch {
	case errors.Is(err, errEnded):
		return nil // and they with it
	case err != nil:
		return err
	}
	defer l.Release()
	for _, p := range list {
		if err := l.Signal(ctx, p.PID, p.StartTicks, number); err != nil {
			return engineError(err, "sending %s to process %d", signal, p.PID).Hint("see: belljar doctor")
		}
	}
	return nil
}

const (
	// killTimeout bounds how long the init may take to kill all processes, before the kubelet is to.
	killTimeout = 3 * time.Second
	// removeTimeout bounds how long a kubelet may take to end a pod.
	removeTimeout = 15 * time.Second
)

// Remove implements sandbox.Container.
func (b *box) Remove(ctx context.Context) error {
	b.removes.Lock()
	defer b.removes.Unlock()
	if b.removed {
		return nil
	}
	b.ending.Store(true)
	b.remove()
	dead := b.killAll(ctx)
	b.Close()
	err := b.engine.deleteDead(ctx, b.record.Name, b.record.UID, dead)
	if b.removed = err == nil; b.removed {
		b.engine.records.remove(b.engine, b.record.UID)
	}
	return err
}

// killAll has the init kill all processes, and itself, and reports whether it said that it did: then
// what was counted is final, and nothing runs any more.
func (b *box) killAll(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTimeout)
	defer cancel()
	b.attaching.Lock()
	l := b.link
	if l == nil && !b.engine.endsWithUs(b.spec) && !b.closed {
		l, _ = b.reach(ctx)
		b.link = l
	}
	b.attaching.Unlock()
	if l == nil || l.KillAll(ctx) != nil {
		return false
	}
	b.count(ctx, l)
	l.End(ctx) // with its connection it ends anyway, if it is no session's
	l.Close()
	return true
}

// abandon deletes a pod that Create does not return.
func (b *box) abandon() error {
	b.ending.Store(true)
	b.remove()
	b.Close()
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	err := b.engine.deleteDead(ctx, b.record.Name, b.record.UID, true) // no command ran in it
	if err == nil {
		b.engine.records.remove(b.engine, b.record.UID)
	}
	return err
}

// deleteDead deletes a pod. The API server forgets one at once in which nothing runs any more, and any other when its kubelet has seen
// the end.
func (e *Engine) deleteDead(ctx context.Context, name, uid string, dead bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	if dead {
		return e.deleteOrDoom(ctx, name, uid, 0)
	}
	if err := e.deleteOrDoom(ctx, name, uid, 1); err != nil {
		return err
	}
	err := e.follow(ctx, &kube.Pod{Metadata: kube.Meta{Name: name, UID: uid}}, func(_ *kube.Pod, gone bool) bool { return gone })
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, context.DeadlineExceeded):
		return callError(err, "waiting for the end of pod %s", name)
	}
	return engineError(err, "pod %s does not end", name).Hint("its node may be lost: kubectl get nodes")
}
