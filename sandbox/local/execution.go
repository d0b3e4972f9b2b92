package local

import (
	"context"
	"errors"
	"fmt"
	"time"

	"belljar/internal/input"
	"belljar/sandbox"
	"belljar/sandbox/internal/spool"

	"go.opentelemetry.io/otel/trace"
)

const (
	createTimeout = time.Minute      // to make and start a container, where that waits for nothing: see upkeep.create
	listTimeout   = 2 * time.Second  // to list what runs, before it is killed
	removeTimeout = 20 * time.Second // to kill and remove a container
)

// execution is one command on its way through an Engine. Its result belongs to
// run until the events are closed.
type execution struct {
	request
	local     *Local
	output    *output
	unspooled error         // why the command must not begin
	stdin     *input.Reader // nil: empty
	span      trace.Span
	recipient *recipient
	cancel    context.CancelFunc
	kill      context.CancelFunc
	received  time.Time     // when the runner took the command
	placing   time.Time     // when the search for its container began
	image     sandbox.Image // of its container or session
	result    sandbox.Result
	oomPeak   int64    // see sandbox.Counters.OOMPeak
	notices   []string // to be sent before the result
	err       error
}

// start begins the command in a goroutine that ends with its events.
func start(ctx context.Context, prepared *prepared, secrets []string) *execution {
	l, c := prepared.local, prepared.command
	patient, kill := context.WithCancel(context.WithoutCancel(ctx))
	r := request{command: c, profile: prepared.profile, secrets: secrets, approval: prepared.approval, narrowing: prepared.narrowing}
	x := &execution{
		request: r, local: l, span: prepared.span,
		output:    newOutput(r, l.Spool.OnError, l.Viewer),
		recipient: newRecipient(),
		kill:      kill,
		received:  time.Now(),
		result:    sandbox.Result{ID: c.ID, Command: c.Script, Dir: c.Dir, Shell: c.Shell, Description: c.Description, Profile: c.Profile, Session: c.Session, Method: method(c), Policy: prepared.judgment},
		notices:   prepared.notices,
	}
	if c.Streams != sandbox.StreamsFull {
		x.result.Streams = c.Streams
	}
	if masks := x.output.masks; masks != nil { // it is in the first event
		x.result.Description, x.result.Masked = masks.Text(c.Description)
	}
	if c.Stdin != nil {
		touch := func() {}
		if c.Idle.Stdin {
			touch = x.Touch
		}
		x.stdin, x.command.Stdin = input.New(c.Stdin, touch)
	}
	ctx, cancel := context.WithCancel(ctx)
	x.cancel = cancel
	context.AfterFunc(patient, cancel) // a kill is a cancellation too
	x.unspooled = x.openSpool()        // here: once the caller is told that the command was taken, others can find its log, also after a crash
	go func() {
		defer kill()
		x.run(ctx, patient)
	}()
	return x
}

// method is how the command is connected.
func method(c sandbox.Command) string {
	if c.TTY != nil {
		return "pty"
	}
	return "pipe"
}

func (x *execution) ID() string { return x.command.ID }

func (x *execution) Events() <-chan sandbox.Event { return x.output.events.out }

func (x *execution) Kill() { x.kill() }

func (x *execution) Wait() (sandbox.Result, error) {
	for range x.output.events.out { // closed when the result is whole
	}
	return x.result, x.err
}

// run takes the command from its image to its result. Cancelling ctx ends the
// command; cancelling patient, a context that outlives ctx, hurries that end.
func (x *execution) run(ctx, patient context.Context) {
	err := x.unspooled
	uncontrol := x.control()
	if err == nil {
		err = x.runInTurn(ctx, patient)
	}
	x.stdin.Close()
	x.recipient.close()
	x.local.admission.release()
	x.fail(ctx, err)
	x.output.flush()
	x.result.Timing.FirstOutput = x.output.activity.first
	x.result.Timing.Total = time.Since(x.received)
	last, more := x.output.views.last()
	x.collect(ctx)
	if problem, _ := x.local.audit(x.command, endRecord(x.result)); problem != nil {
		x.notice("the audit log has no record of how the command ended: %v", problem)
	}
	x.maskResult()
	x.boundLingering()
	if e := x.result.Evidence.RemoveError; e != "" {
		x.notice("%s", e)
	}
	uncontrol()
	leftOut, some := x.leftOut()
	if err := x.keep(ctx); err != nil {
		x.local.upkeep.log.Warn("removing old output failed", "command", x.result.ID, "error", err)
	}
	x.replaceInvalid()
	events := x.output.events
	events.ended = true
	if more {
		events.emit(last)
	}
	x.output.chunks.close()
	if some {
		events.emit(leftOut)
	}
	endTraced(x.span, &x.result, x.err)
	events.close(x.notices, &x.result)
}

// runInTurn waits until the session and the limit on commands let it run, and runs it.
func (x *execution) runInTurn(ctx, patient context.Context) error {
	bounds := x.local.Admission
	waiting, cancel := context.WithTimeoutCause(ctx, bounds.MaxWait, errMaxWait)
	defer cancel()
	var session *sessionTurn
	if x.command.Session != "" {
		var err error
		if session, err = x.local.sessionTurn(waiting, x.request, x.noticeWaiting); err != nil {
			return err
		}
		defer session.release()
	}
	if err := x.local.admission.wait(waiting, bounds); err != nil {
		return err
	}
	began := time.Now()
	x.local.upkeep.running.Add(1)
	defer func() {
		x.local.upkeep.running.Add(-1)
		x.local.admission.endTurn(time.Since(began))
	}()
	return x.runInContainer(ctx, patient, session)
}

func (x *execution) notice(format string, args ...any) {
	x.notices = append(x.notices, fmt.Sprintf(format, args...))
}

func (x *execution) noticeWaiting() {
	x.output.events.emit(sandbox.Event{Type: sandbox.EventNotice, Waits: true, Data: fmt.Appendf(nil, "waiting for session %q: another command runs in it", x.command.Session)})
}

// runInContainer finds a place for the command, runs it there and leaves. After an
// error the result does not say yet how the command ended.
func (x *execution) runInContainer(ctx, patient context.Context, session *sessionTurn) error {
	image, err := x.resolve(ctx, session)
	if err != nil {
		return err
	}
	x.placing = time.Now()
	x.result.Timing.Queued = x.placing.Sub(x.received)
	place, err := x.place(ctx, image, session)
	if err != nil {
		return err
	}
	x.result.Container = place.Info()
	err = x.runInPlace(ctx, patient, place)
	x.recipient.close()
	if err == nil {
		x.explainNoBash(ctx)
	}
	x.apply(x.leave(patient, place, err))
	return err
}

// resolve finds the image, which a session's container has already.
func (x *execution) resolve(ctx context.Context, session *sessionTurn) (image sandbox.Image, err error) {
	ctx, span := step(ctx, spanImage)
	defer func() { endStep(span, err) }()
	image, err = x.local.upkeep.images.Resolve(ctx, x.command.Image, x.command.Pull)
	if err == nil && session == nil {
		err = x.suit(ctx, image)
	}
	return image, err
}

// place returns a place in the session's container, in a warm one, or in a new
// one.
func (x *execution) place(ctx context.Context, image sandbox.Image, session *sessionTurn) (_ place, err error) {
	ctx, span := step(ctx, spanPlace)
	defer func() { endStep(span, err) }()
	if session == nil {
		spec := specOf(x.command, image)
		spec.Deadline = time.Now().Add(x.command.Timeout + x.command.StopGrace + removeTimeout + x.local.upkeep.create)
		if p := x.warm(ctx, spec); p != nil {
			return p, nil
		}
		return x.cold(ctx, spec)
	}
	p, found, err := session.open(ctx, image)
	x.result.User, x.image = found.user, found.image
	if found.lost != "" {
		x.result.SessionLost = found.lost
		x.output.events.notice("session %q was lost, including its files and processes: %s; creating a new container", x.command.Session, found.lost)
	}
	return p, err
}

// apply records in the result how the command's place was cleaned up.
func (x *execution) apply(c cleanup) {
	r := &x.result
	if c.counters != nil {
		x.addCounters(*c.counters)
	}
	if c.removeError != "" {
		r.Evidence.RemoveError = c.removeError
	}
	if c.killed != nil {
		r.Evidence.Killed = c.killed
	}
	if c.listed {
		r.Lingering = c.processes
	}
	if c.sessionLost != "" {
		r.SessionLost = c.sessionLost
	}
	x.notices = append(x.notices, c.notices...)
}

func (x *execution) runInPlace(ctx, patient context.Context, place place) error {
	waitCtx, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	notices := x.unwritable(ctx)
	if err := x.writeFiles(ctx, place.Base()); err != nil {
		return err
	}
	runCtx, run := step(ctx, spanRun)
	p, err := place.Start(runCtx, waitCtx, streamWriter{x.output, spool.Stdout}, streamWriter{x.output, spool.Stderr})
	if err != nil {
		err = x.explainLoss(patient, place, err)
		endStep(run, err)
		return err
	}
	p.run = run
	x.result.Timing.Start = time.Since(x.placing)
	x.recipient.begin(place)
	x.output.begin(x.command.IdleTimeout, &sandbox.Start{
		ID: x.result.ID, Command: x.result.Command, Dir: x.result.Dir, Description: x.result.Description, Session: x.result.Session,
		Container: x.result.Container, TTY: x.command.TTY,
	}, notices...)
	defer x.startBackground(place, p.running)()
	return x.supervise(ctx, patient, place, p, giveUp)
}

// timeoutError names the step that took too long, if a timeout is why it failed.
func timeoutError(ctx context.Context, err error, what string, limit time.Duration) error {
	if err == nil || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err
	}
	return &sandbox.Error{Cause: sandbox.CauseEngine, Message: fmt.Sprintf("%s took longer than %s", what, sandbox.FormatDuration(limit)), Err: err, Hint: "see: belljar doctor"}
}
