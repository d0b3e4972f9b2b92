package local_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"

	"belljar/sandbox"
	"belljar/sandbox/sandboxtest"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// A second implementation of Runner: its other half is in another process, and
// between them are socket pairs. For each call the client sends one over a
// control socket, and a second where the command has stdin, so that no one who
// does not read holds up others. Messages are lines of JSON.

// request is what a client says.
type request struct {
	Call    string               `json:"call,omitempty"`
	Command *sandbox.Command     `json:"command,omitempty"`
	Script  []byte               `json:"script,omitempty"` // of Command: it need not be UTF-8
	Resized bool                 `json:"resized,omitempty"`
	ID      string               `json:"id,omitempty"` // also a session's name
	Signal  sandbox.Signal       `json:"signal,omitempty"`
	Which   sandbox.Stream       `json:"which,omitempty"`
	Offset  int64                `json:"offset,omitempty"`
	Size    sandbox.TerminalSize `json:"size,omitzero"`
	Turn    int                  `json:"turn,omitempty"` // of a reader's call

	Runner int                 `json:"runner,omitempty"` // whose call it is
	Behind *sandboxtest.Behind `json:"behind,omitempty"` // of one that is opened
	Dir    string              `json:"dir,omitempty"`
}

// response is what a server answers.
type response struct {
	Error    *sandbox.Error        `json:"error,omitempty"`
	ID       string                `json:"id,omitempty"`
	Event    *sandbox.Event        `json:"event,omitempty"`
	Chunk    *sandbox.Chunk        `json:"chunk,omitempty"` // nil is EOF
	Sessions []sandbox.SessionInfo `json:"sessions,omitempty"`
	Logs     []sandbox.LogInfo     `json:"logs,omitempty"`
	Pools    []sandbox.PoolStatus  `json:"pools,omitempty"`
}

// wire is one call's connection.
type wire struct {
	net.Conn
	in  *json.Decoder
	mu  sync.Mutex
	out *json.Encoder
}

func newWire(c net.Conn) *wire {
	return &wire{Conn: c, in: json.NewDecoder(c), out: json.NewEncoder(c)}
}

func (w *wire) send(v any) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Encode(v)
}

// connOf is the connection of a descriptor, which it takes over.
func connOf(fd int) (*net.UnixConn, error) {
	file := os.NewFile(uintptr(fd), "pipe")
	defer file.Close()
	c, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	return c.(*net.UnixConn), nil
}

// pair is a connection, and the descriptor of its other end.
func pair(kind int) (*net.UnixConn, int, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, 0, err
	}
	c, err := connOf(fds[0])
	return c, fds[1], err
}

// pipeVariable makes a test's process the server of Runners.
const pipeVariable = "BELLJAR_TEST_RUNNER"

// pipe is another process, which has the other halves of Runners.
type pipe struct {
	*exec.Cmd
	mu      sync.Mutex
	control *net.UnixConn
	runners atomic.Int64
}

// startPipe starts that process, which ends with its control socket.
func startPipe(t *testing.T) *pipe {
	t.Helper()
	control, fd, err := pair(unix.SOCK_SEQPACKET)
	if err != nil {
		t.Fatal(err)
	}
	other := os.NewFile(uintptr(fd), "control")
	defer other.Close()
	cmd := exec.Command("/proc/self/exe", "-test.run=^$")
	cmd.Env = append(os.Environ(), pipeVariable+"=1")
	cmd.ExtraFiles, cmd.Stderr = []*os.File{other}, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return &pipe{Cmd: cmd, control: control}
}

// runner opens a Runner that has its other half there.
func (p *pipe) runner(t *testing.T, b sandboxtest.Behind) *pipeRunner {
	t.Helper()
	r := &pipeRunner{pipe: p, number: int(p.runners.Add(1))}
	if _, err := r.ask(t.Context(), request{Call: "open", Behind: &b, Dir: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRunnerOverPipe(t *testing.T) {
	p := startPipe(t)
	t.Cleanup(func() { // after the tests, which run side by side
		p.control.Close()
		if err := p.Wait(); err != nil {
			t.Errorf("the other half: %v", err)
		}
	})
	sandboxtest.TestRunner(t, func(t *testing.T, b sandboxtest.Behind) sandboxtest.FullRunner {
		r := p.runner(t, b)
		t.Cleanup(func() {
			if _, err := r.ask(context.Background(), request{Call: "close"}); err != nil {
				t.Error(err)
			}
		})
		return r
	})
}

// A Runner whose other half is gone says that it lost the command: it does not
// hang, and does not guess.
func TestRunnerOverBrokenPipe(t *testing.T) {
	var b sandboxtest.Behind
	b.Profile = profile()
	p := startPipe(t)
	defer p.control.Close()
	r := p.runner(t, b)
	x, err := r.Start(t.Context(), sandbox.Command{Script: "trap '' TERM INT HUP; echo ready; while :; do sleep 1; done"})
	if err != nil {
		t.Fatal(err)
	}
	reader, err := x.Read(t.Context(), sandbox.Stdout, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if c, err := reader.Next(t.Context()); err != nil || string(c.Data) != "ready\n" {
		t.Errorf("%q, %v", c.Data, err)
	}
	if first := <-x.Events(); first.Type != sandbox.EventStart || first.Seq != 1 {
		t.Errorf("%+v", first)
	}
	p.Process.Kill()
	p.Wait()
	last := sandbox.Event{Seq: 1}
	for e := range x.Events() {
		if e.Seq != last.Seq+1 {
			t.Errorf("%+v after %+v", e, last)
		}
		last = e
	}
	if last.Type != sandbox.EventResult || last.Result == nil {
		t.Errorf("the last event is %+v", last)
	}
	result, err := x.Wait()
	if result.Status != sandbox.StatusFatal || result.Cause != sandbox.CauseEngineLost || result.ID != x.ID() || sandbox.CauseOf(err) != sandbox.CauseEngineLost {
		t.Errorf("%+v, %v", result, err)
	}
	x.Kill()
	if _, err := reader.Next(t.Context()); sandbox.CauseOf(err) != sandbox.CauseEngineLost {
		t.Errorf("Next: %v", err)
	}
	_, prepared := r.Prepare(t.Context(), command())
	_, sessions := r.Sessions(t.Context())
	_, logs := r.Logs(t.Context())
	_, pools := r.Pools(t.Context())
	_, read := x.Read(t.Context(), sandbox.Stdout, 0)
	signaled := x.Signal(t.Context(), "SIGTERM")
	for _, err := range []error{prepared, sessions, logs, pools, read, signaled, r.RemoveSession(t.Context(), "dev")} {
		if sandbox.CauseOf(err) != sandbox.CauseEngineLost {
			t.Errorf("%v", err)
		}
	}
}

// servedPipe is the other process's whole life, where this is one.
func servedPipe() bool {
	if os.Getenv(pipeVariable) == "" {
		return false
	}
	if err := servePipe(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

// servePipe answers calls until the control socket ends.
func servePipe() error {
	control, err := connOf(3)
	if err != nil {
		return err
	}
	s := &pipeServer{halves: map[int]*half{}}
	var calls sync.WaitGroup
	for {
		conns, err := receive(control)
		if err != nil {
			break
		}
		calls.Go(func() { s.serve(conns) })
	}
	calls.Wait()
	control.Close()
	return goleak.Find()
}

// receive takes the connections of the next call.
func receive(control *net.UnixConn) (conns []*net.UnixConn, err error) {
	aside := make([]byte, unix.CmsgSpace(2*4))
	n, size, _, _, err := control.ReadMsgUnix(make([]byte, 1), aside)
	if err == nil && n == 0 {
		err = io.EOF
	}
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(aside[:size])
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			return nil, err
		}
		for _, fd := range fds {
			c, err := connOf(fd)
			if err != nil {
				return nil, err
			}
			conns = append(conns, c)
		}
	}
	return conns, nil
}
