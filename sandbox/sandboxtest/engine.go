// Package sandboxtest contains what tests of package sandbox and of its engines
// need: [Engine], a fake whose processes are Go functions, [TestEngine], the
// suite that every engine passes, the fake included, and [TestRunner], the suite
// that every Runner passes.
//
// The one rule: a fake process ends as a real one does. Once its container is
// killed, its next Write, Read or Sleep does not return, so a script needs no
// code for being killed, and no goroutine is left behind.
//
//	engine := &sandboxtest.Engine{Script: func(p *sandboxtest.Proc) int {
//		fmt.Fprintln(p.Stdout, "working")
//		p.Sleep(time.Hour)
//		return 0
//	}}
//	runner := local.New(engine, &sandboxtest.Images{})
//
// # Design
//
// Everything waits on channels and timers only, so that it runs in the bubble
// of testing/synctest, where an hour passes at once.
package sandboxtest

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"sync"
	"time"

	"belljar/sandbox"
)

// keeper is the UID of the container's main process.
const keeper = 65533

// Fault decides what happens in a call to the fake: the call fails with the error it
// returns, or continues if that is nil. It may block for any time.
type Fault func(ctx context.Context) error

// Hang is the Fault of an engine that does not answer.
func Hang(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// Fail is the Fault of an engine that refuses.
func Fail(err error) Fault {
	return func(context.Context) error { return err }
}

// Engine is a sandbox.Engine in memory. Its fields are set before its first
// use; the zero value runs the scripts of the suites.
type Engine struct {
	// Way is how its containers say that they start commands; "" is sandbox.WayExec.
	Way string

	// MadeElsewhere: its containers take nothing of this machine.
	MadeElsewhere bool

	// Script runs every command and returns its exit status.
	Script func(p *Proc) int
	// Gate runs every gate, if the fake shell is not to run it.
	Gate func(p *Proc) int

	// Etc are the files of every image, by their paths; nil means those of
	// belljar/base. Those in a bin directory are programs. With nil nearly every
	// directory exists, otherwise only those of the files.
	Etc map[string]string

	OnCreate, OnExec, OnProcesses, OnCounters, OnSignal, OnRemove, OnSessions, OnAdopt, OnResize, OnFiles, OnModes Fault
	// OnAnswer is the fault of asking a gate, or a container with an init, whether it is
	// still alive. If it fails, the gate does not answer any more.
	OnAnswer Fault

	mu    sync.Mutex
	made  []sandbox.Spec
	boxes []*Container // those that are not removed
}

func (e *Engine) way() string { return cmp.Or(e.Way, sandbox.WayExec) }

// Elsewhere reports whether other machines make the containers.
func (e *Engine) Elsewhere() bool { return e.MadeElsewhere }

// Create implements sandbox.Engine.
func (e *Engine) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Container, error) {
	if err := e.OnCreate.strike(ctx); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.made = append(e.made, spec)
	c := &Container{
		engine: e, id: fmt.Sprintf("fake%d", len(e.made)), spec: spec, created: time.Now(),
		lost: make(chan struct{}), unwanted: make(chan struct{}), files: map[string]string{},
		counters: sandbox.Counters{Evidence: sandbox.Evidence{Source: "script"}},
	}
	e.boxes = append(e.boxes, c)
	if spec.Session != "" {
		return c.open(), nil
	}
	return c, nil
}

// Cordon says that none of its containers should wait for a command any longer: their nodes are to be empty.
func (e *Engine) Cordon() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.boxes {
		if !isClosed(c.unwanted) {
			close(c.unwanted)
		}
	}
}

// Sessions implements sandbox.Engine.
func (e *Engine) Sessions(ctx context.Context, name string) ([]sandbox.Kept, error) {
	if err := e.OnSessions.strike(ctx); err != nil {
		return nil, err
	}
	var list []sandbox.Kept
	for _, c := range e.Left() {
		if s := c.spec; s.Session != "" && (name == "" || s.Session == name) && !isClosed(c.lost) {
			list = append(list, sandbox.Kept{Session: s.Session, ID: c.id, Image: s.Image.Reference, ImageID: s.Image.ID, Print: s.Print(), User: s.User, Created: c.created, Deadline: s.Deadline, Workspace: s.Workspace, Idle: s.Idle})
		}
	}
	return list, nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Adopt implements sandbox.Engine.
func (e *Engine) Adopt(ctx context.Context, kept sandbox.Kept) (sandbox.Container, error) {
	if err := e.OnAdopt.strike(ctx); err != nil {
		return nil, err
	}
	for _, c := range e.Left() {
		if c.id == kept.ID && !isClosed(c.lost) {
			return c.open(), nil
		}
	}
	return nil, lost("the session's container is gone")
}

// Files implements sandbox.Engine.
func (e *Engine) Files(ctx context.Context, _ sandbox.Image, names []string, _ int64) ([][]byte, error) {
	if err := e.OnFiles.strike(ctx); err != nil {
		return nil, err
	}
	etc := e.etc()
	files := make([][]byte, len(names))
	for i, name := range names {
		if text, ok := etc[name]; ok {
			files[i] = []byte(text)
		}
	}
	return files, nil
}

func (e *Engine) etc() map[string]string {
	if e.Etc != nil {
		return e.Etc
	}
	return map[string]string{"/etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/work:/bin/sh\n", "/etc/group": "root:x:0:\nnogroup:x:65534:\n", "/bin/sh": ""}
}

// Modes implements sandbox.Engine.
func (e *Engine) Modes(ctx context.Context, _ sandbox.Image, names []string) ([]fs.FileMode, error) {
	if err := e.OnModes.strike(ctx); err != nil {
		return nil, err
	}
	known := map[string]fs.FileMode{"/": fs.ModeDir | 0o755}
	for name := range e.etc() {
		known[name] = 0o644
		if path.Base(path.Dir(name)) == "bin" {
			known[name] = 0o755
		}
		for dir := path.Dir(name); dir != "/"; dir = path.Dir(dir) {
			known[dir] = fs.ModeDir | 0o755
		}
	}
	modes := make([]fs.FileMode, len(names))
	for i, name := range names {
		modes[i] = fs.ModeIrregular
		if e.Etc == nil && name != missingDir && path.Base(name) != sandbox.ShellBash {
			modes[i] = fs.ModeDir | 0o755
		}
		if mode, ok := known[path.Clean(name)]; ok {
			modes[i] = mode
		}
	}
	return modes, nil
}

// strike applies the fault. A call whose context has ended fails anyway.
func (f Fault) strike(ctx context.Context) error {
	if f != nil {
		if err := f(ctx); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// Specs are the specs of all containers created so far.
func (e *Engine) Specs() []sandbox.Spec {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.made)
}

// Left are the containers that still exist.
func (e *Engine) Left() []*Container {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.boxes)
}

func (e *Engine) forget(c *Container) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.boxes = slices.DeleteFunc(e.boxes, func(other *Container) bool { return other == c })
}

// program is the Go function that runs a script, nil if there is none.
func (e *Engine) program(script string) func(p *Proc) int {
	if e.Script != nil {
		return e.Script
	}
	return programFor(script)
}
