package listen

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"belljar/sandbox"
)

// start serves the handler on the listener until the test ends.
func start(t *testing.T, l *Listener, handler http.Handler) {
	t.Helper()
	server := l.Server(handler)
	done := make(chan error, 1)
	go func() { done <- l.Serve(server) }()
	t.Cleanup(func() {
		if err := errors.Join(server.Close(), <-done, l.Close()); err != nil {
			t.Error(err)
		}
	})
}

var hello = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") })

// over is a client whose connections all lead to that address.
func over(network, address string) *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}}}
}

func get(t *testing.T, client *http.Client, url string) (string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return string(text), err
}

func unixConfig(name string) Config {
	return Config{Address: "unix://" + name, Connections: 100, Log: quiet}
}

func TestUnix(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "belljar", "s")
	l, err := Open(t.Context(), unixConfig(name))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]fs.FileMode{name: fs.ModeSocket | 0o600, filepath.Dir(name): fs.ModeDir | 0o700} {
		if about, err := os.Stat(path); err != nil || about.Mode() != want {
			t.Errorf("%s: %v, %v, not %v", path, about.Mode(), err, want)
		}
	}
	t.Run("served", func(t *testing.T) {
		start(t, l, hello)
		if text, err := get(t, over("unix", name), "http://localhost/"); text != "hello" || err != nil {
			t.Errorf("%q, %v", text, err)
		}
		_, err := Open(t.Context(), unixConfig(name))
		if err == nil || !strings.Contains(err.Error(), `another server has the socket "`+name+`" (stop it`) {
			t.Errorf("a second server: %v", err)
		}
		if text, err := get(t, over("unix", name), "http://localhost/"); text != "hello" || err != nil {
			t.Errorf("after the second: %q, %v", text, err)
		}
	})
	if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the end: %v", err)
	}
}

// stale leaves a socket, as a killed server does.
func stale(t *testing.T, name string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	if _, err := os.Lstat(name); err != nil {
		t.Fatal(err)
	}
}

// Of servers that start at once, one gets the stale socket, and its socket works.
func TestStaleSocket(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "s")
	stale(t, name)
	stale(t, name+early)
	var all sync.WaitGroup
	var opened atomic.Pointer[Listener]
	for range 8 {
		all.Go(func() {
			l, err := Open(t.Context(), unixConfig(name))
			if err != nil && !strings.Contains(err.Error(), "another server has the socket") {
				t.Error(err)
			}
			if err == nil && opened.Swap(l) != nil {
				t.Error("two servers have the socket")
			}
		})
	}
	all.Wait()
	start(t, opened.Load(), hello)
	if text, err := get(t, over("unix", name), "http://localhost/"); text != "hello" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
}

// Who waits for the socket's file does not need to wait for the server, too.
func TestSocketThatIsThereAnswers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range 200 {
		name := filepath.Join(dir, fmt.Sprint(i))
		var opening sync.WaitGroup
		opening.Go(func() {
			l, err := Open(t.Context(), unixConfig(name))
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { l.Close() })
		})
		conn, err := net.Dial("unix", name)
		for errors.Is(err, fs.ErrNotExist) && !t.Failed() {
			conn, err = net.Dial("unix", name)
		}
		opening.Wait()
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
	}
	if files, err := filepath.Glob(dir + "/*" + early); err != nil || len(files) > 0 {
		t.Errorf("%v, %v", files, err)
	}
}

func TestUnixRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	make := func(name string, mode fs.FileMode, uid, gid int) string {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.Mkdir(path, 0o700), os.Chown(path, uid, gid), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(path, "s")
	}
	file := filepath.Join(dir, "file")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Symlink(dir, filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	me := os.Getuid()
	cases := map[string]string{
		make("all", 0o777, me, -1):                  "is writable by other users: its mode is 0777 (if it is yours, run chmod go-w on it",
		make("group", 0o770, me, me+1):              "is writable by other users",
		filepath.Join(dir, "link", "s"):             "is a link or a file",
		filepath.Join(file, "s"):                    "is a link or a file",
		file:                                        "exists and is not a socket",
		filepath.Join(dir, "a", "b", "s"):           "making the socket's directory",
		filepath.Join(dir, strings.Repeat("x", 99)): "over 106",
	}
	if me == 0 {
		cases[make("foreign", 0o755, 12345, -1)] = "belongs to another user"
		below := filepath.Join(dir, "above")
		cases[filepath.Join(below, "mine", "s")] = `"` + below + `" belongs to another user`
		if err := errors.Join(os.MkdirAll(filepath.Join(below, "mine"), 0o700), os.Chown(below, 12345, -1)); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range cases {
		l, err := Open(t.Context(), unixConfig(name))
		if err == nil {
			l.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if e, ok := errors.AsType[*sandbox.Error](err); !ok || e.Hint == "" {
			t.Errorf("%s: no hint: %v", name, err)
		}
	}
	if _, err := os.Stat(file); err != nil {
		t.Errorf("a file was removed: %v", err)
	}
}
