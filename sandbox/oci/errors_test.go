package oci_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"belljar/sandbox/oci"
)

// A runtime that failed was told in two lines, and one that said nothing as "EOF".
func TestFailedRuntimeIsTold(t *testing.T) {
	runtimes(t) // or it is skipped
	for script, want := range map[string]string{
		"echo sleep: unrecognized option >&2; exit 3": "starting the container: crun ended with exit status 3: sleep: unrecognized option (see: belljar doctor)",
		"exit 3":                "starting the container: crun ended with exit status 3: it said nothing (see: belljar doctor)",
		"exit 0":                "starting the container: crun ended with exit status 0: it said nothing (see: belljar doctor)",
		"kill -9 $$":            "starting the container: crun was killed: it said nothing (see: belljar doctor)",
		"exec >&- 3>&-; exit 4": "starting the container: crun ended with exit status 4: it said nothing (see: belljar doctor)",
		"printf 'a\\nb\\n'; exec 3>&-; sleep .2; exit 1": "starting the container: crun ended with exit status 1: a b (see: belljar doctor)",
	} {
		dir := t.TempDir()
		runtime := filepath.Join(t.TempDir(), "crun")
		if err := os.WriteFile(runtime, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		engine := openIn(t, oci.Config{Dir: dir, Runtime: runtime})
		for _, session := range []string{"", "kept"} {
			spec := specOf(t)
			spec.Session = session
			if _, err := engine.Create(t.Context(), spec); err == nil || err.Error() != want {
				t.Errorf("%s, session %q: %v", script, session, err)
			}
			wantNothing(t, dir)
		}
	}
}

// Whatever runtime was named, the advice was to install crun.
func TestMissingRuntimeIsToldByItsName(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for name, want := range map[string]string{
		"":           "this host has no OCI runtime: neither crun nor runc (install it: apt-get install -y crun)",
		"runc":       `this host has no OCI runtime "runc" (install it: apt-get install -y runc)`,
		"runsc":      `this host has no OCI runtime "runsc" (install runsc, or set engine.runtime to the path of an OCI runtime)`,
		"/opt/crun9": `this host has no OCI runtime "/opt/crun9" (set engine.runtime to the path of an OCI runtime, or to crun or runc)`,
	} {
		if _, err := oci.Open(oci.Config{Dir: t.TempDir(), Runtime: name}); err == nil || err.Error() != want {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// ps said that a container of another engine is 292 years old.
func TestForeignContainerHasAnAge(t *testing.T) {
	each(t, func(t *testing.T, runtime string) {
		begin := time.Now().Add(-time.Second)
		box := create(t, open(t, runtime), specOf(t))
		list, err := open(t, runtime).List(t.Context())
		found := false
		for _, c := range list {
			if c.ID == box.Info().ID {
				found = c.Foreign && c.Created.After(begin) && !c.Created.After(time.Now())
			}
		}
		if err != nil || !found {
			t.Errorf("%+v, error %v", list, err)
		}
	})
}

// An error of several parts is one line.
func TestJoinedErrorsAreOneLine(t *testing.T) {
	if text := oci.Joined().Error(); strings.Contains(text, "\n") || text != "first; second (hint)" {
		t.Errorf("%q", text)
	}
}

// What the kernel says where it takes no more control groups is no full disk, and no lack of processes.
func TestFullControlGroupsAreTold(t *testing.T) {
	for errno, want := range map[syscall.Errno]string{syscall.ENOSPC: "no more control groups", syscall.EAGAIN: "cgroup.max.descendants", syscall.EROFS: "remount,rw", syscall.EIO: "belljar doctor"} {
		err := fmt.Errorf("making a control group: %w", &os.PathError{Op: "mkdir", Path: "/sys/fs/cgroup/x", Err: errno})
		if hint := oci.GroupHint(err); !strings.Contains(hint, want) {
			t.Errorf("%v: %q", errno, hint)
		}
	}
}
