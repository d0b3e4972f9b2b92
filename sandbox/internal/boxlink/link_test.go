package boxlink

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"belljar/internal/boxinit"
	"belljar/internal/boxinit/boxinittest"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		boxinittest.Clean()
		os.Exit(code)
	}))
}

const (
	initUID = 65533
	user    = 65534
)

// duplex is an init's stdin and stdout.
type duplex struct {
	io.Reader
	io.WriteCloser
	also io.Closer
}

func (d duplex) Close() error {
	d.also.Close()
	return d.WriteCloser.Close()
}

// each runs a test with every carrier.
func each(t *testing.T, test func(t *testing.T, l *Link)) {
	t.Run("frames", func(t *testing.T) { test(t, frames(t)) })
	t.Run("socket", func(t *testing.T) { test(t, socket(t)) })
	t.Run("listener", func(t *testing.T) { test(t, listener(t)) })
	t.Run("channels", func(t *testing.T) { test(t, channel(t)) })
}

// frames is a link to a new init.
func frames(t testing.TB) *Link {
	t.Helper()
	cmd := boxinittest.Command(t, boxinit.Config{Carrier: boxinit.Frames, UID: initUID})
	in, out := stdio(t, cmd)
	l := Frames(duplex{out, in, out})
	begin(t, cmd, l)
	return l
}

// socket is a link to a new init that hands descriptors over.
func socket(t testing.TB) *Link {
	t.Helper()
	cmd := boxinittest.Command(t, boxinit.Config{Carrier: boxinit.Socket, UID: initUID})
	ours, theirs := pair(t)
	cmd.ExtraFiles = []*os.File{theirs}
	l := Socket(ours)
	begin(t, cmd, l)
	return l
}

// listener is a link to a new init that listens, as its second client.
func listener(t testing.TB) *Link {
	t.Helper()
	cmd, first, dial := listening(t, boxinit.Config{})
	begin(t, cmd, first)
	return hello(t, dial())
}

// listening is a command for an init that listens, the link of its first client, and what makes others.
func listening(t testing.TB, c boxinit.Config) (cmd *exec.Cmd, first *Link, dial func() *Link) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "socket")
	listens, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listens.Close() })
	theirs, err := listens.File()
	if err != nil {
		t.Fatal(err)
	}
	c.Carrier, c.UID = boxinit.Listener, initUID
	cmd = boxinittest.Command(t, c)
	ours, socket := pair(t)
	cmd.ExtraFiles = []*os.File{socket, theirs}
	return cmd, Socket(ours), func() *Link {
		t.Helper()
		conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path})
		if err != nil {
			t.Fatal(err)
		}
		l := Socket(conn)
		t.Cleanup(func() { l.Close() })
		return l
	}
}

// channel is a link to a new init over the last one of its channels.
func channel(t testing.TB) *Link {
	t.Helper()
	_, all := channels(t)
	last := all[len(all)-1]
	return hello(t, Frames(last))
}

// channels are a link to a new init over its stdin and stdout, and the channels for further clients.
func channels(t testing.TB) (first *Link, all []duplex) {
	t.Helper()
	cmd := boxinittest.Command(t, boxinit.Config{Carrier: boxinit.Channels, UID: initUID})
	for range boxinit.ChannelCount {
		theirIn, in, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		out, theirOut, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.ExtraFiles = append(cmd.ExtraFiles, theirIn, theirOut)
		all = append(all, duplex{out, in, out})
		t.Cleanup(func() { duplex{out, in, out}.Close() })
	}
	in, out := stdio(t, cmd)
	first = Frames(duplex{out, in, out})
	begin(t, cmd, first)
	return first, all
}

// hello greets by a further link, which ends before the init.
func hello(t testing.TB, l *Link) *Link {
	t.Helper()
	t.Cleanup(func() { l.Close() })
	if err := l.Hello(within(t)); err != nil {
		t.Fatalf("hello: %v", err)
	}
	return l
}

// begin starts the init. At the test's end it must end by itself.
func begin(t testing.TB, cmd *exec.Cmd, l *Link) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, f := range append(cmd.ExtraFiles, file(cmd.Stdin), file(cmd.Stdout)) {
		f.Close()
	}
	t.Cleanup(func() {
		l.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the init: %v", err)
		}
	})
	if err := l.Hello(within(t)); err != nil {
		t.Fatalf("hello: %v", err)
	}
}

func file(of any) *os.File { f, _ := of.(*os.File); return f }

// pair is a connected pair of sockets.
func pair(t testing.TB) (*net.UnixConn, *os.File) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
	defer ours.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		t.Fatal(err)
	}
	return conn.(*net.UnixConn), theirs
}

func withCancel(t testing.TB) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithCancel(within(t))
}

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// script is a shell that runs it.
func script(text string, out, errs io.Writer) Start {
	return Start{Args: []string{"sh", "-c", text}, Env: []string{"PATH=/usr/bin:/bin"}, Dir: "/", UID: user, GID: user, Stdout: out, Stderr: errs}
}

func start(t testing.TB, l *Link, s Start) *Process {
	t.Helper()
	p, err := l.Start(within(t), s)
	if err != nil {
		t.Fatalf("starting %q: %v", s.Args, err)
	}
	t.Cleanup(p.Close)
	return p
}

// status waits for the end of a process and its streams.
func status(t testing.TB, p *Process) int {
	t.Helper()
	for _, c := range []<-chan struct{}{p.Exited(), p.Ended()} {
		select {
		case <-c:
		case <-p.link.Done():
			t.Fatalf("the link: %v", p.link.Err())
		case <-within(t).Done():
			t.Fatal("the process does not end")
		}
	}
	p.Close()
	return p.Status()
}

// run is what a script prints, and its status.
func run(t testing.TB, l *Link, s Start) (string, string, int) {
	t.Helper()
	var out, errs bytes.Buffer
	s.Stdout, s.Stderr = &out, &errs
	code := status(t, start(t, l, s))
	return out.String(), errs.String(), code
}

func TestRun(t *testing.T) { each(t, testRun) }

func testRun(t *testing.T, l *Link) {
	out, errs, code := run(t, l, script("echo hi; echo there >&2; exit 7", nil, nil))
	if out != "hi\n" || errs != "there\n" || code != 7 {
		t.Errorf("got %q, %q, %d", out, errs, code)
	}
	if _, _, code := run(t, l, script("kill -9 $$", nil, nil)); code != 137 {
		t.Errorf("a killed process has status %d", code)
	}
}

func TestStdin(t *testing.T) { each(t, testStdin) }

func testStdin(t *testing.T, l *Link) {
	text := strings.Repeat("a\\\n\x00b\r", 300_000)
	s := script("cat", nil, nil)
	s.Stdin = strings.NewReader(text)
	if out, _, code := run(t, l, s); out != text || code != 0 {
		t.Errorf("cat of %d bytes printed %d, and ended with %d", len(text), len(out), code)
	}
}

func TestRefused(t *testing.T) {
	l := frames(t)
	for name, c := range map[string]struct {
		change func(s *Start)
		want   Reason
	}{
		"no program":     {func(s *Start) { s.Args[0] = "none" }, NoProgram},
		"empty PATH":     {func(s *Start) { s.Env = []string{"PATH=/none"} }, NoProgram},
		"not executable": {func(s *Start) { s.Args[0] = "/etc/passwd" }, NotExecutable},
		"no directory":   {func(s *Start) { s.Dir = "/none" }, NoDir},
		"a file":         {func(s *Start) { s.Dir = "/etc/passwd" }, NoDir},
		"closed":         {func(s *Start) { s.Dir = "/root" }, NoDir},
		"root":           {func(s *Start) { s.UID = 0 }, BadRequest},
		"the init":       {func(s *Start) { s.UID = initUID }, BadRequest},
		"too long":       {func(s *Start) { s.Args = append(s.Args, strings.Repeat("x", 200<<10)) }, TooLong},
	} {
		t.Run(name, func(t *testing.T) {
			s := script("echo hi", nil, nil)
			c.change(&s)
			_, err := l.Start(within(t), s)
			var refused *StartError
			if !errors.As(err, &refused) || refused.Reason != c.want {
				t.Errorf("got %v, want reason %d", err, c.want)
			}
		})
	}
}

// A connection that ends takes everything with it.
func TestDone(t *testing.T) { each(t, testDone) }

func testDone(t *testing.T, l *Link) {
	p := start(t, l, script("sleep 1000", io.Discard, io.Discard))
	if err := l.KillAll(within(t)); err != nil {
		t.Error(err)
	}
	if code := status(t, p); code != 128+int(syscall.SIGKILL) {
		t.Errorf("status %d", code)
	}
}

// stdio are the other ends of a command's stdin and stdout.
func stdio(t testing.TB, cmd *exec.Cmd) (in, out *os.File) {
	t.Helper()
	theirIn, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin, cmd.Stdout = theirIn, theirOut
	return in, out
}
