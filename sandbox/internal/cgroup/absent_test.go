package cgroup

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"testing"
)

// On a host without a freezer the name of its file alone was opened, and written to: a file of the working directory, or
// where a link there leads.
func TestAbsentGroupsAreNoFilesOfTheWorkingDirectory(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	files := map[string]string{
		"freezer.state": "FROZEN\n", "cgroup.freeze": "1\n", "cgroup.events": "frozen 1\n", "cgroup.kill": "0\n", "cgroup.procs": "1\n",
		"pids.current": "7\n", "pids.max": "7\n", "pids.events": "max 7\n", "memory.oom_control": "oom_kill 7\n", "memory.events": "oom_kill 7\n",
		"memory.max_usage_in_bytes": "7\n", "cpuacct.usage": "7000000000\n", "io.stat": "1:0 rbytes=7\n", "blkio.throttle.io_service_bytes": "Total 7\n",
		"cgroup.event_control": "kept\n", "elsewhere": "FROZEN\n",
	}
	for name, text := range files {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove("freezer.state"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("elsewhere", "freezer.state"); err != nil {
		t.Fatal(err)
	}
	for name, g := range map[string]*Group{"none": {}, "of a namespace": {Instead: "none"}, "no freezer": {Memory: dir + "/gone", Pids: dir + "/gone"}} {
		g.Thaw()
		g.Kill()
		err := g.WhileFreezing(context.Background(), func(bool) bool { return true })
		if !errors.Is(err, ErrNotFrozen) || g.Frozen() || g.marked() {
			t.Errorf("%s: frozen: %t, marked: %t, error %v", name, g.Frozen(), g.marked(), err)
		}
		if pids, err := g.Processes(); len(pids) > 0 || err != nil || g.Tasks() != 0 || g.Full() || g.Counts() != (Counts{}) || g.DiskBytes() != 0 {
			t.Errorf("%s: processes %v, error %v, %d tasks, full: %t, %+v, %d bytes", name, pids, err, g.Tasks(), g.Full(), g.Counts(), g.DiskBytes())
		}
		if events, err := g.OOMEvents(); err == nil {
			t.Errorf("%s: its memory is watched", name)
			events.Close()
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if text, err := os.ReadFile(name); err != nil || string(text) != files[name] {
			t.Errorf("%s is %q, error %v", name, text, err)
		}
	}
}
