package docker

import (
	"cmp"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/bindmount"
	"belljar/sandbox/internal/proc"

	"golang.org/x/sys/unix"
)

// ThisProcess is this process's name in its containers' labels.
func ThisProcess() string { return proc.ThisProcess().Process }

// ThisHost is this host's name in its containers' labels.
func ThisHost() string { return proc.ThisProcess().Host }

// NumberedName is numberedName.
var NumberedName = numberedName

// ListInside lists a container's processes as where the kernel is not shared.
func ListInside(ctx context.Context, c sandbox.Container) ([]sandbox.Process, error) {
	b := c.(*box)
	inside := newInsideInspector(b, b.inspector)
	defer inside.close()
	return inside.processes(ctx)
}

// ListByEngine lists a container's processes as where this host does not see them.
func ListByEngine(ctx context.Context, c sandbox.Container) ([]sandbox.Process, error) {
	b := c.(*box)
	return (&topInspector{counter: b.inspector, box: b}).processes(ctx)
}

// CannotFreeze takes the right to freeze a container's processes away, which
// only root has.
func CannotFreeze(c sandbox.Container) {
	group := c.(*box).inspector.(*hostInspector).Group
	group.V2, group.Freezer = "", "/nonexistent"
}

// NotHere has a container's processes seen through the engine only, as where it
// is on another host.
func NotHere(c sandbox.Container) {
	b := c.(*box)
	b.inspector.close()
	b.inspector = &topInspector{counter: b.inspector.(*hostInspector).counter, box: b}
}

// Freeze does it, as a belljar did that was killed then.
func Freeze(c sandbox.Container) error {
	g := c.(*box).inspector.(*hostInspector).Group
	file, err := os.OpenFile(g.FreezerFile(), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	err = g.Freeze(file, true)
	for err == nil && !g.Frozen() {
		time.Sleep(time.Millisecond)
	}
	return err
}

// Frozen reports whether a container's processes are.
func Frozen(c sandbox.Container) bool { return c.(*box).inspector.(*hostInspector).Group.Frozen() }

// SignalInside sends a signal to a container's processes as where this host does not
// see them.
func SignalInside(ctx context.Context, c sandbox.Container, list []sandbox.Process, signal sandbox.Signal) error {
	b := c.(*box)
	elsewhere := newBox(b.engine, b.id, b.watch)
	elsewhere.spec, elsewhere.runtime, elsewhere.keeperUID = b.spec, b.runtime, b.keeperUID
	return elsewhere.Signal(ctx, list, signal)
}

// BreakLink breaks the connection to a container's init.
func BreakLink(c sandbox.Container) { c.(*box).init.link.Load().Conn.Close() }

// BindDir is bindmount.Dir.
const BindDir = bindmount.Dir

// Unbind is bindmount.Unbind.
var Unbind = bindmount.Unbind

// BindWithoutRoot binds a mount where nothing can be held.
func BindWithoutRoot(m sandbox.Mount) error {
	_, err := bindmount.NewBinder(proc.Owner{}, errors.New("not root")).Source(m)
	return err
}

// BindAs binds a source, as another process of this host where one is named.
func BindAs(t *testing.T, source, process string) (path string) {
	t.Helper()
	o := proc.ThisProcess()
	o.Process = cmp.Or(process, o.Process)
	fd, _, err := bindmount.OpenSource(source)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if path, err = bindmount.NewBinder(o, nil).Bind(fd); err != nil {
		t.Fatal(err)
	}
	return path
}

// MakeAs makes a container as another process of this host would, and does not
// start it.
func MakeAs(ctx context.Context, e *Engine, process string, spec sandbox.Spec) (id string, err error) {
	host, err := hostConfig(spec)
	if err != nil {
		return "", err
	}
	as := &Engine{owner: proc.ThisProcess(), OwnSessions: e.OwnSessions}
	as.owner.Process = process
	name, labels := "belljar-"+strings.ToLower(spec.Command), as.labels(spec, "")
	labels[labelSeal] = e.seals().seal(name, labels)
	made, err := e.client.ContainerCreate(ctx, containerConfig(spec, labels, as.endsWithUs(spec)), host, nil, nil, name)
	return made.ID, err
}

// SealKey is sealKey.
var SealKey = sealKey

// RemoveUnanswered is Engine.removeUnanswered.
func RemoveUnanswered(ctx context.Context, e *Engine, name, seal string) error {
	_, err := e.removeUnanswered(ctx, name, seal)
	return err
}

// CheckTargets looks for links in targets as where this host cannot.
func CheckTargets(ctx context.Context, c sandbox.Container, targets ...string) error {
	b := c.(*box)
	defer func(mounts []sandbox.Mount) { b.spec.Mounts = mounts }(b.spec.Mounts)
	b.spec.Mounts = nil
	for _, target := range targets {
		b.spec.Mounts = append(b.spec.Mounts, sandbox.Mount{Target: target})
	}
	return b.checkTargets(ctx)
}

// TrustUsers has an image's user files not looked at.
func TrustUsers(e *Engine, image sandbox.Image) { e.soundImages.Store(image.ID, true) }

// Guarded is how many containers the guard of an engine looks after.
func Guarded(e *Engine) int {
	e.guard.mu.Lock()
	defer e.guard.mu.Unlock()
	return len(e.guard.making)
}

// KillInGroup is killInGroup.
var KillInGroup = killInGroup
