package proc

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"belljar/sandbox/internal/cgroup"
)

// first is the first process of a container with little memory, and its counter, which does not watch yet.
type first struct {
	*exec.Cmd
	counter Counter
	name    string
	goes    io.Writer // a line begins
}

func newFirst(t *testing.T, script string) *first {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("NOT ROOT: NO CONTROL GROUP, NOT TESTED")
	}
	f := &first{name: fmt.Sprintf("belljar-test-%d-%d", os.Getpid(), time.Now().UnixNano()), Cmd: exec.Command("sh", "-c", "read -r _; "+script)}
	dirs, err := cgroup.Make(f.name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cgroup.Remove(f.name); err != nil {
			t.Error(err)
		}
	})
	if err := cgroup.Limit(dirs, cgroup.Limits{Memory: 16 << 20, Pids: 20, CPUs: 1}); err != nil {
		t.Fatal(err)
	}
	if f.goes, err = f.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := f.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		f.Process.Kill()
		f.Wait()
	})
	for _, dir := range dirs {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(f.Process.Pid)), 0); err != nil {
			t.Fatal(err)
		}
	}
	if f.counter.Group, err = cgroup.Own(f.name); err != nil {
		t.Fatal(err)
	}
	f.counter.First = f.Process.Pid
	return f
}

// begin has the script run.
func (f *first) begin() { io.WriteString(f.goes, "\n") }

// awaitKill waits until memory ran out once.
func (f *first) awaitKill(t *testing.T) {
	t.Helper()
	for range 1000 {
		if n, _ := f.counter.Group.OOMKills(); n > 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("memory does not run out")
}

// awaitOutlived waits until it is known that the first process outlived that.
func (f *first) awaitOutlived(t *testing.T) {
	t.Helper()
	f.awaitKill(t)
	for range 30_000 {
		f.counter.mu.Lock()
		n := f.counter.kills
		f.counter.mu.Unlock()
		if n > 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("that it runs on is not noticed")
}

// anyNumber of kills are counted where the group may go before anyone reads its counts.
const anyNumber = -1

// Who was killed because memory ran out is told from who was killed by somebody right after others were, also where the
// control group goes before its counts are read.
func TestEndedByMemory(t *testing.T) {
	const child, itself = "tail /dev/zero; sleep 1000", "exec tail /dev/zero"
	for name, test := range map[string]struct {
		script string
		end    func(t *testing.T, f *first)
		want   bool
		kills  int
	}{
		"by memory": {itself, func(t *testing.T, f *first) { f.awaitKill(t) }, true, 1},
		"killed":    {"sleep 1000", func(_ *testing.T, f *first) { f.Process.Kill() }, false, 0},
		"killed right after a child was for memory": {child, func(t *testing.T, f *first) {
			f.awaitOutlived(t)
			f.Process.Kill()
		}, false, 1},
		"killed the moment a child was for memory": {"tail /dev/zero; read -r _", func(t *testing.T, f *first) {
			f.awaitKill(t)
			f.Process.Kill()
		}, false, anyNumber},
		"by memory, after a child": {"tail /dev/zero; read -r _; exec tail /dev/zero", func(t *testing.T, f *first) {
			f.awaitOutlived(t)
			f.begin()
		}, true, 2},
	} {
		for _, gone := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, group gone: %v", name, gone), func(t *testing.T) {
				t.Parallel()
				f := newFirst(t, test.script)
				stop := f.counter.Watch()
				defer stop()
				f.begin()
				test.end(t, f)
				f.Wait()
				if gone {
					if err := cgroup.Remove(f.name); err != nil {
						t.Fatal(err)
					}
				}
				if got := f.counter.EndedByMemory(); got != test.want {
					t.Errorf("ended by memory: %v", got)
				}
				if n := f.counter.Count().OOMKills; n != test.kills && test.kills != anyNumber {
					t.Errorf("%d kills, want %d", n, test.kills)
				}
			})
		}
	}
}

// As when the process that watches is not scheduled until all is over.
func TestEndedByMemoryUnwatched(t *testing.T) {
	for name, test := range map[string]struct {
		script string
		want   bool
	}{
		"by memory": {"exec tail /dev/zero", true},
		"killed":    {"kill -9 $$", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFirst(t, test.script)
			events, err := f.counter.Group.OOMEvents()
			if err != nil {
				t.Skipf("NO OOM EVENTS, NOT TESTED: %v", err)
			}
			defer events.Close()
			f.counter.events = events
			f.begin()
			f.Wait()
			if err := cgroup.Remove(f.name); err != nil {
				t.Fatal(err)
			}
			if got := f.counter.EndedByMemory(); got != test.want {
				t.Errorf("ended by memory: %v", got)
			}
			if n := f.counter.Count().OOMKills; (n > 0) != test.want {
				t.Errorf("%d kills", n)
			}
		})
	}
}
