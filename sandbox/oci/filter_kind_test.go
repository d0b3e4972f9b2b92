package oci_test

import (
	"bytes"
	"errors"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	"belljar/sandbox"
	"belljar/sandbox/oci"

	"golang.org/x/sys/unix"
)

// Containers with a root user and without have each their own filter, in one process and from disk, whichever
// was first: the kernel has it of the commands.
func TestFilterIsOfItsKind(t *testing.T) {
	needCrun(t)
	for name, order := range map[string][]bool{"plain first": {false, true, true, false}, "root first": {true, false, false, true}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			first := openIn(t, oci.Config{Dir: dir, Runtime: "crun"})
			compiled := map[bool][]byte{order[0]: filterInside(t, first, order[0])}
			if oci.Filter(first, order[0]) == nil {
				t.Skip("this crun does not show its filter")
			}
			if oci.Filter(first, !order[0]) != nil {
				t.Fatal("a filter is taken for the other kind's")
			}
			compiled[order[1]] = filterInside(t, first, order[1])
			if bytes.Equal(compiled[true], compiled[false]) {
				t.Fatal("both kinds have the same filter")
			}
			for who, engine := range map[string]*oci.Engine{"the same engine": first, "another": openIn(t, oci.Config{Dir: dir, Runtime: "crun"})} {
				for _, root := range order[2:] {
					if !bytes.Equal(oci.Filter(engine, root), compiled[root]) {
						t.Errorf("%s: with root %t, what is kept is not what was compiled", who, root)
					}
					if !bytes.Equal(filterInside(t, engine, root), compiled[root]) {
						t.Errorf("%s: with root %t, a command has another filter", who, root)
					}
				}
			}
			if files, err := filepath.Glob(filepath.Join(dir, "seccomp-*")); err != nil || len(files) != 2 {
				t.Errorf("%v, error %v", files, err)
			}
		})
	}
}

// filterInside is the filter that the kernel has for a command of a new container.
func filterInside(t *testing.T, engine *oci.Engine, root bool) []byte {
	t.Helper()
	var box sandbox.Container
	if root {
		box = rooted(t, engine, nil)
	} else {
		box = enter(t, engine, specOf(t)).box
	}
	user := map[bool]sandbox.User{true: rootUser, false: nobody}[root]
	running, err := box.Exec(t.Context(), sandbox.Exec{Script: "exec sleep 1000", Dir: "/", User: user})
	if err != nil {
		t.Fatal(err)
	}
	list, err := box.Processes(t.Context())
	if err != nil || len(list) != 1 {
		t.Fatalf("%v, error %v", list, err)
	}
	text := filterOf(t, list[0].HostPID)
	if err := box.Signal(t.Context(), list, "SIGKILL"); err != nil {
		t.Fatal(err)
	}
	if _, err := running.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	return text
}

// filterOf is the seccomp filter of a process.
func filterOf(t *testing.T, pid int) []byte {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.PtraceSeize(pid); err != nil {
		t.Fatal(err)
	}
	if err := unix.PtraceInterrupt(pid); err != nil {
		t.Fatal(err)
	}
	var status unix.WaitStatus
	for {
		_, err := unix.Wait4(pid, &status, unix.WALL, nil)
		if err == nil && status.Stopped() {
			break
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			t.Fatal(err)
		}
	}
	defer unix.PtraceDetach(pid)
	n, _, failed := syscall.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SECCOMP_GET_FILTER, uintptr(pid), 0, 0, 0, 0)
	if failed != 0 {
		t.Skipf("this kernel shows no filters: %v", failed)
	}
	text := make([]byte, 8*n)
	if n, _, failed = syscall.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SECCOMP_GET_FILTER, uintptr(pid), 0, uintptr(unsafe.Pointer(&text[0])), 0, 0); failed != 0 {
		t.Fatal(failed)
	}
	return text[:8*n]
}
