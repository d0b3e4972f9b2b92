package policy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// tripwire is a directory in which a program that runs another one, writes a file or
// opens a connection is caught. Scripts write PORT for the listener's port.
type tripwire struct {
	bin, work, mark string
	listener        *net.TCPListener
	port            string
	user            *syscall.Credential // nobody, so that a hole found as root does no harm
	programs        map[string][]string
}

// tripwireFiles are the files in the directory that programs run in.
var tripwireFiles = map[string]string{"f": "a b /c/ \"d\"\n1 2 3\nevil\n", "g": "x\n"}

// newTripwire finds the programs. CI has all of them.
func newTripwire(t testing.TB, programs map[string][]string) *tripwire {
	t.Helper()
	dir, err := os.MkdirTemp("", "trap") // nobody cannot enter t.TempDir's
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	listener, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	tr := &tripwire{bin: filepath.Join(dir, "bin"), work: filepath.Join(dir, "work"), mark: filepath.Join(dir, "marks", "mark"), listener: listener, programs: map[string][]string{}}
	tr.port = fmt.Sprint(listener.Addr().(*net.TCPAddr).Port)
	if os.Getuid() == 0 {
		tr.user = &syscall.Credential{Uid: 65534, Gid: 65534}
	}
	for _, d := range []string{dir, tr.bin, tr.work, filepath.Dir(tr.mark)} {
		if err := errors.Join(os.MkdirAll(d, 0o777), os.Chmod(d, 0o777)); err != nil { // regardless of the umask
			t.Fatal(err)
		}
	}
	for _, name := range []string{evil, "id", "x", "a", "w"} {
		if err := os.WriteFile(filepath.Join(tr.bin, name), []byte("#!/bin/sh\n: > '"+tr.mark+"'\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, argv := range programs {
		found, err := exec.LookPath(argv[0])
		if err != nil && os.Getenv("CI") != "" {
			t.Fatalf("%v: scripts/setup installs it", err)
		}
		if err != nil {
			t.Logf("skipped: this host has no %s", argv[0])
			continue
		}
		tr.programs[name] = append([]string{found}, argv[1:]...)
	}
	if cat, err := exec.LookPath("cat"); err == nil {
		if err := os.Symlink(cat, filepath.Join(tr.bin, "cat")); err != nil {
			t.Fatal(err)
		}
	}
	if len(tr.programs) == 0 {
		t.Skip("NOT TESTED: this host has none of the programs")
	}
	tr.restore(t)
	return tr
}

func (tr *tripwire) restore(t testing.TB) {
	t.Helper()
	entries, err := os.ReadDir(tr.work)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if err := os.RemoveAll(filepath.Join(tr.work, entry.Name())); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range tripwireFiles {
		file := filepath.Join(tr.work, name)
		if err := errors.Join(os.WriteFile(file, []byte(text), 0o666), os.Chmod(file, 0o666)); err != nil {
			t.Fatal(err)
		}
	}
}

// does runs the program and returns its side effect, "" if there was none.
func (tr *tripwire) does(t testing.TB, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second) // some never end
	defer cancel()
	argv := slices.Concat(tr.programs[name][1:], args)
	for i := range argv {
		argv[i] = strings.ReplaceAll(argv[i], "PORT", tr.port)
	}
	cmd := exec.CommandContext(ctx, tr.programs[name][0], argv...)
	cmd.Env, cmd.Dir = []string{"PATH=" + tr.bin, "HOME=" + tr.work, "LC_ALL=C.UTF-8"}, tr.work
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: tr.user, Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	_ = cmd.Run() // most fail, which does not matter
	switch {
	case os.Remove(tr.mark) == nil:
		return "ran another program"
	case tr.connected(t):
		return "opened a connection"
	}
	changed := tr.changed(t)
	if changed != "" {
		tr.restore(t)
	}
	return changed
}

// connected accepts waiting connections: the kernel has established one before the
// program ends.
func (tr *tripwire) connected(t testing.TB) (was bool) {
	t.Helper()
	raw, err := tr.listener.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) {
		for {
			conn, _, err := syscall.Accept(int(fd))
			if err != nil {
				return
			}
			was = true
			syscall.Close(conn)
		}
	}); err != nil {
		t.Fatal(err)
	}
	return was
}

func (tr *tripwire) changed(t testing.TB) string {
	t.Helper()
	entries, err := os.ReadDir(tr.work)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		text, known := tripwireFiles[entry.Name()]
		if data, err := os.ReadFile(filepath.Join(tr.work, entry.Name())); !known || err != nil || string(data) != text {
			return "wrote " + entry.Name()
		}
	}
	if len(entries) != len(tripwireFiles) {
		return "removed a file"
	}
	return ""
}

// hide puts a text into a few of the places, where it is plain text.
func hide(random *rand.Rand, text string, places []string) string {
	for range 1 + random.IntN(5) {
		text = strings.ReplaceAll(places[random.IntN(len(places))], "@", text)
		if len(text) > 500 {
			break
		}
	}
	return text
}

func pick(random *rand.Rand, from []string) string { return from[random.IntN(len(from))] }
