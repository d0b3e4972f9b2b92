package oci

import (
	"os"
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
