package cgroup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// However many groups a process watches, it has one inotify instance, and none once it watches nothing; each is told of
// its own, also where two watch the same one, or a group has gone.
func TestOneInstanceWatchesAllGroups(t *testing.T) {
	instances := func() (n int) {
		files, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if to, _ := os.Readlink("/proc/self/fd/" + f.Name()); strings.HasSuffix(to, ":inotify") || to == "anon_inode:inotify" {
				n++
			}
		}
		return n
	}
	before := instances()
	group := func() *Group {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "memory.events"), []byte("oom_kill 0\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return &Group{V2: dir, Memory: dir}
	}
	watch := func(g *Group) *OOMEvents {
		e, err := g.OOMEvents()
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	groups, all := []*Group{}, []*OOMEvents{}
	for range 200 { // more than the kernel's 128 instances
		g := group()
		groups, all = append(groups, g), append(all, watch(g))
	}
	again := watch(groups[7])
	if n := instances() - before; n != 1 {
		t.Errorf("%d instances", n)
	}
	if _, err := (&Group{V2: "/nowhere", Memory: "/nowhere"}).OOMEvents(); err == nil {
		t.Error("a group that is not there is watched")
	}
	change := func(g *Group) {
		if err := os.WriteFile(filepath.Join(g.Memory, "memory.events"), []byte("oom_kill 1\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	change(groups[7])
	for _, e := range []*OOMEvents{all[7], again} {
		if err := e.Wait(); err != nil || e.Signals() != 0 {
			t.Errorf("%v, %d signals", err, e.Signals())
		}
	}
	again.Stop()
	again.Close()
	os.RemoveAll(groups[8].Memory)
	if err := all[8].Wait(); err != nil { // its end is told, too
		t.Error(err)
	}
	change(groups[9])
	if err := all[9].Wait(); err != nil {
		t.Error(err)
	}
	for _, e := range all {
		e.Stop()
		for range 2 { // what was told before may come first
			if err := e.Wait(); err != nil {
				break
			}
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	if n := instances() - before; n != 0 {
		t.Errorf("%d instances are left", n)
	}
}
