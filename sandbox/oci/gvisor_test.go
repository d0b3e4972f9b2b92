//go:build gvisor

package oci_test

import (
	"bufio"
	"context"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/oci"
)

// onGVisor calls test with gVisor's runtime, where it is given.
func onGVisor(t *testing.T, test func(t *testing.T, runtime string)) {
	if path := os.Getenv(runscEnv); path != "" {
		test(t, path)
	}
}

// The processes of a sentry are not this host's. What the host counts is the sentry's own.
func TestGVisorEvidence(t *testing.T) {
	onGVisor(t, func(t *testing.T, runtime string) {
		t.Parallel()
		engine := open(t, runtime)
		for name, test := range map[string]struct {
			script string
			status int
			cause  sandbox.Cause // of the error
			is     func(c sandbox.Counters) bool
		}{
			"nothing":       {"exit 3", 3, "", func(c sandbox.Counters) bool { return c.OOMKills == 0 && c.PidsLimitHits == 0 && c.MaxMemoryBytes > 0 }},
			"out of memory": {"tail /dev/zero", 137, "", func(c sandbox.Counters) bool { return c.OOMKills > 0 }},
			"processes":     {"i=0; while [ $i -lt 300 ]; do sleep 100 & i=$((i+1)); done 2>/dev/null; wait", 0, sandbox.CausePidsLimit, func(c sandbox.Counters) bool { return c.PidsLimitHits > 0 }},
		} {
			c := enter(t, engine, specOf(t))
			p, err := c.box.Exec(t.Context(), sandbox.Exec{Script: test.script, Dir: "/work", User: c.user, Stdout: io.Discard, Stderr: io.Discard})
			if err != nil {
				t.Fatal(err)
			}
			if status, err := p.Wait(t.Context()); status != test.status || test.cause != "" && sandbox.CauseOf(err) != test.cause || test.cause == "" && err != nil {
				t.Errorf("%s: status %d, error %v", name, status, err)
			}
			counters, err := c.box.Counters(t.Context())
			if err != nil || !test.is(counters) || counters.Source != "cgroup" {
				t.Errorf("%s: %+v, error %v", name, counters, err)
			}
		}
	})
}

// Whatever part is killed, that is told, and nothing is left.
func TestGVisorKilledPart(t *testing.T) {
	onGVisor(t, func(t *testing.T, runtime string) {
		t.Parallel()
		for _, part := range []string{"runtime", "sentry"} {
			dir := t.TempDir()
			engine := openIn(t, oci.Config{Dir: dir, Runtime: runtime})
			c := enter(t, engine, specOf(t))
			out, in := io.Pipe()
			p, err := c.box.Exec(t.Context(), sandbox.Exec{Script: stubborn, Dir: "/work", User: c.user, Stdout: in, Stderr: io.Discard})
			if err != nil {
				t.Fatal(err)
			}
			bufio.NewReader(out).ReadString('\n')
			go io.Copy(io.Discard, out)
			parent, first := oci.Parts(c.box)
			process, _ := os.FindProcess(map[string]int{"runtime": parent, "sentry": first}[part])
			process.Kill()
			select {
			case <-c.box.Lost():
			case <-time.After(time.Minute):
				t.Errorf("%s: never told", part)
			}
			if status, err := p.Wait(t.Context()); err == nil && status != 137 || err != nil && sandbox.CauseOf(err) != sandbox.CauseEngineLost {
				t.Errorf("%s: status %d, error %v", part, status, err)
			}
			if counters, err := c.box.Counters(t.Context()); err != nil || counters.KilledBy != "outside" {
				t.Errorf("%s: %+v, error %v", part, counters, err)
			}
			if err := c.box.Remove(t.Context()); err != nil {
				t.Errorf("%s: %v", part, err)
			}
			in.Close()
			wantNothing(t, dir, c.box.Info().ID)
		}
	})
}

// Without belljar a container ends: at once, or a session at its deadline. Its empty control group is left
// to the next belljar: this runtime does not remove what it did not make.
func TestGVisorEndsAlone(t *testing.T) {
	onGVisor(t, func(t *testing.T, runtime string) {
		t.Parallel()
		dir := t.TempDir()
		for _, env := range [][]string{nil, {makerEnv + "_SESSION=own", makerEnv + "_OWN=1"}} {
			m := startMaker(t, runtime, dir, env...)
			id := m.says(t, "made ")
			m.kill()
			wantSwept(t, runtime, dir, id)
		}
		engine := openIn(t, oci.Config{Dir: dir, Runtime: runtime})
		spec := specOf(t)
		spec.Session, spec.Deadline = "short", time.Now().Add(5*time.Second)
		box, err := engine.Create(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		if err := box.Close(); err != nil {
			t.Error(err)
		}
		wantSwept(t, runtime, dir, box.Info().ID)
	})
}

// wantSwept waits until nothing of a container runs, sweeps, and wants nothing.
func wantSwept(t *testing.T, runtime, dir, id string) {
	t.Helper()
	for range 1000 {
		if oci.Runs(id) == 0 {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if n := oci.Runs(id); n > 0 {
		t.Errorf("%d processes of container %s run on", n, id)
	}
	engine := openIn(t, oci.Config{Dir: dir, Runtime: runtime})
	for range 100 { // an init knows its deadline in whole seconds
		if _, err := engine.Sweep(t.Context()); err != nil {
			t.Error(err)
		}
		if len(traces(t, dir, id)) == 0 {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	wantNothing(t, dir, id)
}

// As many processes use a session at once as there are channels; one more is told so, and a
// client that leaves, or is killed, makes room.
func TestGVisorChannels(t *testing.T) {
	onGVisor(t, func(t *testing.T, runtime string) {
		t.Parallel()
		dir := t.TempDir()
		engine := openIn(t, oci.Config{Dir: dir, Runtime: runtime})
		spec := specOf(t)
		spec.Session = "crowd"
		first := enter(t, engine, spec)
		list, err := engine.Sessions(t.Context(), "crowd")
		if err != nil || len(list) != 1 {
			t.Fatalf("%+v, error %v", list, err)
		}
		var all []sandbox.Container
		for {
			box, err := engine.Adopt(t.Context(), list[0])
			if err != nil {
				if sandbox.CauseOf(err) != sandbox.CauseEngine || !strings.Contains(err.Error(), "8 belljar processes use the session") || strings.Contains(err.Error(), "session rm") {
					t.Error(err)
				}
				break
			}
			all = append(all, box)
			(inside{box, spec.User}).wants(t, check{"echo hello", "hello"})
		}
		if len(all) != 8 {
			t.Errorf("%d clients", len(all))
		}
		// One that leaves while its command writes does not hold the command up.
		p, err := all[3].Exec(t.Context(), sandbox.Exec{Script: "head -c 4000000 /dev/zero; touch /work/through", Dir: "/work", User: spec.User, Stdout: slow{}, Stderr: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		for _, box := range all {
			if err := box.Close(); err != nil {
				t.Error(err)
			}
		}
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		p.Wait(canceled) // the last one that a closed handle waits for ends it
		first.wants(t, check{"while ! [ -e /work/through ]; do sleep 0.1; done; echo yes", "yes"})
		box, err := engine.Adopt(t.Context(), list[0])
		if err != nil {
			t.Fatal(err)
		}
		(inside{box, spec.User}).wants(t, check{"echo again", "again"})
		if err := box.Close(); err != nil {
			t.Error(err)
		}
	})
}

// slow is a reader of output that takes its time.
type slow struct{}

func (slow) Write(p []byte) (int, error) {
	time.Sleep(10 * time.Millisecond)
	return len(p), nil
}

// Root is root of the sentry, and no one outside.
func TestGVisorRoot(t *testing.T) {
	onGVisor(t, func(t *testing.T, runtime string) {
		t.Parallel()
		engine, dir := open(t, runtime), t.TempDir()
		chmod(t, dir, 0o777)
		box := rooted(t, engine, func(s *sandbox.Spec) {
			s.Mounts = []sandbox.Mount{{Source: dir, Target: "/out", Writable: true, Steady: true}}
		})
		if got := box.Info().Root; got != "gvisor" {
			t.Errorf("contained by %q", got)
		}
		for script, want := range map[string]string{
			"id -u; echo $HOME": "0\n/root\n",
			"mkdir /testbed && echo hi >/testbed/a && chown 5:6 /testbed && stat -c %u:%g /testbed && rm /etc/passwd && ls /etc":  "5:6\ngroup\nhostname\nhosts\nresolv.conf\n",
			"grep -E 'Cap(Prm|Eff|Bnd)' /proc/self/status | tr -s '\t' ' '":                                                       "CapPrm: 00000000800005fb\nCapEff: 00000000800005fb\nCapBnd: 00000000800005fb\n",
			"cp /bin/busybox /out/sh && chmod 6755 /out/sh && echo made; mknod /out/disk b 8 0 || echo no":                        "made\nmknod: /out/disk: Operation not permitted\nno\n",
			"dd if=/dev/zero of=/big bs=1M count=64 2>/dev/null; [ $(stat -c %s /big) -le 16777216 ] && echo bounded; rm -f /big": "bounded\n",
		} {
			if out, _ := run(t, box, rootUser, script); out != want {
				t.Errorf("%s: %q, want %q", script, out, want)
			}
		}
		if out, _ := run(t, box, nobody, "id -u; grep CapEff /proc/self/status; (echo x >/testbed/b) 2>/dev/null || echo no"); out != "65534\nCapEff:\t0000000000000000\nno\n" {
			t.Errorf("another user: %q", out)
		}
		if uid, mode := owner(t, dir+"/sh"); uid < 65536 || mode&0o7000 == 0 {
			t.Errorf("outside a setuid program belongs to %d, mode %o", uid, mode)
		}
		parent, first := oci.Parts(box)
		if uid := processUser(t, first); uid < 65536 || parent == 0 {
			t.Errorf("outside the sentry is user %d", uid)
		}
	})
}

// Root there can stop its init, and end it. The container is removed all the same, also where belljar is
// killed.
func TestGVisorRootAgainstInit(t *testing.T) {
	onGVisor(t, func(t *testing.T, runtime string) {
		t.Parallel()
		for signal, status := range map[string]int{"KILL": 0, "STOP": 137} {
			dir := t.TempDir()
			box := rooted(t, openIn(t, oci.Config{Dir: dir, Runtime: runtime}), nil)
			p, err := box.Exec(t.Context(), sandbox.Exec{Script: "kill -" + signal + " 1; sleep 1000", Dir: "/", User: rootUser, Stdout: io.Discard, Stderr: io.Discard})
			if err != nil {
				t.Fatal(err)
			}
			if signal == "KILL" {
				<-box.Lost()
			} else {
				waitStopped(t, box)
			}
			if err := box.Remove(t.Context()); err != nil {
				t.Error(err)
			}
			if got, err := p.Wait(t.Context()); signal == "STOP" && (got != status || err != nil) || signal == "KILL" && got != 137 && sandbox.CauseOf(err) != sandbox.CauseEngineLost {
				t.Errorf("%s: status %d, error %v", signal, got, err)
			}
			wantNothing(t, dir, box.Info().ID)
		}
		dir := t.TempDir()
		m := startMaker(t, runtime, dir, makerEnv+"_ROOT=1")
		id := m.says(t, "made ")
		m.kill()
		wantNothing(t, dir, id)
	})
}

// waitStopped waits until a container's init does not answer.
func waitStopped(t *testing.T, box sandbox.Container) {
	t.Helper()
	for range 100 {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		answers := box.(interface{ Answers(context.Context) bool }).Answers(ctx)
		cancel()
		if !answers {
			return
		}
	}
	t.Error("the init answers")
}
