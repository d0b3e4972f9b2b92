package sandboxtest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"belljar/sandbox"
)

// Container is a fake container.
type Container struct {
	engine   *Engine
	id       string
	spec     sandbox.Spec
	lost     chan struct{} // closed when it has ended or is stopped
	unwanted chan struct{} // see Engine.Cordon
	created  time.Time

	mu       sync.Mutex
	procs    []*Proc // the running ones
	lastPID  int
	lastSID  int
	counters sandbox.Counters
	files    map[string]string // for the suite's scripts
	gone     bool
	useless  bool // lost is closed
	handles  []*handle
}

// Info implements sandbox.Container.
func (c *Container) Info() sandbox.ContainerInfo {
	info := sandbox.ContainerInfo{ID: c.id, Image: c.spec.Image.Reference, ImageDigest: c.spec.Image.Digest, Engine: "fake", Way: c.engine.way(), Runtime: "fake"}
	if c.spec.Root {
		info.Root = "userns"
	}
	return info
}

// Answers reports whether the container's init is alive.
func (c *Container) Answers(ctx context.Context) bool {
	return !isClosed(c.lost) && c.engine.OnAnswer.strike(ctx) == nil
}

// Unwanted is closed once it should not wait for a command any longer.
func (c *Container) Unwanted() <-chan struct{} { return c.unwanted }

// Exec implements sandbox.Container.
func (c *Container) Exec(ctx context.Context, x sandbox.Exec) (sandbox.Running, error) {
	if err := c.engine.OnExec.strike(ctx); err != nil {
		return nil, err
	}
	if x.User.UID < 0 || x.User.UID == 0 && !c.spec.Root || x.User.UID == keeper {
		return nil, &sandbox.Error{Cause: sandbox.CauseInvalid, Message: fmt.Sprintf("no command runs as user %d", x.User.UID), Hint: "choose another"}
	}
	program := c.engine.program(x.Script)
	if isGate(x.Script) && c.engine.way() == sandbox.WayInit {
		return nil, &sandbox.Error{Cause: sandbox.CauseEngine, Message: "a gate was opened where none is needed", Hint: "use Exec"}
	}
	if isGate(x.Script) {
		program = c.engine.gate
		if c.engine.Gate != nil {
			program = c.engine.Gate
		}
	}
	if program == nil {
		return nil, &sandbox.Error{Cause: sandbox.CauseEngine, Message: "the fake engine has no part for script " + x.Script, Hint: "set Engine.Script"}
	}
	if x.Dir == missingDir {
		program = func(*Proc) int { return 126 }
	}
	in := stdinOf(x)
	p, err := c.start(cmp.Or(x.Shell, sandbox.ShellSh)+" -c "+x.Script, 0, x, newPipe(x), in, program)
	if err != nil {
		in.stop()
		return nil, err
	}
	return &running{proc: p}, nil
}

// Processes implements sandbox.Container.
func (c *Container) Processes(ctx context.Context) ([]sandbox.Process, error) {
	if err := c.engine.OnProcesses.strike(ctx); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []sandbox.Process
	for _, p := range c.procs {
		list = append(list, sandbox.Process{
			PID: p.pid, PPID: 1, PGID: p.pid, SID: p.sid, StartTicks: int64(p.pid), UID: p.User.UID, User: "nobody", State: p.state(),
			ElapsedSeconds: int64(time.Since(p.begun).Seconds()), RSSBytes: 4096, Command: p.command,
		})
	}
	return list, nil
}

// Counters implements sandbox.Container.
func (c *Container) Counters(ctx context.Context) (sandbox.Counters, error) {
	if err := c.engine.OnCounters.strike(ctx); err != nil {
		return sandbox.Counters{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counters, nil
}

// Lost implements sandbox.Container.
func (c *Container) Lost() <-chan struct{} { return c.lost }

// Close implements sandbox.Container.
func (c *Container) Close() error { return nil }

// Signal implements sandbox.Container.
func (c *Container) Signal(ctx context.Context, list []sandbox.Process, signal sandbox.Signal) error {
	if err := c.engine.OnSignal.strike(ctx); err != nil {
		return err
	}
	if actions[signal] == nil {
		return &sandbox.Error{Cause: sandbox.CauseInvalid, Message: fmt.Sprintf("no signal %q", signal), Hint: "give a name such as SIGTERM"}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.procs {
		if slices.ContainsFunc(list, func(l sandbox.Process) bool { return l.PID == p.pid && l.StartTicks == int64(p.pid) }) {
			p.get(signal)
		}
	}
	return nil
}

// WaitsForInput reports whether one of those processes reads its stdin.
func (c *Container) WaitsForInput(list []sandbox.Process) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.procs, func(p *Proc) bool {
		return p.reads.Load() && slices.ContainsFunc(list, func(l sandbox.Process) bool { return l.PID == p.pid })
	})
}

// Fork starts a process in the session of the last one, as a child would that it
// was about to fork.
func (c *Container) Fork(command string) error {
	c.mu.Lock()
	sid := c.lastSID
	c.mu.Unlock()
	_, err := c.start(command, sid, sandbox.Exec{}, newPipe(sandbox.Exec{}), newStdin(nil), func(p *Proc) int { <-p.Killed; return 0 })
	return err
}

// Stop stops all processes, as docker pause does: the container is lost, but
// not removed.
func (c *Container) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lose()
}

func (c *Container) lose() {
	if !c.useless {
		close(c.lost)
	}
	c.useless = true
	for _, h := range c.handles {
		h.lose()
	}
}

// Remove implements sandbox.Container. It returns when all goroutines of the
// container's processes have ended.
func (c *Container) Remove(ctx context.Context) error {
	if err := c.engine.OnRemove.strike(ctx); err != nil {
		return err
	}
	for _, p := range c.end() {
		<-p.done
	}
	c.engine.forget(c)
	return nil
}

// End ends everything in the container, as another user of the
// engine could. The exit statuses are lost with it.
func (c *Container) End() {
	c.mu.Lock()
	c.counters.KilledBy = "outside"
	c.lose() // before anyone learns of an end
	for _, p := range c.procs {
		p.Lose(lost("the container was removed from outside: the command's exit status is unknown"))
	}
	c.mu.Unlock()
	c.end()
}

// end signals everything in the container to end.
func (c *Container) end() []*Proc {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
	c.lose()
	for _, p := range c.procs {
		p.kill()
	}
	return slices.Clone(c.procs)
}

func (c *Container) start(command string, sid int, x sandbox.Exec, out *pipe, in *stdin, program func(*Proc) int) (*Proc, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return nil, lost("the container ended before its command started")
	}
	c.lastPID++
	killed := make(chan struct{})
	p := &Proc{
		Exec: x, Killed: killed, kill: sync.OnceFunc(func() { close(killed) }),
		box: c, pid: 6 + c.lastPID, sid: sid, command: command, begun: time.Now(),
		out: out, in: in, holding: true, status: 137, done: make(chan struct{}), lost: make(chan error, 1),
	}
	if sid == 0 {
		p.sid = p.pid
	}
	c.lastSID = p.sid
	p.Stdin, p.Stdout, p.Stderr = procReader{p}, procWriter{p, out.stdout}, procWriter{p, out.stderr}
	out.hold()
	c.procs = append(c.procs, p)
	go func() {
		defer p.ended()
		status := program(p)
		p.live() // a killed process returns no status
		p.exit(status)
	}()
	return p, nil
}

func lost(message string) error {
	return &sandbox.Error{Cause: sandbox.CauseEngineLost, Message: message, Hint: "run it again; partial output kept"}
}
