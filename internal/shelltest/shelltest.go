// Package shelltest finds shells on this host that images also have, for tests
// that run scripts in each of them.
package shelltest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// Shell is a /bin/sh of this host.
type Shell struct {
	Name, Path string
	Bin        string // a directory in which it is sh, and the only program
	Cat        string // the host's cat
}

// Commands start the shells of this host, by name: dash, bash, bash that
// runs as sh, and busybox. In CI all must exist.
func Commands(t testing.TB) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for name, argv := range map[string][]string{"dash": {"dash"}, "bash": {"bash"}, "bash as sh": {"bash", "--posix"}, "busybox": {"busybox", "sh"}} {
		path, err := exec.LookPath(argv[0])
		if err != nil && os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		if err != nil {
			t.Logf("skipped: this host has no %s", argv[0])
			continue
		}
		found[name] = append([]string{path}, argv[1:]...)
	}
	if len(found) == 0 {
		t.Skip("NOT TESTED: this host has no dash, bash or busybox")
	}
	return found
}

// Shells are the kinds of shell in images, each the only sh of a directory.
func Shells(t testing.TB) (list []Shell) {
	t.Helper()
	cat, err := exec.LookPath("cat")
	if err != nil {
		t.Fatal(err)
	}
	commands := Commands(t)
	for _, name := range []string{"dash", "bash", "busybox"} {
		if commands[name] == nil {
			continue
		}
		path, bin := commands[name][0], t.TempDir()
		if err := os.Symlink(path, filepath.Join(bin, "sh")); err != nil {
			t.Fatal(err)
		}
		list = append(list, Shell{name, path, bin, cat})
	}
	keepFiles(t)
	return list
}

// keepFiles prevents a shell from inheriting files that go test -fuzz opens for its workers.
func keepFiles(t testing.TB) {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if fd, err := strconv.Atoi(file.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}
