package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"belljar/sandbox"
	"belljar/sandbox/client"

	"github.com/rogpeppe/go-internal/testscript"
)

// startSidecar starts belljar serve with a configuration of its own, and returns the
// address. It ends with the test, and must end well.
func startSidecar(t *testing.T, program, settings string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "belljar-sidecar-*") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	address := "unix://" + filepath.Join(dir, "run", "s")
	if err := os.WriteFile(filepath.Join(dir, "sandbox.yaml"), []byte("serve: {listen: \""+address+"\"}\n"+settings), 0o600); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	cmd := exec.Command(program, "serve", "--config", filepath.Join(dir, "sandbox.yaml"))
	cmd.Env = append(os.Environ(), stateIn(t, dir))
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil || strings.Contains(log.String(), "DATA RACE") {
			t.Errorf("belljar serve: %v\n%s", err, log.String())
		}
	})
	listens(t, strings.TrimPrefix(address, "unix://"))
	return address
}

// listens waits until a server answers at the unix socket.
func listens(t *testing.T, socket string) {
	t.Helper()
	eventually(t, "the sidecar listens", func() bool {
		c, err := net.Dial("unix", socket)
		if err != nil {
			return false
		}
		c.Close()
		return true
	})
}

// The same scripts pass at a sidecar: the same output, the same exit statuses.
func TestScriptsAtSidecar(t *testing.T) {
	needEngine(t)
	t.Parallel()
	host := startSidecar(t, watched, "")
	params := scripts()
	params.Dir = ""
	for _, name := range []string{"background", "limits", "refused", "report", "session", "session_lost", "streams", "template", "time"} {
		params.Files = append(params.Files, filepath.Join("testdata", name+".txtar"))
	}
	local := params.Setup
	params.Condition = func(name string) (bool, error) { return name == "sidecar" || name == engineKind(), nil }
	params.Setup = func(env *testscript.Env) error {
		env.Setenv("BELLJAR_HOST", host)
		return local(env)
	}
	testscript.Run(t, params)
}

// cutter passes connections on to a sidecar, and cuts each after a number of bytes of
// answers, until it has cut enough.
type cutter struct {
	to string

	mu   sync.Mutex
	left int // bytes until the next cut
	cuts int // that are still to be made
}

// nextCut is how many bytes come before a cut: 50 of them are well before 100 MB.
func nextCut() int { return 1 + rand.IntN(2<<20) }

func (c *cutter) serve(l net.Listener) {
	for {
		from, err := l.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("unix", c.to)
		if err != nil {
			from.Close()
			continue
		}
		closed := func() { from.Close(); to.Close() }
		go func() { io.Copy(to, from); closed() }()
		go func() { io.Copy(&cutting{c, from}, to); closed() }()
	}
}

type cutting struct {
	*cutter
	to net.Conn
}

var errCut = errors.New("cut")

func (c *cutting) Write(p []byte) (int, error) {
	c.mu.Lock()
	c.left -= len(p)
	cut := c.left <= 0 && c.cuts > 0
	if cut {
		p = p[:max(len(p)+c.left, 0)]
		c.cuts--
		c.left = nextCut()
	}
	c.mu.Unlock()
	n, err := c.to.Write(p)
	if cut {
		return n, errCut
	}
	return n, err
}

// A connection that is cut 50 times loses no byte of 100 MB, and doubles none.
func TestCutsAtSidecar(t *testing.T) {
	needEngine(t)
	t.Parallel()
	host := startSidecar(t, binary, "limits: {output: 256MiB, result: 64KiB}\n")
	path := filepath.Join(t.TempDir(), "cut")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	proxy := &cutter{to: strings.TrimPrefix(host, "unix://"), cuts: 50, left: nextCut()}
	go proxy.serve(l)
	c, err := client.New(client.Config{Host: "unix://" + path})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	x, err := c.Start(t.Context(), sandbox.Command{Script: "seq 1 20000000 | head -c 100000000"})
	if err != nil {
		t.Fatal(err)
	}
	sum, bytes, last := sha256.New(), int64(0), uint64(0)
	for e := range x.Events() {
		if last++; e.Seq != last {
			t.Fatalf("event %d is number %d", last, e.Seq)
		}
		if e.Type == sandbox.EventStdout {
			sum.Write(e.Data)
			bytes += int64(len(e.Data))
		}
	}
	r, err := x.Wait()
	if err != nil || r.Stdout.Total != 100_000_000 || bytes != r.Stdout.Total || hex.EncodeToString(sum.Sum(nil)) != r.Stdout.SHA256 {
		t.Errorf("%d of %d bytes, %s: %s, %v", bytes, r.Stdout.Total, r.Cause, r.Message, err)
	}
	if proxy.mu.Lock(); proxy.cuts > 0 {
		t.Errorf("%d cuts were not made", proxy.cuts)
	}
	proxy.mu.Unlock()
	stored := sha256.New()
	reader, err := c.ReadLog(t.Context(), x.ID(), sandbox.Stdout, 0)
	for err == nil {
		var chunk sandbox.Chunk
		chunk, err = reader.Next(t.Context())
		stored.Write(chunk.Data)
	}
	if !errors.Is(err, io.EOF) || hex.EncodeToString(stored.Sum(nil)) != r.Stdout.SHA256 {
		t.Errorf("what is kept differs: %v", err)
	}
}
