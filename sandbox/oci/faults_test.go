package oci_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"belljar/sandbox"
	"belljar/sandbox/oci"

	"golang.org/x/sys/unix"
)

// Where this process may open few more files, or none, each step works or its error says so, and nothing is left once there
// are files again.
func TestFewFiles(t *testing.T) {
	for _, runtime := range runtimes(t) {
		for _, root := range []bool{false, true} {
			dir := t.TempDir()
			engine := openIn(t, oci.Config{Dir: dir, Runtime: runtime})
			spec := specOf(t, sandbox.Mount{Source: t.TempDir(), Target: "/work/mounted"})
			if root {
				spec.User, spec.Root, spec.Limits.Disk = rootUser, true, 8<<20
			}
			useOnce(t, engine, spec, nil) // which opens what stays open
			made, ran := 0, 0
			for free := range 40 {
				give := takeFiles(t, free)
				created, ended := useOnce(t, engine, spec, give)
				if created {
					made++
				}
				if ended {
					ran++
				}
				wantNothing(t, dir)
			}
			t.Logf("%s: of 40, %d were made, %d ran", runtime, made, ran)
			if ran == 0 || made == 40 {
				t.Errorf("%s, root %t: of 40, %d were made, %d ran", runtime, root, made, ran)
			}
		}
	}
}

// useOnce makes a container, runs a command in it, and removes it. give gives back files.
func useOnce(t *testing.T, engine sandbox.Engine, spec sandbox.Spec, give func()) (made, ran bool) {
	t.Helper()
	given := give == nil
	giveAll := func() {
		if !given {
			given = true
			give()
		}
	}
	defer giveAll()
	honest := func(what string, err error) {
		if !strings.Contains(err.Error(), "too many open files") && !strings.Contains(err.Error(), "as many files open") || sandbox.CauseOf(err) != sandbox.CauseEngine {
			t.Errorf("%s: cause %s: %v", what, sandbox.CauseOf(err), err)
		}
	}
	box, err := engine.Create(t.Context(), spec)
	if err != nil {
		giveAll()
		if give == nil {
			t.Fatal(err)
		}
		honest("making it", err)
		return false, false
	}
	var out bytes.Buffer
	p, err := box.Exec(t.Context(), sandbox.Exec{Script: "echo hi; exit 7", Dir: "/work", User: spec.User, Stdout: &out, Stderr: &out})
	if err != nil {
		honest("starting a command", err)
	} else if status, err := p.Wait(t.Context()); err != nil {
		honest("waiting for a command", err)
	} else {
		ran = true
		if status != 7 || out.String() != "hi\n" {
			t.Errorf("status %d, %q", status, out.String())
		}
	}
	if c, err := box.Counters(t.Context()); err != nil || c.KilledBy != "" || c.OOMKills > 0 {
		t.Errorf("%+v, %v", c, err)
	}
	select {
	case <-box.Lost():
		t.Error("it is taken for lost")
	default:
	}
	err = box.Remove(t.Context())
	giveAll()
	if err != nil {
		honest("removing it", err)
		if err := box.Remove(t.Context()); err != nil {
			t.Errorf("removing it again: %v", err)
		}
	}
	return true, ran
}

// takeFiles has this process open all files that it may but some.
func takeFiles(t *testing.T, free int) (give func()) {
	t.Helper()
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	few := unix.Rlimit{Cur: 400, Max: before.Max}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	var taken []int
	for {
		fd, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			break
		}
		taken = append(taken, fd)
	}
	for range min(free, len(taken)) {
		unix.Close(taken[len(taken)-1])
		taken = taken[:len(taken)-1]
	}
	return func() {
		for _, fd := range taken {
			unix.Close(fd)
		}
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
			t.Error(err)
		}
	}
}

// Whoever starts belljar, a command sees the same modes.
func TestUmask(t *testing.T) {
	for _, runtime := range runtimes(t) {
		for _, root := range []bool{false, true} {
			spec := specOf(t)
			if root {
				spec.User, spec.Root, spec.Limits.Disk = rootUser, true, 8<<20
			}
			engine := open(t, runtime)
			before := unix.Umask(0o077)
			box, err := engine.Create(t.Context(), spec)
			unix.Umask(before)
			if err != nil {
				t.Fatal(err)
			}
			out, status := run(t, box, nobody, "cd /work && umask && stat -c %a / /etc /etc/hosts /sys/fs/cgroup && cat /etc/hosts /sys/fs/cgroup/pids*/pids.max >/dev/null")
			if want := "0022\n755\n755\n644\n755\n"; out != want || status != 0 {
				t.Errorf("%s, root %t: %q, want %q", runtime, root, out, want)
			}
			if err := box.Remove(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
}

// An engine that was closed too early holds up no one who removes a container, and nothing is left.
func TestRemoveAfterClose(t *testing.T) {
	each(t, func(t *testing.T, runtime string) {
		dir := t.TempDir()
		disk, _ := base(t)
		engine, err := oci.Open(oci.Config{Dir: dir, Runtime: runtime, Init: initProgram(t), Roots: disk})
		if err != nil {
			t.Fatal(err)
		}
		box, err := engine.Create(t.Context(), specOf(t))
		if err != nil {
			t.Fatal(err)
		}
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
		if err := box.Remove(t.Context()); err != nil {
			t.Error(err)
		}
		wantNothing(t, dir, box.Info().ID)
	})
}

// What could not be removed is removed by a later sweep of the same process.
func TestFailedRemoveIsTriedAgain(t *testing.T) {
	each(t, func(t *testing.T, runtime string) {
		dir := t.TempDir()
		engine := openIn(t, oci.Config{Dir: dir, Runtime: runtime})
		box, err := engine.Create(t.Context(), specOf(t))
		if err != nil {
			t.Fatal(err)
		}
		id := box.Info().ID
		groups, err := filepath.Glob("/sys/fs/cgroup/*/belljar-*-" + id)
		if v2, _ := filepath.Glob("/sys/fs/cgroup/belljar-*-" + id); len(v2) > 0 {
			groups = v2
		}
		if err != nil || len(groups) == 0 {
			t.Fatalf("%q, error %v", groups, err)
		}
		runtimePID, _ := oci.Parts(box)
		pin := func() error { return unix.Mount(groups[0], groups[0], "", unix.MS_BIND, "") } // no mount point is removed
		if err := inMountsOf(runtimePID, pin); err != nil {
			t.Fatal(err)
		}
		if err := pin(); err != nil {
			t.Fatal(err)
		}
		defer unix.Unmount(groups[0], unix.MNT_DETACH)
		if err := box.Remove(t.Context()); err == nil {
			t.Error("it was removed: this tests nothing")
		}
		if err := unix.Unmount(groups[0], 0); err != nil {
			t.Fatal(err)
		}
		if n, err := engine.Sweep(t.Context()); n != 1 || err != nil {
			t.Errorf("%d were swept, error %v", n, err)
		}
		wantNothing(t, dir, id)
	})
}

// inMountsOf does something in the mount namespace of a process: each namespace has mount points of its own.
func inMountsOf(pid int, do func() error) error {
	done := make(chan error)
	go oci.OnSpareThread(func() {
		namespace, err := os.Open(fmt.Sprintf("/proc/%d/ns/mnt", pid))
		if err != nil {
			done <- err
			return
		}
		defer namespace.Close()
		if err = unix.Unshare(unix.CLONE_FS); err == nil {
			err = unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNS)
		}
		if err == nil {
			err = do()
		}
		done <- err
	})
	return <-done
}

// An image's volume is masked where its links lead.
func TestVolumesThroughLinks(t *testing.T) {
	root := t.TempDir()
	for name, to := range map[string]string{"data": "/proc", "var": "../../dev", "loop": "loop", "all": "/", "run": "srv"} {
		if err := os.Symlink(to, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	for volume, refused := range map[string]bool{"/data": true, "/data/x": true, "/var/shm": true, "/loop/x": true, "/all": true, "/run/x": false, "/opt": false, "/proc": true} {
		spec := sandbox.Spec{Image: sandbox.Image{Volumes: []string{volume}}}
		if err := oci.CheckImage(root, spec); (err != nil) != refused || err != nil && sandbox.CauseOf(err) != sandbox.CauseImage {
			t.Errorf("%s: %v", volume, err)
		}
	}
}
