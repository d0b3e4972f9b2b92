package local

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/gate"
)

// place is where one command runs: a container of its own, one of a pool or its
// session's. The command is started in it once.
type place interface {
	Info() sandbox.ContainerInfo
	// Base is what every place has.
	Base() *base
	// Start starts the command. Cancelling patient gives up waiting for its end.
	Start(ctx, patient context.Context, stdout, stderr io.Writer) (process, error)
	// Processes lists what runs, with the commands that started each process.
	Processes(ctx context.Context) ([]sandbox.Process, error)
	// Own are those of the list that are the command's. Where it may have more, that
	// is an error.
	Own(list []sandbox.Process) ([]sandbox.Process, error)
	// Signal sends a signal to listed processes.
	Signal(ctx context.Context, list []sandbox.Process, signal sandbox.Signal) error
	// WaitsForInput reports whether one of listed processes is known to wait for input on
	// the command's stdin.
	WaitsForInput(list []sandbox.Process) bool
	// Counters are what the command used and ran into.
	Counters(ctx context.Context) (sandbox.Counters, error)
	// Keeps reports whether what the command leaves running stays, with the
	// container.
	Keeps() bool
	// End ends the command for that reason, so that its exit becomes ready.
	End(ctx context.Context, why string) cleanup
	// EndedBy is why belljar ended the container, though this command did not ask for it. "" is that it did not.
	EndedBy(ctx context.Context) string
	// Leave is the last call: the command ended as the result says. An error is
	// why it did not run, or why its end is unknown.
	Leave(ctx context.Context, r sandbox.Result, err error) cleanup
}

// cleanup reports what ending a command, or leaving its place, did and found out.
type cleanup struct {
	counters    *sandbox.Counters // up to the container's end; nil where it did not end, or they are unknown
	removeError string            // why the container may still exist; "" if it is gone
	killed      []sandbox.Process // only these were killed, as the container stays
	alone       bool              // the command ended, and its session continues
	listed      bool              // what runs was listed again:
	processes   []sandbox.Process
	sessionLost string // why the session no longer has a container
	notices     []string
}

func (c *cleanup) notice(format string, args ...any) {
	c.notices = append(c.notices, fmt.Sprintf(format, args...))
}

// base is what every place has: a container and, maybe, a gate in it, which waits
// for the command.
type base struct {
	command sandbox.Command
	secrets []string // "NAME=value"
	box     sandbox.Container
	gate    *gate.Gate // nil: an Exec starts the command
	line    string     // what the gate reads
	started time.Time
	running sandbox.Running                           // nil before it started
	used    struct{ processes, counters atomic.Bool } // see atExit
}

// Base implements place.
func (b *base) Base() *base { return b }

// Start implements place.
func (b *base) Start(ctx, patient context.Context, stdout, stderr io.Writer) (process, error) {
	if b.gate != nil {
		return b.deliver(patient, stdout, stderr)
	}
	execCtx, cancel := context.WithTimeout(ctx, createTimeout)
	defer cancel()
	c := b.command
	if byInit(b.box) {
		c = withSecrets(c, b.secrets)
	}
	running, err := b.box.Exec(execCtx, sandbox.Exec{
		Script: c.Script, Shell: c.Shell, Dir: c.Dir, Env: c.Env, User: c.User, Stdin: c.Stdin, TTY: c.TTY,
		Stdout: stdout, Stderr: stderr,
	})
	if err != nil {
		return process{}, timeoutError(execCtx, err, "starting the command", createTimeout)
	}
	b.started, b.running = time.Now(), running
	exited := make(chan gate.Exit, 1)
	go func() { exited <- gate.Wait(patient, running) }()
	return process{running: running, exited: exited}, nil
}

func (b *base) deliver(patient context.Context, stdout, stderr io.Writer) (process, error) {
	g := b.gate
	if !g.Deliver(b.line, b.command, stdout, stderr) {
		g.Close()
		return process{}, g.NotStarted("the waiting shell did not accept the command, so it did not run")
	}
	b.started = time.Now()
	context.AfterFunc(patient, g.GiveUp)
	return process{running: g.Running, exited: g.Exited}, nil
}

// Signal implements place.
func (b *base) Signal(ctx context.Context, list []sandbox.Process, signal sandbox.Signal) error {
	return b.box.Signal(ctx, list, signal)
}

// WaitsForInput implements place. Not every Engine can tell.
func (b *base) WaitsForInput(list []sandbox.Process) bool {
	box, can := b.box.(interface {
		WaitsForInput(list []sandbox.Process) bool
	})
	return can && box.WaitsForInput(list)
}

// EndedBy implements place. No one else of belljar ends the container of one command.
func (b *base) EndedBy(context.Context) string { return "" }

// finalCounters are read once the container is gone, nil where they are unknown.
func finalCounters(ctx context.Context, p place) *sandbox.Counters {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), listTimeout)
	defer cancel()
	c, err := p.Counters(ctx)
	if err != nil {
		return nil
	}
	return &c
}

// remove ends everything in the container. No cancellation stops it: that is when
// it is needed most. It returns why the container may still be there.
func remove(ctx context.Context, box sandbox.Container) (problem string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	if err := box.Remove(ctx); err != nil {
		return fmt.Sprintf("removing container %s failed, it may still exist: %v", box.Info().ID, err)
	}
	return ""
}
