// Package shelltest finds the shells that images have on this host, for tests
// that run scripts by each of them.
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
	Bin        string // a directory in which it is sh, and alone
	Cat        string // the host's cat
}

// Shells are the kinds that images have. Outside CI one may be missing.
func Shells(t testing.TB) (list []Shell) {
	t.Helper()
	cat, err := exec.LookPath("cat")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"dash", "bash", "busybox"} {
		path, err := exec.LookPath(name)
		if err != nil && os.Getenv("CI") == "" {
			t.Logf("skipped: this host has no %s", name)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		bin := t.TempDir()
		if err := os.Symlink(path, filepath.Join(bin, "sh")); err != nil {
			t.Fatal(err)
		}
		list = append(list, Shell{name, path, bin, cat})
	}
	if len(list) == 0 {
		t.Skip("NOT TESTED: this host has no dash, bash or busybox")
	}
	keepFiles(t)
	return list
}

// keepFiles has no shell inherit what go test -fuzz leaves open for its workers.
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
