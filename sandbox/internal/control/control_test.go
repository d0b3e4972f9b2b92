package control

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"belljar/sandbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// longDir has a name that is too long for an address.
func longDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), strings.Repeat("long/", 40))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func listen(t *testing.T, dir string, handle func(context.Context, Request) error) *Listener {
	t.Helper()
	l, err := Listen(dir, handle)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestSend(t *testing.T) {
	dir := longDir(t)
	var mu sync.Mutex
	asked := map[sandbox.Signal]int{}
	l := listen(t, dir, func(_ context.Context, r Request) error {
		mu.Lock()
		defer mu.Unlock()
		asked[r.Signal]++
		if r.Signal == "SIGNOPE" {
			return sandbox.Invalid("use another", "no signal %q", r.Signal)
		}
		return nil
	})
	if about, err := os.Stat(filepath.Join(dir, SocketName)); err != nil || about.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", about, err)
	}
	var all sync.WaitGroup
	for range 4 * atOnce {
		all.Go(func() {
			for _, signal := range []sandbox.Signal{"", "SIGTERM"} {
				if err := Send(t.Context(), dir, Request{Signal: signal}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if asked[""] != 4*atOnce || asked["SIGTERM"] != 4*atOnce {
		t.Errorf("%v", asked)
	}
	err := Send(t.Context(), dir, Request{Signal: "SIGNOPE"})
	if sandbox.CauseOf(err) != sandbox.CauseInvalid || err.Error() != `no signal "SIGNOPE" (use another)` {
		t.Errorf("%v", err)
	}
	l.Close()
	if files, _ := os.ReadDir(dir); len(files) > 0 {
		t.Errorf("left over: %v", files)
	}
	if err := Send(t.Context(), dir, Request{}); !errors.Is(err, ErrGone) {
		t.Errorf("%v", err)
	}
}

// Invalid requests are answered, and have no effect.
func TestBadRequests(t *testing.T) {
	dir := longDir(t)
	l := listen(t, dir, func(_ context.Context, r Request) error {
		t.Errorf("asked for %+v", r)
		return nil
	})
	defer l.Close()
	for _, text := range []string{"\n", "x\n", `{"signal":7}` + "\n", `{"other":"x"}` + "\n", `{"signal":"` + strings.Repeat("x", 1<<20) + "\"}\n", "\x00\xff"} {
		err := inDir(dir, func(address *net.UnixAddr) error {
			conn, err := net.DialUnix("unix", nil, address)
			if err != nil {
				return err
			}
			defer conn.Close()
			conn.Write([]byte(text)) // the connection may be closed
			conn.CloseWrite()
			var a answer
			if err := read(conn, &a); err == nil && a.Error == nil {
				t.Errorf("%.20q was done", text)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// A client that sends nothing does not block the others.
func TestCloseWaitsForNobody(t *testing.T) {
	dir := longDir(t)
	begun := make(chan struct{})
	l := listen(t, dir, func(ctx context.Context, _ Request) error {
		close(begun)
		<-ctx.Done()
		return ctx.Err()
	})
	var silent net.Conn
	err := inDir(dir, func(address *net.UnixAddr) (err error) {
		silent, err = net.DialUnix("unix", nil, address)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	answered := make(chan error)
	go func() { answered <- Send(t.Context(), dir, Request{}) }()
	<-begun
	l.Close()
	if err := <-answered; err == nil {
		t.Error("an abandoned request was answered with success")
	}
}

// Once a bug: of a process that is stopped, only the system call was told that took too long.
func TestSilentProcess(t *testing.T) {
	dir := longDir(t)
	socket, err := Bind(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := Send(ctx, dir, Request{}); err == nil || !strings.HasPrefix(err.Error(), "the process that runs the command does not answer (if it is stopped") {
		t.Errorf("error %v", err)
	}
}

// The socket of a killed process is replaced.
func TestStaleSocket(t *testing.T) {
	dir := longDir(t)
	l := listen(t, dir, nil)
	l.socket.Close() // the file stays
	if err := Send(t.Context(), dir, Request{}); !errors.Is(err, ErrGone) {
		t.Errorf("%v", err)
	}
	l.Close()
}
