package sandbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	createTimeout = time.Minute      // to make and start a container
	listTimeout   = 2 * time.Second  // to list what runs, before it is killed
	removeTimeout = 20 * time.Second // to kill and remove a container
	drainTimeout  = 5 * time.Second  // for a stream to end after its container has

	// eventQueue is how many chunks of output wait for their reader: 4 MiB of
	// the largest. It rides out a reader's pauses; see Execution.Events.
	eventQueue = 128
)

// execution is one command on its way through an Engine. Its result belongs to
// run until the events are closed.
type execution struct {
	command Command
	output  *output
	kill    context.CancelFunc
	taken   time.Time // when the runner took the command
	result  Result
	err     error
}

// start begins c in a goroutine that ends with the execution's events.
func start(ctx context.Context, c Command, engine Engine, images Images) *execution {
	patient, kill := context.WithCancel(context.WithoutCancel(ctx))
	x := &execution{
		command: c,
		output:  newOutput(c.Limits.Output, c.OnOutputLimit),
		kill:    kill,
		taken:   time.Now(),
		result:  Result{ID: c.ID, Command: c.Script, Dir: c.Dir, Profile: c.Profile},
	}
	ctx, cancel := context.WithCancel(ctx)
	context.AfterFunc(patient, cancel) // a kill is a cancellation too
	go func() {
		defer kill()
		x.run(ctx, patient, engine, images)
	}()
	return x
}

func (x *execution) ID() string           { return x.command.ID }
func (x *execution) Events() <-chan Event { return x.output.events }
func (x *execution) Kill()                { x.kill() }

func (x *execution) Wait() (Result, error) {
	for range x.output.events { // closed when the result is whole
	}
	return x.result, x.err
}

// run takes the command from its image to its result. Cancelling ctx ends the
// command; cancelling patient, a context that outlives ctx, hurries that end.
func (x *execution) run(ctx, patient context.Context, engine Engine, images Images) {
	err := x.inContainer(ctx, patient, engine, images)
	if err != nil && ctx.Err() != nil && CauseOf(err) != CauseEngineLost {
		err = &Error{Cause: CauseCanceled, Message: "canceled before the command started"}
	}
	if err != nil {
		x.result.fail(err)
	}
	if s := x.result.Status; s == StatusFatal || s == StatusDenied {
		x.err = err
	}
	x.result.Stdout, x.result.Stderr = x.output.capture.output(stdout), x.output.capture.output(stderr)
	x.result.Timing.FirstOutput = x.output.first
	x.result.Timing.Total = time.Since(x.taken)
	x.tell()
}

// tell sends the last events. Nothing waits for the command any more, so these
// may wait for their reader.
func (x *execution) tell() {
	o := x.output
	o.ending = nil
	if o.unshown > 0 {
		o.emit(Event{Type: EventNotice, Data: fmt.Appendf(nil, "%d bytes of output were not shown: nobody read them while the command was being ended", o.unshown)})
	}
	if e := x.result.Evidence.RemoveError; e != "" {
		o.emit(Event{Type: EventNotice, Data: []byte(e)})
	}
	o.emit(Event{Type: EventResult, Result: &x.result})
	close(o.events)
}

// inContainer makes the container, runs the command in it and removes it. An
// error means that the command's fate is not set in the result.
func (x *execution) inContainer(ctx, patient context.Context, engine Engine, images Images) error {
	image, err := images.Resolve(ctx, x.command.Image, x.command.Pull)
	if err != nil {
		return err
	}
	making := time.Now()
	x.result.Timing.Queued = making.Sub(x.taken)
	box, err := x.create(ctx, engine, image)
	if err != nil {
		return err
	}
	x.result.Container = box.Info()
	remove := sync.OnceFunc(func() { x.remove(patient, box) })
	defer func() { remove(); x.recount(patient, box) }()

	waitCtx, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	running, err := x.exec(ctx, box)
	if err != nil {
		return err
	}
	x.result.Timing.Start = time.Since(making)
	x.output.begin(x.command.IdleTimeout)
	exited := make(chan exit, 1)
	go func() {
		status, err := running.Wait(waitCtx)
		exited <- exit{status, err}
	}()
	return x.supervise(ctx, patient, box, process{running.Exited(), exited}, remove, giveUp)
}

func (x *execution) create(ctx context.Context, engine Engine, image Image) (Container, error) {
	ctx, cancel := context.WithTimeout(ctx, createTimeout)
	defer cancel()
	box, err := engine.Create(ctx, x.command.spec(image))
	return box, late(ctx, err, "making the container")
}

// late says what took too long, where that is why it failed.
func late(ctx context.Context, err error, what string) error {
	if err == nil || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err
	}
	return &Error{Cause: CauseEngine, Message: fmt.Sprintf("%s took more than %v", what, createTimeout), Err: err, Hint: "see: belljar doctor"}
}

func (x *execution) exec(ctx context.Context, box Container) (Running, error) {
	ctx, cancel := context.WithTimeout(ctx, createTimeout)
	defer cancel()
	c := x.command
	running, err := box.Exec(ctx, Exec{
		Script: c.Script, Dir: c.Dir, Env: c.Env, User: c.User, Stdin: c.Stdin,
		Stdout: streamWriter{x.output, stdout}, Stderr: streamWriter{x.output, stderr},
	})
	return running, late(ctx, err, "starting the command")
}

// remove ends everything in the container. No cancellation stops it: that is
// when it is needed most.
func (x *execution) remove(ctx context.Context, box Container) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	if err := box.Remove(ctx); err != nil {
		x.result.Evidence.RemoveError = fmt.Sprintf("container %s may still be there: %v", box.Info().ID, err)
	}
}
