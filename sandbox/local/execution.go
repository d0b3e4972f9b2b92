package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/gate"
	"belljar/sandbox/internal/mask"
	"belljar/sandbox/internal/spool"
)

const (
	createTimeout = time.Minute      // to make and start a container
	listTimeout   = 2 * time.Second  // to list what runs, before it is killed
	removeTimeout = 20 * time.Second // to kill and remove a container

	// eventQueue is how many chunks of output wait for their reader: 4 MiB of
	// the largest. It rides out a reader's pauses; see Execution.Events.
	eventQueue = 128
)

// execution is one command on its way through an Engine. Its result belongs to
// run until the events are closed.
type execution struct {
	local   *Local
	profile sandbox.Profile
	command sandbox.Command
	output  *output
	kill    context.CancelFunc
	taken   time.Time // when the runner took the command
	making  time.Time // when its container was looked for
	result  sandbox.Result
	notices []string // to be told with the result
	err     error

	secrets []string    // "NAME=value"
	masks   *mask.Masks // nil without any

	standing  standing // of its approval, in the session
	narrowing narrowing
}

// start begins the command in a goroutine that ends with its events.
func start(ctx context.Context, prepared *prepared, secrets []string) *execution {
	l, c := prepared.local, prepared.command
	patient, kill := context.WithCancel(context.WithoutCancel(ctx))
	x := &execution{
		local: l, profile: prepared.profile, command: c,
		output:  newOutput(c, l.Spool.OnError),
		kill:    kill,
		taken:   time.Now(),
		result:  sandbox.Result{ID: c.ID, Command: c.Script, Dir: c.Dir, Profile: c.Profile, Session: c.Session},
		notices: prepared.notices, standing: prepared.standing, narrowing: prepared.narrowing,
	}
	x.keepSecret(secrets)
	if c.TTY != nil && l.Viewer != nil {
		x.output.screen = l.Viewer.NewScreen(*c.TTY)
	}
	ctx, cancel := context.WithCancel(ctx)
	context.AfterFunc(patient, cancel) // a kill is a cancellation too
	go func() {
		defer kill()
		x.run(ctx, patient)
	}()
	return x
}

func (x *execution) ID() string { return x.command.ID }

func (x *execution) Events() <-chan sandbox.Event { return x.output.events }

func (x *execution) Kill() { x.kill() }

func (x *execution) Wait() (sandbox.Result, error) {
	for range x.output.events { // closed when the result is whole
	}
	return x.result, x.err
}

// run takes the command from its image to its result. Cancelling ctx ends the
// command; cancelling patient, a context that outlives ctx, hurries that end.
func (x *execution) run(ctx, patient context.Context) {
	err := x.admitted(ctx, patient)
	x.local.admission.leave()
	if err != nil && ctx.Err() != nil && sandbox.CauseOf(err) != sandbox.CauseEngineLost {
		err = &sandbox.Error{Cause: sandbox.CauseCanceled, Message: "canceled before the command started"}
	}
	if err != nil {
		x.result.Fail(err)
	}
	if s := x.result.Status; s == sandbox.StatusFatal || s == sandbox.StatusDenied {
		x.err = err
	}
	x.output.flush()
	x.result.Timing.FirstOutput = x.output.first
	x.result.Timing.Total = time.Since(x.taken)
	last, more := x.lastView()
	x.keep(ctx)
	if problem, _ := x.local.audit(x.command, endRecord(x.result)); problem != nil {
		x.notice("the audit has no record of how the command ended: %v", problem)
	}
	x.conceal()
	x.output.ending = nil // nothing waits for the command any more
	if more {
		x.output.emit(last)
	}
	x.tell()
}

// admitted waits for the command's turn, in its session and at all, and runs it.
func (x *execution) admitted(ctx, patient context.Context) error {
	bounds := x.local.Admission
	waiting, cancel := context.WithTimeoutCause(ctx, bounds.MaxWait, errMaxWait)
	defer cancel()
	var session *sessionTurn
	if x.command.Session != "" {
		var err error
		if session, err = x.local.sessions.turn(waiting, x); err != nil {
			return err
		}
		defer session.end()
	}
	if err := x.local.admission.turn(waiting, bounds); err != nil {
		return err
	}
	began := time.Now()
	x.local.house.running.Add(1)
	defer func() {
		x.local.house.running.Add(-1)
		x.local.admission.end(time.Since(began))
	}()
	return x.inContainer(ctx, patient, session)
}

func (x *execution) notice(format string, args ...any) {
	x.notices = append(x.notices, fmt.Sprintf(format, args...))
}

// tell sends the last events, which wait for their reader.
func (x *execution) tell() {
	o := x.output
	for s := range o.binary {
		if b := &o.binary[s]; b.is() && b.told < b.total {
			o.emit(sandbox.Event{Type: sandbox.EventNotice, Binary: true, Data: b.text(spool.Stream(s))})
		}
	}
	if o.unshown > 0 {
		o.emit(sandbox.Event{Type: sandbox.EventNotice, Data: fmt.Appendf(nil, "%d bytes of output were not shown: nobody read them while the command was being ended", o.unshown)})
	}
	if e := x.result.Evidence.RemoveError; e != "" {
		x.notice("%s", e)
	}
	for _, text := range x.notices {
		o.emit(sandbox.Event{Type: sandbox.EventNotice, Data: []byte(text)})
	}
	o.emit(sandbox.Event{Type: sandbox.EventResult, Result: &x.result})
	close(o.events)
}

// inContainer finds the command a place, runs it there and leaves. An error
// means that the command's fate is not set in the result.
func (x *execution) inContainer(ctx, patient context.Context, session *sessionTurn) error {
	image, err := x.local.house.images.Resolve(ctx, x.command.Image, x.command.Pull)
	if err != nil {
		return err
	}
	if session == nil {
		if err := x.become(ctx, image); err != nil {
			return err
		}
	}
	x.making = time.Now()
	x.result.Timing.Queued = x.making.Sub(x.taken)
	if err := x.openSpool(); err != nil {
		return err
	}
	place, err := x.place(ctx, image, session)
	if err != nil {
		return err
	}
	x.result.Container = place.info()
	defer place.leave(patient)
	place.failed = x.inPlace(ctx, patient, place)
	return place.failed
}

// become gives the command's user its numbers, of the image that it runs in.
func (x *execution) become(ctx context.Context, image sandbox.Image) (err error) {
	if x.command.User, err = x.local.house.user(ctx, image, x.command.User); err == nil {
		x.result.User = x.command.User
	}
	return err
}

func (x *execution) inPlace(ctx, patient context.Context, place *place) error {
	waitCtx, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	p, err := x.begin(ctx, waitCtx, place)
	if err != nil {
		return err
	}
	defer x.beside(p.running)()
	return x.supervise(ctx, patient, place, p, giveUp)
}

// beside begins what goes on while the command runs; the function it returns
// ends that.
func (x *execution) beside(running sandbox.Running) (end func()) {
	var all sync.WaitGroup
	stop := make(chan struct{})
	if x.command.Live == sandbox.LiveView {
		all.Go(func() {
			x.output.liveViews(x.local.Viewer, x.command.View, cmp.Or(x.profile.LiveEvery, spool.LiveEvery), stop)
		})
	}
	if x.command.TTY != nil && x.command.Resize != nil {
		all.Go(func() { x.resize(running, stop) })
	}
	return func() {
		close(stop)
		all.Wait()
	}
}

// resize gives the command's terminal its new sizes.
func (x *execution) resize(running sandbox.Running, stop <-chan struct{}) {
	for {
		select {
		case size, more := <-x.command.Resize:
			if !more {
				return
			}
			x.output.resize(size.Bounded())
			ctx, cancel := context.WithTimeout(context.Background(), listTimeout)
			err := running.Resize(ctx, size.Bounded())
			cancel()
			if err != nil {
				x.local.house.log.Warn("a terminal keeps its size", "command", x.command.ID, "error", err)
			}
		case <-stop:
			return
		}
	}
}

// begin starts the command, by a gate that waits for it or by an exec, and its
// clocks. Cancelling waitCtx gives up waiting for its end.
func (x *execution) begin(ctx, waitCtx context.Context, place *place) (process, error) {
	if g := place.gate; g != nil {
		if !g.Deliver(place.told, x.command, streamWriter{x.output, spool.Stdout}, streamWriter{x.output, spool.Stderr}) {
			g.Close()
			return process{}, g.NotBegun("the shell that waited for the command did not take it: the command did not run")
		}
		context.AfterFunc(waitCtx, g.GiveUp)
		x.clocks()
		return process{g.Running, g.Exited}, nil
	}
	running, err := x.exec(ctx, place.box)
	if err != nil {
		return process{}, err
	}
	x.clocks()
	exited := make(chan gate.Exit, 1)
	go func() { exited <- gate.Wait(waitCtx, running) }()
	return process{running, exited}, nil
}

func (x *execution) clocks() {
	x.result.Timing.Start = time.Since(x.making)
	x.output.begin(x.command.IdleTimeout)
}

// late says what took too long, where that is why it failed.
func late(ctx context.Context, err error, what string) error {
	if err == nil || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err
	}
	return &sandbox.Error{Cause: sandbox.CauseEngine, Message: fmt.Sprintf("%s took more than %v", what, createTimeout), Err: err, Hint: "see: belljar doctor"}
}

func (x *execution) exec(ctx context.Context, box sandbox.Container) (sandbox.Running, error) {
	ctx, cancel := context.WithTimeout(ctx, createTimeout)
	defer cancel()
	c := x.command
	running, err := box.Exec(ctx, sandbox.Exec{
		Script: c.Script, Dir: c.Dir, Env: c.Env, User: c.User, Stdin: c.Stdin, TTY: c.TTY,
		Stdout: streamWriter{x.output, spool.Stdout}, Stderr: streamWriter{x.output, spool.Stderr},
	})
	return running, late(ctx, err, "starting the command")
}
