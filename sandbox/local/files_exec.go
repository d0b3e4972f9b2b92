package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/gate"
)

const (
	filesIdle  = time.Minute // in which the container, or who reads from it, does nothing
	filesTotal = time.Hour   // for one transfer

	// filesStart is how long the shell may take to begin.
	filesStart = 10 * time.Second

	// callerPatience is how long a Reader of the caller's may take to come back once
	// no more of it is wanted.
	callerPatience = time.Second
)

// filesExec is one script of a transfer.
type filesExec struct {
	*transfer
	from    io.Reader // shadows the transfer's, which changes
	token   string    // begins the script, and so identifies its process
	script  string
	streams *filesStreams
	running sandbox.Running
	exited  chan gate.Exit
	sid     int           // its process session in the container; 0 if unknown
	idle    time.Duration // of the session
}

// run runs a script. produce writes its stdin and consume reads its stdout, up to its end;
// both may be nil. Whatever happens, none of its processes is left, if the container lets
// them be killed.
func (t *transfer) run(ctx context.Context, script string, produce func(in io.Writer, from io.Reader) error, consume func(out io.Reader) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ctx, stop := context.WithTimeoutCause(ctx, filesTotal, t.slow("does not end within "+sandbox.FormatDuration(filesTotal)))
	defer stop()
	x := &filesExec{transfer: t, from: t.from, token: rand.Text(), exited: make(chan gate.Exit, 1), streams: newFilesStreams(func() {
		cancel(t.slow("nothing moved for " + sandbox.FormatDuration(filesIdle)))
	})}
	defer x.streams.close(io.ErrClosedPipe)
	if t.from == nil {
		x.streams.moved = &t.moved
	}
	x.script = "# " + x.token + scriptBegin + script
	if err := x.begin(ctx); err != nil {
		return x.why(ctx, err)
	}
	defer x.leave(ctx)
	defer x.keepUsed(ctx)()

	aborted := make(chan struct{})
	stopAbort := context.AfterFunc(ctx, func() {
		defer close(aborted)
		x.abort(ctx)
	})
	produced := make(chan error, 1)
	go func() { produced <- x.produce(produce, cancel) }()
	err := consume(x.streams.out)
	var exit gate.Exit
	select {
	case exit = <-x.exited:
	default:
		if err != nil {
			cancel(err)
		}
		io.Copy(io.Discard, x.streams.out)
		exit = <-x.exited
	}
	if !stopAbort() {
		<-aborted
	}
	<-x.streams.ended
	x.streams.close(io.ErrClosedPipe)
	if failed := x.joinProducer(produced); err == nil {
		err = failed
	}
	t.said = x.streams.said()
	return x.result(ctx, exit, err)
}

// produce writes stdin: the line for which the script waits, and what it is about.
func (x *filesExec) produce(produce func(io.Writer, io.Reader) error, cancel context.CancelCauseFunc) error {
	_, err := x.streams.in.Write([]byte("\n"))
	if err == nil && produce != nil {
		err = produce(x.streams.in, paused{x.from, x.streams.idle, &x.moved})
	}
	if errors.Is(err, io.ErrClosedPipe) {
		return nil // the script's status says why it wants no more
	}
	if err != nil {
		cancel(err) // its stdin must not seem complete
		return err
	}
	x.streams.in.Close()
	return nil
}

// joinProducer waits for produce, unless a Read of the caller's blocks it for good.
func (x *filesExec) joinProducer(produced chan error) error {
	if from, ok := x.from.(interface{ SetReadDeadline(time.Time) error }); ok && from.SetReadDeadline(time.Now()) == nil {
		err := <-produced
		from.SetReadDeadline(time.Time{})
		return err
	}
	select {
	case err := <-produced:
		return err
	case <-time.After(callerPatience):
		return nil
	}
}

// result is how the script ended.
func (x *filesExec) result(ctx context.Context, exit gate.Exit, err error) error {
	switch {
	case exit.Err == nil && exit.Status == 0 && err == nil && exit.Cut == "":
		return nil
	case ctx.Err() != nil:
		return x.why(ctx, err)
	case exit.Err != nil:
		return &sandbox.Error{Cause: sandbox.CauseOf(exit.Err), Message: x.what + ": the container did not report an end", Err: exit.Err, Hint: "see: belljar session ls"}
	case exit.Status != 0:
		select {
		case <-x.box.Lost():
			return &sandbox.Error{Cause: sandbox.CauseEngineLost, Message: x.what + ": the session ended meanwhile", Hint: "see: belljar session ls"}
		default:
			return x.filesError(exit.Status, x.streams.said())
		}
	case err != nil:
		return x.about(err)
	}
	return &sandbox.Error{Cause: sandbox.CauseEngine, Message: x.what + ": " + exit.Cut, Hint: "copy it again"}
}

// why is the reason for which ctx ended, or err.
func (x *filesExec) why(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if errors.Is(err, context.Canceled) {
		return &sandbox.Error{Cause: sandbox.CauseCanceled, Message: x.what + ": canceled"}
	}
	return x.about(err)
}

// about names the transfer in an error.
func (t *transfer) about(err error) error {
	e, ok := errors.AsType[*sandbox.Error](err)
	if !ok {
		return fmt.Errorf("%s: %w", t.what, err)
	}
	if strings.HasPrefix(e.Message, t.what) {
		return err
	}
	named := *e
	named.Message = t.what + ": " + e.Message
	return &named
}

func (t *transfer) slow(how string) error {
	hint := "try again; if the session does not answer, end it: belljar session rm"
	if t.store.Name == "" {
		hint = "try again; see: belljar doctor"
	}
	return &sandbox.Error{Cause: sandbox.CauseEngine, Message: t.what + ": " + how, Hint: hint}
}

// start starts the script, up to where it waits, and finds its process.
func (x *filesExec) start(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, filesStart)
	defer cancel()
	x.running, err = x.box.Exec(ctx, sandbox.Exec{
		Script: x.script, Dir: "/", User: x.kept.User, Env: append([]string{"LC_ALL=C"}, x.env...),
		Stdin: x.streams.stdin(), Stdout: x.streams.stdout(), Stderr: x.streams.stderr(),
	})
	if err != nil {
		x.running = nil
		return err
	}
	waitCtx, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	x.streams.giveUp = giveUp
	go func() {
		defer giveUp()
		go x.streams.drainAfter(x.running.Exited())
		exit := gate.Wait(waitCtx, x.running)
		x.exited <- exit
		x.streams.end()
	}()
	select {
	case <-x.streams.ready:
	case <-x.streams.ended:
		exit := <-x.exited
		x.exited <- exit
		return x.result(ctx, exit, errors.New("the shell ended before it began"))
	case <-ctx.Done():
		return x.slow("the shell in the container does not answer")
	}
	if x.sid = leader(x.running); x.sid != 0 {
		return nil
	}
	list, err := x.own(ctx)
	if err != nil {
		return err
	}
	if len(list) != 1 {
		return x.slow("the shell in the container is not there")
	}
	x.sid = list[0].SID
	return nil
}

// own are its processes. Before it began that is the shell, which the token identifies.
func (x *filesExec) own(ctx context.Context) (own []sandbox.Process, err error) {
	list, err := x.box.Processes(ctx)
	for _, p := range list {
		if x.sid != 0 && p.SID == x.sid || x.sid == 0 && strings.HasPrefix(p.Command, "sh -c # "+x.token) && p.UID == x.kept.User.UID {
			own = append(own, p)
		}
	}
	if len(own) > 0 {
		err = nil // the list may lack others
	}
	return own, err
}

// abort kills the script's processes, so that Wait returns; if it does not, giving up does.
func (x *filesExec) abort(ctx context.Context) {
	x.streams.close(context.Cause(ctx))
	defer time.AfterFunc(gate.DrainTimeout, x.streams.giveUp)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTimeout)
	defer cancel()
	var err error
	for ctx.Err() == nil && !isClosed(x.box.Lost()) {
		var own []sandbox.Process
		if own, err = x.own(ctx); err == nil && len(own) == 0 {
			return
		}
		if len(own) > 0 {
			err = x.box.Signal(ctx, own, "SIGKILL")
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	if ctx.Err() != nil {
		x.local.upkeep.log.Warn("ending what moves files failed", "session", x.kept.Session, "error", err)
	}
}
