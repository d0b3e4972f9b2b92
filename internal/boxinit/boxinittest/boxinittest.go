// Package boxinittest gives tests an init. A test's own program cannot be one: with the
// race detector it is linked dynamically.
package boxinittest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"belljar/internal/boxinit"
)

// built is the program's directory, "" before there is one.
var built string

var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "belljar-init-")
	if err != nil {
		return "", err
	}
	built = dir
	path := filepath.Join(dir, "belljar-init")
	_, here, _, _ := runtime.Caller(0)
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", path, "./program")
	cmd.Dir = filepath.Dir(here)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		os.Stderr.Write(out)
		return "", err
	}
	return path, os.Chmod(dir, 0o755)
})

// Binary is the path of a static program that is an init. Tests call Clean at their end.
func Binary(t testing.TB) string {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatalf("building an init: %v", err)
	}
	return path
}

// Clean removes the program, if there is one. TestMain calls it.
func Clean() {
	if built != "" {
		os.RemoveAll(built)
	}
}

// Command runs an init in namespaces of its own, with the privileges that a container
// gives it. The test must be root's.
func Command(t testing.TB, config boxinit.Config) *exec.Cmd {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can make namespaces")
	}
	caps := "-all,+setuid,+setgid,+kill,+setpcap"
	if config.Root {
		caps += ",+chown,+dac_override,+fowner,+fsetid,+net_bind_service,+setfcap"
	}
	caps = "--bounding-set " + caps
	if config.Alone {
		caps = fmt.Sprintf("--reuid %d --regid %[1]d --clear-groups --bounding-set -all", config.UID)
	}
	args := config.Args()
	script := `mount -t proc proc /proc && mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts /dev/pts && mount --bind /dev/pts/ptmx /dev/ptmx &&
exec setpriv ` + caps + ` --inh-caps=-all --no-new-privs bash -c 'exec -a "$0" "$@"' ` + args[0] + ` ` + Binary(t) + ` ` + strings.Join(args[1:], " ")
	cmd := exec.Command("unshare", "--pid", "--fork", "--mount", "--ipc", "--kill-child=KILL", "bash", "-c", script)
	cmd.Stderr = os.Stderr
	return cmd
}
