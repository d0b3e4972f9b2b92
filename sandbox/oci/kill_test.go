package oci_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/oci"

	"golang.org/x/sys/unix"
)

// stubborn leaves processes that ignore all that can be ignored, in sessions of their own, and
// attacks the init.
const stubborn = `trap "" TERM HUP INT; for i in 1 2 3; do (trap "" HUP TERM; setsid sleep 1000 </dev/null >/dev/null 2>&1 &); done
kill -9 1; kill -STOP 1; kill -TERM 1; echo ready; sleep 1000`

// makerEnv has TestMake, in a process that is killed, make a container: its runtime.
const makerEnv = "BELLJAR_TEST_OCI_MAKER"

// TestMake is no test: it makes a container, and waits to be killed.
func TestMake(t *testing.T) {
	runtime := os.Getenv(makerEnv)
	if runtime == "" {
		return
	}
	disk, _ := base(t)
	engine, err := oci.Open(oci.Config{Dir: os.Getenv(makerEnv + "_DIR"), Runtime: runtime, Init: os.Getenv(makerEnv + "_INIT"), Roots: disk, OwnSessions: os.Getenv(makerEnv+"_OWN") != ""})
	if err != nil {
		t.Fatal(err)
	}
	spec := specOf(t)
	spec.Session, spec.Root = os.Getenv(makerEnv+"_SESSION"), os.Getenv(makerEnv+"_ROOT") != ""
	script := "echo kept >/work/file; " + stubborn
	if spec.Root { // who can stop gVisor's init, which carries output
		spec.User, spec.Limits.Disk = rootUser, 16<<20
		script = "echo ready; sleep 0.2; kill -STOP 1; sleep 1000"
	}
	fmt.Println("making")
	box, err := engine.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	out, in := io.Pipe()
	if _, err := box.Exec(t.Context(), sandbox.Exec{Script: script, Dir: "/work", User: spec.User, Stdout: in, Stderr: io.Discard}); err != nil {
		t.Fatal(err)
	}
	bufio.NewReader(out).ReadString('\n')
	go io.Copy(io.Discard, out)
	fmt.Println("made", box.Info().ID)
	select {}
}

// maker is a process that makes containers, which is killed.
type maker struct {
	*exec.Cmd
	out *bufio.Reader
}

func startMaker(t *testing.T, runtime, dir string, env ...string) *maker {
	t.Helper()
	disk, _ := base(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestMake$")
	cmd.Env = append(os.Environ(), append(env, makerEnv+"="+runtime, makerEnv+"_DIR="+dir, makerEnv+"_INIT="+initProgram(t), storeEnv+"="+disk.Dir)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	m := &maker{cmd, bufio.NewReader(out)}
	t.Cleanup(m.kill)
	return m
}

func (m *maker) kill() {
	m.Process.Kill()
	m.Wait()
}

// says waits for a line with that beginning, and returns its rest.
func (m *maker) says(t *testing.T, word string) string {
	t.Helper()
	for {
		line, err := m.out.ReadString('\n')
		if err != nil {
			t.Fatalf("waiting for %q: %v", word, err)
		}
		if rest, ok := strings.CutPrefix(line, word); ok {
			return strings.TrimSpace(rest)
		}
	}
}

// A killed belljar leaves nothing, though no other sweeps.
func TestKilledBelljar(t *testing.T) {
	each(t, func(t *testing.T, runtime string) {
		dir := t.TempDir()
		m := startMaker(t, runtime, dir)
		id := m.says(t, "made ")
		if len(traces(t, dir, id)) == 0 {
			t.Fatal("the test sees nothing of a container that runs")
		}
		m.kill()
		wantNothing(t, dir, id)
	})
}

// A belljar that is killed while it makes a container leaves nothing but, at one moment, an empty control
// group, which the next one sweeps.
func TestKilledWhileMaking(t *testing.T) {
	each(t, func(t *testing.T, runtime string) {
		for _, session := range []string{"", "kept"} {
			for range 12 {
				dir := t.TempDir()
				m := startMaker(t, runtime, dir, makerEnv+"_SESSION="+session)
				m.says(t, "making")
				time.Sleep(time.Duration(rand.IntN(60_000)) * time.Microsecond)
				m.kill()
				engine := openIn(t, oci.Config{Dir: dir, Runtime: runtime})
				ids := []string{fmt.Sprintf("-%d@", m.Process.Pid)}
				if session == "" {
					for range 300 {
						if groups := traces(t, dir, ids...); len(groups) == 0 {
							break
						}
						time.Sleep(10 * time.Millisecond)
					}
				}
				if kept, err := engine.Sessions(t.Context(), session); err != nil {
					t.Error(err)
				} else if session != "" && len(kept) == 1 { // it was finished just in time
					box, err := engine.Adopt(t.Context(), kept[0])
					if err != nil {
						t.Logf("its maker was killed before it was to stay: %v", err) // what is left of it is looked for below
					} else if err := box.Remove(t.Context()); err != nil {
						t.Error(err)
					}
				}
				if _, err := engine.Sweep(t.Context()); err != nil {
					t.Error(err)
				}
				wantNothing(t, dir, ids...)
			}
		}
	})
}

// Whatever part of a container is killed from the host: who has it is told, its command's fate is
// told, and nothing is left.
func TestKilledPart(t *testing.T) {
	each(t, func(t *testing.T, runtime string) {
		for _, part := range []string{"runtime", "init", "both"} {
			dir := t.TempDir()
			engine := openIn(t, oci.Config{Dir: dir, Runtime: runtime})
			box, err := engine.Create(t.Context(), specOf(t))
			if err != nil {
				t.Fatal(err)
			}
			out, in := io.Pipe()
			p, err := box.Exec(t.Context(), sandbox.Exec{Script: stubborn, Dir: "/work", User: specOf(t).User, Stdout: in, Stderr: io.Discard})
			if err != nil {
				t.Fatal(err)
			}
			bufio.NewReader(out).ReadString('\n')
			go io.Copy(io.Discard, out)
			runtimePID, initPID := parts(t, box.Info().ID)
			for pid, kills := range map[int]bool{runtimePID: part != "init", initPID: part != "runtime"} {
				if kills {
					process, _ := os.FindProcess(pid)
					process.Kill()
				}
			}
			select {
			case <-box.Lost():
			case <-time.After(time.Minute):
				t.Errorf("%s: never told", part)
			}
			if part != "runtime" {
				if status, err := p.Wait(t.Context()); status != 137 || err != nil {
					t.Errorf("%s: status %d, error %v", part, status, err)
				}
				if c, err := box.Counters(t.Context()); err != nil || c.KilledBy != "outside" {
					t.Errorf("%s: %+v, error %v", part, c, err)
				}
			}
			if err := box.Remove(t.Context()); err != nil {
				t.Errorf("%s: %v", part, err)
			}
			in.Close()
			wantNothing(t, dir, box.Info().ID)
		}
	})
}

// How a command ended that did so while somebody had stopped the init is not known, and that is said.
func TestEndedUnheard(t *testing.T) {
	each(t, func(t *testing.T, runtime string) {
		engine := open(t, runtime)
		box, err := engine.Create(t.Context(), specOf(t))
		if err != nil {
			t.Fatal(err)
		}
		out, in := io.Pipe()
		stdin, feed := io.Pipe()
		defer feed.Close()
		p, err := box.Exec(t.Context(), sandbox.Exec{Script: "echo; read -r _; exit 7", Dir: "/work", User: specOf(t).User, Stdin: stdin, Stdout: in, Stderr: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		bufio.NewReader(out).ReadString('\n')
		_, init := parts(t, box.Info().ID)
		unix.Kill(init, unix.SIGSTOP)
		io.WriteString(feed, "\n")
		if status, err := p.Wait(t.Context()); sandbox.CauseOf(err) != sandbox.CauseEngineLost || p.Cut() == "" || !strings.Contains(err.Error(), "exit status is unknown") {
			t.Errorf("status %d, error %v", status, err)
		}
		if err := box.Remove(t.Context()); err != nil {
			t.Error(err)
		}
		in.Close()
	})
}

// What a command wrote before its init was killed is read to its end.
func TestKilledInitLosesNoOutput(t *testing.T) {
	each(t, func(t *testing.T, runtime string) {
		engine := open(t, runtime)
		for range 5 {
			box, err := engine.Create(t.Context(), specOf(t))
			if err != nil {
				t.Fatal(err)
			}
			out := &lateWriter{begun: make(chan struct{}), open: make(chan struct{})}
			p, err := box.Exec(t.Context(), sandbox.Exec{Script: "echo; head -c 50000 /dev/zero; touch /work/wrote; sleep 1000", Dir: "/work", User: specOf(t).User, Stdout: out, Stderr: io.Discard})
			if err != nil {
				t.Fatal(err)
			}
			<-out.begun
			run(t, box, specOf(t).User, "until [ -e /work/wrote ]; do sleep 0.01; done")
			_, init := parts(t, box.Info().ID)
			unix.Kill(init, unix.SIGKILL)
			<-box.Lost()
			close(out.open)
			if status, err := p.Wait(t.Context()); status != 137 || err != nil || out.n != 50001 || p.Cut() != "" {
				t.Errorf("status %d, error %v, %d bytes, cut %q", status, err, out.n, p.Cut())
			}
			if err := box.Remove(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

// lateWriter takes no more than the beginning before a time.
type lateWriter struct {
	begun, open chan struct{}
	once        sync.Once
	n           int
}

func (w *lateWriter) Write(p []byte) (int, error) {
	w.once.Do(func() { close(w.begun) })
	<-w.open
	w.n += len(p)
	return len(p), nil
}

// A session whose runtime was killed is not reached any more: nothing of it runs on unseen.
func TestSessionWithoutItsRuntime(t *testing.T) {
	each(t, func(t *testing.T, runtime string) {
		dir := t.TempDir()
		engine := openIn(t, oci.Config{Dir: dir, Runtime: runtime})
		spec := specOf(t)
		spec.Session, spec.Deadline = "kept", time.Now().Add(time.Hour)
		for _, find := range []func() error{
			func() error { _, err := engine.Sessions(t.Context(), "kept"); return err },
			func() error { _, err := engine.Sweep(t.Context()); return err },
		} {
			box, err := engine.Create(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			id := box.Info().ID
			runtimePID, init := parts(t, id)
			unix.Kill(runtimePID, unix.SIGKILL)
			<-box.Lost()
			box.Close()
			if !processRuns(init) {
				t.Error("the init ends with it: this tests nothing")
			}
			if err := find(); err != nil {
				t.Error(err)
			}
			if list, err := engine.Sessions(t.Context(), "kept"); len(list) > 0 || err != nil {
				t.Errorf("%+v, error %v", list, err)
			}
			wantNothing(t, dir, id)
		}
	})
}

// Where belljar and the runtime are both killed, no one is left to remove the control
// group: the next belljar does.
func TestKilledBelljarAndRuntime(t *testing.T) {
	each(t, func(t *testing.T, runtime string) {
		dir := t.TempDir()
		m := startMaker(t, runtime, dir)
		id := m.says(t, "made ")
		runtimePID, _ := parts(t, id)
		m.Process.Kill()
		process, _ := os.FindProcess(runtimePID)
		process.Kill()
		m.Wait()
		engine := openIn(t, oci.Config{Dir: dir, Runtime: runtime})
		if list, err := engine.List(t.Context()); err != nil {
			t.Error(err)
		} else {
			for _, c := range list {
				if c.ID == id && (!c.Orphaned || c.Foreign) {
					t.Errorf("%+v", c)
				}
			}
		}
		if _, err := engine.Sweep(t.Context()); err != nil {
			t.Error(err)
		}
		wantNothing(t, dir, id)
	})
}

// A session survives its maker, is found and used by another process, and leaves nothing.
func TestSessionSurvivesItsMaker(t *testing.T) {
	eachWithGVisor(t, func(t *testing.T, runtime string) {
		dir := t.TempDir()
		m := startMaker(t, runtime, dir, makerEnv+"_SESSION=kept")
		id := m.says(t, "made ")
		m.kill()
		engine := openIn(t, oci.Config{Dir: dir, Runtime: runtime})
		if _, err := engine.Sweep(t.Context()); err != nil { // others of dead belljars may be swept; it is looked for below
			t.Error(err)
		}
		other := open(t, runtime)
		if list, err := other.Sessions(t.Context(), "kept"); len(list) > 0 || err != nil {
			t.Errorf("an engine of another directory sees %+v, error %v", list, err)
		}
		list, err := engine.Sessions(t.Context(), "kept")
		if err != nil || len(list) != 1 || list[0].ID != id {
			t.Fatalf("%+v, error %v", list, err)
		}
		box, err := engine.Adopt(t.Context(), list[0])
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		command(t, box, "cat /work/file", &text)
		if text.String() != "kept\n" {
			t.Errorf("file: %q", text.String())
		}
		if err := box.Remove(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
		wantNothing(t, dir, id)
	})
}

// A session of OwnSessions ends with its maker.
func TestOwnSessionEndsWithItsMaker(t *testing.T) {
	each(t, func(t *testing.T, runtime string) {
		dir := t.TempDir()
		m := startMaker(t, runtime, dir, makerEnv+"_SESSION=own", makerEnv+"_OWN=1")
		id := m.says(t, "made ")
		engine := openIn(t, oci.Config{Dir: dir, Runtime: runtime})
		if list, err := engine.Sessions(t.Context(), ""); len(list) > 0 || err != nil {
			t.Errorf("another process sees %+v, error %v", list, err)
		}
		m.kill()
		wantNothing(t, dir, id)
	})
}

// A session ends by itself at its deadline, though no belljar runs.
func TestSessionEndsAtItsDeadline(t *testing.T) {
	each(t, func(t *testing.T, runtime string) {
		dir := t.TempDir()
		engine := openIn(t, oci.Config{Dir: dir, Runtime: runtime})
		spec := specOf(t)
		spec.Session = "short"
		var box sandbox.Container
		for lives := 2 * time.Second; box == nil; lives *= 2 { // a slow machine takes longer to make it
			var err error
			spec.Deadline = time.Now().Add(lives)
			if box, err = engine.Create(t.Context(), spec); err != nil && lives > time.Minute {
				t.Fatal(err)
			}
		}
		if err := box.Close(); err != nil {
			t.Error(err)
		}
		wantNothing(t, dir, box.Info().ID)
	})
}

// A belljar that is killed while it lists processes, which it froze for that, leaves a container that cannot
// end: its guard ends it, and where that is killed, too, the next belljar.
func TestKilledWhileFrozen(t *testing.T) {
	each(t, func(t *testing.T, runtime string) {
		for _, guarded := range []bool{true, false} {
			dir := t.TempDir()
			m := startMaker(t, runtime, dir)
			id := m.says(t, "made ")
			freeze(t, id)
			if !guarded {
				m.killGuard(t)
			}
			m.kill()
			if !guarded {
				engine := openIn(t, oci.Config{Dir: dir, Runtime: runtime})
				if n, err := engine.Sweep(t.Context()); n == 0 || err != nil { // others of dead belljars count, too
					t.Errorf("swept %d, error %v", n, err)
				}
			}
			wantNothing(t, dir, id)
		}
	})
}

func freeze(t *testing.T, id string) {
	t.Helper()
	files, _ := filepath.Glob("/sys/fs/cgroup/freezer/belljar-*-" + id + "/freezer.state")
	word := "FROZEN"
	if len(files) == 0 {
		files, _ = filepath.Glob("/sys/fs/cgroup/belljar-*-" + id + "/cgroup.freeze")
		word = "1"
	}
	if len(files) != 1 {
		t.Fatal(files)
	}
	if err := os.WriteFile(files[0], []byte(word), 0); err != nil {
		t.Fatal(err)
	}
}

// killGuard kills the second process of a maker, before that is gone.
func (m *maker) killGuard(t *testing.T) {
	t.Helper()
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, process := range processes {
		args, _ := os.ReadFile(process + "/cmdline")
		if !strings.HasPrefix(string(args), "belljar-lifeline\x00") || !strings.Contains(string(args), fmt.Sprintf("\x00%d@", m.Process.Pid)) {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(process))
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatal("the maker has no guard")
}
