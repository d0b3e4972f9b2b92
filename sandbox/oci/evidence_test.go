package oci_test

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/oci"
)

// What the kernel counted is there after the end of everything.
func TestEvidence(t *testing.T) {
	each(t, func(t *testing.T, runtime string) {
		engine := open(t, runtime)
		count := func(script string, status int) sandbox.Counters {
			c := enter(t, engine, specOf(t))
			if text, got := c.run(t, script); got != status {
				t.Errorf("%s: status %d: %s", script, got, text)
			}
			before, err := c.box.Counters(t.Context())
			if err != nil {
				t.Error(err)
			}
			if err := c.box.Remove(t.Context()); err != nil {
				t.Error(err)
			}
			after, err := c.box.Counters(t.Context())
			if err != nil || after.OOMKills < before.OOMKills || after.CPUSeconds < before.CPUSeconds || after.KilledBy != "" || after.Source != "cgroup" {
				t.Errorf("before %+v, after Remove %+v, error %v", before, after, err)
			}
			after.DiskFull = before.DiskFull
			return after
		}
		if c := count("tail /dev/zero", 137); c.OOMKills == 0 || c.MaxMemoryBytes < 32<<20 {
			t.Errorf("out of memory: %+v", c)
		}
		if c := count("i=0; while [ $i -lt 60 ]; do sleep 100 & i=$((i+1)); done 2>/dev/null", 2); c.PidsLimitHits == 0 {
			t.Errorf("too many processes: %+v", c)
		}
		if c := count("dd if=/dev/zero of=/tmp/x bs=1M 2>/dev/null; exit 4", 4); !slices.Equal(c.DiskFull, []string{"/tmp"}) {
			t.Errorf("disk full: %+v", c)
		}
		if c := count("exit 0", 0); c.OOMKills != 0 || c.PidsLimitHits != 0 || len(c.DiskFull) != 0 || c.CPUSeconds == 0 || c.MaxMemoryBytes == 0 {
			t.Errorf("nothing: %+v", c)
		}
	})
}

// Files in memory are charged to the container, and no kill makes room for them: the init may be killed, too. The
// evidence is there all the same.
func TestMemoryOfFiles(t *testing.T) {
	eachWithGVisor(t, func(t *testing.T, runtime string) {
		for range 5 {
			spec := specOf(t)
			spec.Limits.Memory, spec.Limits.Tmp = 32<<20, 64<<20
			c := enter(t, open(t, runtime), spec)
			status := -1
			p, lost := c.box.Exec(t.Context(), sandbox.Exec{Script: "dd if=/dev/zero of=/tmp/f bs=64k", Dir: "/work", User: spec.User, Stdout: io.Discard, Stderr: io.Discard})
			if lost == nil {
				status, lost = p.Wait(t.Context())
			}
			counters, err := c.box.Counters(t.Context())
			if status == 0 || err != nil || counters.OOMKills == 0 || lost != nil && sandbox.CauseOf(lost) != sandbox.CauseEngineLost { // it may be killed before it says that the command started
				t.Errorf("status %d, error %v, %+v, error %v", status, lost, counters, err)
			}
		}
	})
}

// A command that does all it can to stay ends, and what it did to others is nothing.
func TestForkBomb(t *testing.T) {
	eachWithGVisor(t, func(t *testing.T, runtime string) {
		dir := t.TempDir()
		engine := openIn(t, oci.Config{Dir: dir, Runtime: runtime})
		box, err := engine.Create(t.Context(), specOf(t))
		if err != nil {
			t.Fatal(err)
		}
		p, err := box.Exec(t.Context(), sandbox.Exec{Script: "b() { b | b & }; trap '' TERM; b; sleep 100", Dir: "/work", User: specOf(t).User, Stdout: io.Discard, Stderr: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		for {
			c, err := box.Counters(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if c.PidsLimitHits > 0 {
				break
			}
		}
		if err := box.Remove(t.Context()); err != nil {
			t.Error(err)
		}
		if status, err := p.Wait(t.Context()); status == 0 || err != nil {
			t.Errorf("status %d, error %v", status, err)
		}
		wantNothing(t, dir, box.Info().ID)
	})
}

// A process that loads one program after another is listed with its arguments each time. Once a bug: in between the
// kernel has none to tell.
func TestLoadingIsListed(t *testing.T) {
	eachWithGVisor(t, func(t *testing.T, runtime string) {
		box, err := open(t, runtime).Create(t.Context(), specOf(t))
		if err != nil {
			t.Fatal(err)
		}
		const again = `exec sh -c "$0" "$0"`
		p, err := box.Exec(t.Context(), sandbox.Exec{Script: "exec sh -c '" + again + "' '" + again + "'", Dir: "/work", User: specOf(t).User, Stdout: io.Discard, Stderr: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		for range 300 {
			list, err := box.Processes(t.Context())
			if err != nil || len(list) != 1 || !strings.HasPrefix(list[0].Command, "sh -c ") && !strings.HasPrefix(list[0].Command, "/bin/sh -c ") {
				t.Fatalf("%+v, error %v", list, err)
			}
		}
		if err := box.Remove(t.Context()); err != nil {
			t.Error(err)
		}
		p.Wait(t.Context())
	})
}

// Where somebody removes belljar's directory, the runtime does not find its state: what it leaves is swept from
// any other directory.
func TestDirectoryIsRemoved(t *testing.T) {
	each(t, func(t *testing.T, runtime string) {
		dir := t.TempDir()
		m := startMaker(t, runtime, dir, makerEnv+"_SESSION=kept")
		id := m.says(t, "made ")
		m.kill()
		if err := os.Remove(filepath.Join(dir, "oci")); err != nil {
			t.Fatal(err)
		}
		other := open(t, runtime)
		if _, err := other.Sweep(t.Context()); err != nil { // it runs, and is left alone
			t.Error(err)
		}
		pid, init := parts(t, id)
		for _, part := range []int{init, pid} {
			process, _ := os.FindProcess(part)
			process.Kill()
		}
		for range 6000 {
			if _, err := other.Sweep(t.Context()); err != nil {
				t.Error(err)
			}
			os.RemoveAll(filepath.Join(dir, "oci")) // crun may make its state directory again
			if len(traces(t, dir, id)) == 0 {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		wantNothing(t, dir, id)
	})
}

// Who kills a container's init right after memory ran out for a command, or before, is not the kernel.
func TestKilledAfterOutOfMemory(t *testing.T) {
	each(t, func(t *testing.T, runtime string) {
		engine := open(t, runtime)
		for range 5 {
			c := enter(t, engine, specOf(t))
			if _, status := c.run(t, "(tail /dev/zero); exit 3"); status != 3 {
				t.Errorf("status %d", status)
			}
			p, err := c.box.Exec(t.Context(), sandbox.Exec{Script: "sleep 1000", Dir: "/work", User: c.user, Stdout: io.Discard, Stderr: io.Discard})
			if err != nil {
				t.Fatal(err)
			}
			_, init := parts(t, c.box.Info().ID)
			process, _ := os.FindProcess(init)
			process.Kill()
			status, err := p.Wait(t.Context())
			counters, failed := c.box.Counters(t.Context())
			if status != 137 || err != nil || failed != nil || counters.KilledBy != "outside" || !counters.Stopped || counters.OOMKills != 1 {
				t.Errorf("status %d, error %v; %+v, error %v", status, err, counters, failed)
			}
		}
	})
}
