package oci

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"belljar/sandbox"
	"belljar/sandbox/internal/proc"

	"golang.org/x/sys/unix"
)

// Without room for one more open file no container is taken for gone: it may run.
func TestUnreadableContainersAreNotGone(t *testing.T) {
	me, err := processOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	e := &Engine{dir: "/nowhere", owner: proc.ThisProcess()}
	b := newBox(e, "id", "name", record{First: me, Parent: me})
	left := found{noted: true, host: e.owner.Host, process: e.owner.Process, record: b.record}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	none := unix.Rlimit{Cur: 0, Max: limit.Max}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	ended, orphaned, dead := b.record.ended(), e.orphaned(left), left.dead()
	_, sessions := e.Sessions(t.Context(), "")
	_, adopt := e.Adopt(t.Context(), sandbox.Kept{ID: "id", Session: "s"})
	_, sweep := e.Sweep(t.Context())
	gone, removed := e.isGone("id"), e.removeGroup("belljar-none")
	lost := b.Lost()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if ended || orphaned || dead || gone {
		t.Errorf("ended: %t, orphaned: %t, dead: %t, gone: %t", ended, orphaned, dead, gone)
	}
	if sessions == nil || sweep == nil || removed == nil {
		t.Errorf("errors: %v of Sessions, %v of Sweep, %v of removing", sessions, sweep, removed)
	}
	if adopt == nil || sandbox.CauseOf(adopt) == sandbox.CauseEngineLost {
		t.Errorf("Adopt: %v", adopt)
	}
	select {
	case <-lost:
		t.Error("a container that runs is lost")
	default:
	}
	if one := (process{PID: me.PID, StartTicks: me.StartTicks - 1}); !one.ended() || !(process{}).ended() || me.ended() {
		t.Error("another process's PID, none, and this one's")
	}
}

// A container without a control group has the processes of its PID namespace, which has a number. Once its init has
// ended, that may be another's.
func TestNumberOfAnEndedNamespaceIsNoOnes(t *testing.T) {
	me, err := processOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	number, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		t.Fatal(err)
	}
	for name, first := range map[string]process{"runs": me, "ended": {PID: me.PID, StartTicks: me.StartTicks - 1}} {
		u := &rootless{notes: t.TempDir()}
		text, err := json.Marshal(record{First: first, unprivileged: unprivileged{Limits: bestEffort, PIDs: number}})
		if err != nil {
			t.Fatal(err)
		}
		if err := u.note("belljar-x", text); err != nil {
			t.Fatal(err)
		}
		f := found{name: "belljar-x"}
		if err := u.read(&f); err != nil || !f.noted {
			t.Fatal(f, err)
		}
		if list, err := f.group.Processes(); err != nil || (len(list) > 0) != (name == "runs") {
			t.Errorf("%s: %d processes, error %v", name, len(list), err)
		}
	}
}

// A record that is longer than what the kernel writes at once is whole, or not there.
func TestLongRecordIsNotTorn(t *testing.T) {
	u := &rootless{notes: t.TempDir()}
	for _, name := range []string{"short", strings.Repeat("long", 4096), "short again"} {
		text, err := json.Marshal(record{Command: name, unprivileged: unprivileged{Limits: bestEffort, Group: "/a/belljar-x"}})
		if err != nil {
			t.Fatal(err)
		}
		if err := u.note("belljar-x", text); err != nil {
			t.Fatal(err)
		}
		names, err := u.names()
		f := found{name: "belljar-x"}
		if failed := u.read(&f); failed != nil || err != nil || len(names) != 1 || f.record.Command != name || f.name != "/a/belljar-x" {
			t.Errorf("%+v, %v, errors %v, %v", f, names, failed, err)
		}
	}
	fresh := freshOf(u.noteOf("belljar-x"))
	if err := os.WriteFile(fresh, []byte("{torn"), 0o600); err != nil { // by who was killed
		t.Fatal(err)
	}
	if names, err := u.names(); err != nil || len(names) != 1 {
		t.Errorf("%v, error %v", names, err)
	}
	if err := (&Engine{user: u}).removeGroup("belljar-x"); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(u.notes, "*")); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

func TestShmHasAsManyFilesAsItHasRoom(t *testing.T) {
	for _, m := range mounts(sandbox.Spec{Limits: sandbox.Limits{Tmp: 8 << 20}}) {
		if m.Destination == "/dev/shm" && !strings.Contains(strings.Join(m.Options, ","), "size=8388608,nr_inodes=2048") {
			t.Errorf("%v", m.Options)
		}
	}
}
