package cgroup

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A group that a killed belljar froze is thawed by the next one that lists it; one that somebody paused stays so.
func TestWhoWasKilledWhileFreezingLeavesNothingFrozen(t *testing.T) {
	name := fmt.Sprintf("belljar-test-freeze-%d", os.Getpid())
	dirs, err := Make(name)
	if err != nil {
		t.Skipf("NO CONTROL GROUPS: %v", err)
	}
	child := exec.Command("sleep", "1000")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := Remove(name); err != nil {
			t.Error(err)
		}
		child.Wait()
	})
	for _, dir := range dirs {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), fmt.Append(nil, child.Process.Pid), 0); err != nil {
			t.Fatal(err)
		}
	}
	g, err := Own(name)
	if err != nil || g == nil {
		t.Fatal(g, err)
	}
	file, err := os.OpenFile(g.FreezerFile(), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	until := func(frozen bool) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); g.Frozen() != frozen; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("frozen: %t", g.Frozen())
			}
		}
	}
	list := func() {
		t.Helper()
		listed := false
		if err := g.WhileFreezing(t.Context(), func(frozen bool) bool { listed = frozen; return frozen }); err != nil || !listed {
			t.Fatalf("listed: %t, error %v", listed, err)
		}
	}
	list()
	until(false)
	if err := g.Freeze(file, true); err != nil {
		t.Fatal(err)
	}
	until(true)
	list()
	if !g.Frozen() {
		t.Error("what somebody paused is thawed")
	}
	if err := unix.Setxattr(filepath.Dir(g.FreezerFile()), mark, []byte{1}, 0); err != nil { // as who is killed now leaves it
		t.Fatal(err)
	}
	list()
	until(false)
	if g.marked() {
		t.Error("the mark stays")
	}
}
