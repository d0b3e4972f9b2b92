package docker

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"belljar/internal/target"
	"belljar/sandbox"
	"belljar/sandbox/internal/failure"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"
)

const (
	// drain is how long a stream may outlive its process before we stop
	// reading. The engine itself cuts it after 2 s (moby's exec exit handler).
	drain = 3 * time.Second

	// recovery is how long an engine that stopped answering may take to come
	// back before a command counts as lost.
	recovery = 5 * time.Second

	// earlyEnd is how long a command may run after its stream ended before
	// the stream counts as cut: the command keeps it open even where it closed
	// its own end.
	earlyEnd = time.Second

	// untold is how long an engine that answers may take to tell how a process ended that this
	// host's kernel has not got any more: its containerd or its shim may stand still.
	untold = 20 * time.Second

	// slowPoll is the longest pause between two requests for an exit status.
	slowPoll = 250 * time.Millisecond
)

// running is an exec.
type running struct {
	box         *box
	id          string
	dir         string
	user        sandbox.User
	conn        types.HijackedResponse
	opened      chan error    // receives, for a command with a terminal, why it cannot begin
	copied      chan struct{} // closed when the stream came to its end
	start       error         // why the process never started; written before copied is closed
	stdin       *stdinCopy    // the same
	exited      *exitWatch
	stuck       atomic.Bool  // what starts it was stopped, and was killed
	waited      atomic.Bool  // Wait was called, and closes the connection
	when        moment       // when it ended, once Wait has returned
	writes      atomic.Int64 // writes begun plus writes done: odd during one
	cut         atomic.Pointer[string]
	runtimeText bytes.Buffer // what the runtime wrote among the command's
}

// moment is a time that is set once, zero until then.
type moment struct{ at atomic.Pointer[time.Time] }

func (m *moment) Store(at time.Time) { m.at.Store(&at) }

func (m *moment) Load() (at time.Time) {
	if set := m.at.Load(); set != nil {
		at = *set
	}
	return at
}

// markCut remembers that output may be missing, and why.
func (r *running) markCut(why string) { r.cut.Store(&why) }

// Cut implements sandbox.Running.
func (r *running) Cut() string {
	if why := r.cut.Load(); why != nil {
		return *why
	}
	return ""
}

// exec is Exec for any user.
func (b *box) exec(ctx context.Context, x sandbox.Exec) (*running, error) {
	made, err := b.engine.client.ContainerExecCreate(ctx, b.id, execOptions(x))
	if err != nil {
		return nil, b.execError(ctx, err)
	}
	conn, err := b.attach(ctx, made.ID, x)
	if err != nil {
		return nil, b.execError(ctx, err)
	}
	r := &running{box: b, id: made.ID, dir: x.Dir, user: x.User, conn: conn, opened: make(chan error), copied: make(chan struct{})}
	r.exited = r.watchExit()
	b.add(r)
	go r.copy(ctx, x)
	if err := r.open(ctx, x); err != nil {
		io.WriteString(conn.Conn, endOfInput) // a command that waits for its terminal gives up
		r.close()
		b.forget(r)
		return nil, b.execError(ctx, err)
	}
	return r, nil
}

// attach starts the process. With a terminal it does so even where ctx ends meanwhile:
// the process waits for its terminal, and must be told to give up.
func (b *box) attach(ctx context.Context, id string, x sandbox.Exec) (types.HijackedResponse, error) {
	if x.TTY != nil && ctx.Err() == nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
		defer cancel()
	}
	return hijack(ctx, func(ctx context.Context) (types.HijackedResponse, error) {
		return b.engine.client.ContainerExecAttach(ctx, id, container.ExecAttachOptions{Tty: x.TTY != nil})
	})
}

// open waits until the command's terminal is ready, if it has one, or the stream
// has ended. After an error the command does not begin.
func (r *running) open(ctx context.Context, x sandbox.Exec) error {
	if x.TTY == nil {
		return nil
	}
	select {
	case err := <-r.opened:
		return err
	case <-r.copied:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b *box) execError(ctx context.Context, err error) error {
	if b.noShell(ctx, false) {
		return noShellError(nil, b.spec)
	}
	if errdefs.IsNotFound(err) || errdefs.IsConflict(err) {
		return endedError()
	}
	return engineError(err, "starting the command").Hint("see: belljar doctor")
}

// copy reads the stream to its end, however the command ends: an engine
// whose stream is not read cannot kill (moby#41827). The engine writes its
// error into the stream when the process does not start, so the first bytes
// wait until it is known which of the two they are.
func (r *running) copy(ctx context.Context, x sandbox.Exec) {
	defer close(r.copied)
	split := stdcopy.StdCopy
	if x.TTY != nil { // one stream, and no headers
		split = func(stdout, _ io.Writer, from io.Reader) (int64, error) { return io.Copy(stdout, from) }
	} else {
		r.feed(x)
	}
	if _, err := r.conn.Reader.Peek(1); err == nil && !r.started() {
		var text bytes.Buffer
		split(limitWriter{&text, 4096}, io.Discard, r.conn.Reader)
		r.start = r.startError(text.String())
		// The runtime may say so before the container's init has ended for it.
		if strings.Contains(text.String(), `exec: "sh": `) || r.box.noShell(context.Background(), r.foundNothing()) {
			r.start = noShellError(nil, r.box.spec)
		}
		if strings.Contains(text.String(), `exec: "bash": `) {
			r.start = noBashError()
		}
		return
	}
	if x.TTY != nil {
		if !r.beginInTerminal(ctx, *x.TTY) {
			return
		}
		r.feed(x)
	}
	stderr := x.Stderr
	if !r.box.sharesKernel() {
		stderr = runtimeFilter{stderr, r.box.id, &r.runtimeText}
	}
	ahead, stop := readAhead(r.conn.Reader, r.over, r.markCut)
	defer stop()
	_, err := split(countWriter{x.Stdout, &r.writes}, countWriter{stderr, &r.writes}, ahead)
	if err != nil && !errors.Is(err, net.ErrClosed) { // closed by us: see drain
		r.markCut("the stream broke: " + err.Error())
	}
}

func (r *running) feed(x sandbox.Exec) {
	if x.Stdin != nil {
		r.stdin = copyStdin(r.conn, x.Stdin, x.TTY != nil)
	}
}

func (r *running) startError(text string) error {
	if r.stuck.Load() {
		return stuckError(r.box.spec)
	}
	switch lacks, err := r.box.lacks(r.dir, r.user); {
	case err != nil:
		return engineError(err, "the engine could not start the command in %q, nor a shell that looks for this directory", r.dir).Hint("see: belljar doctor")
	case lacks:
		return target.NoDirError(r.dir)
	}
	return engineError(errors.New(failure.OneLine(text)), "the engine could not start the command").Hint("see: belljar doctor")
}

// lacks reports whether a shell that starts in / cannot enter the directory either: then
// the requested directory is why the engine could not start the command.
func (b *box) lacks(dir string, user sandbox.User) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	if dir == "/" {
		return false, nil
	}
	looks, err := b.exec(ctx, sandbox.Exec{Script: `cd -P "$DIR"`, Dir: "/", Env: []string{"DIR=" + dir}, User: user, Stdout: io.Discard, Stderr: io.Discard})
	if err != nil {
		return false, err
	}
	status, err := looks.Wait(ctx)
	return status != 0, err
}

// started distinguishes a process from a failed start: only a process has a PID.
func (r *running) started() bool {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	for {
		about, err := r.inspect(ctx)
		if err != nil || about.Pid != 0 {
			return true // an engine without an answer does not prove a failure
		}
		if !about.Running {
			return false
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return true
		}
	}
}

// foundNothing reports whether the engine found no sh, or not the directory to start it
// in: moby's exit status is 127 for both.
func (r *running) foundNothing() bool {
	about, err := r.inspect(context.Background())
	return err == nil && about.ExitCode == 127
}

// close ends the connection, which is what unblocks its readers and writers,
// and waits for them.
func (r *running) close() {
	r.conn.Close()
	<-r.copied
	r.stdin.stop()
	r.exited.stop()
}

// countWriter counts its writes, when they begin and when they are done.
type countWriter struct {
	io.Writer
	count *atomic.Int64
}

func (w countWriter) Write(p []byte) (int, error) {
	w.count.Add(1)
	defer w.count.Add(1)
	return w.Writer.Write(p)
}

// limitWriter keeps the first bytes.
type limitWriter struct {
	to   *bytes.Buffer
	most int
}

func (w limitWriter) Write(p []byte) (int, error) {
	w.to.Write(p[:min(len(p), max(0, w.most-w.to.Len()))])
	return len(p), nil
}
