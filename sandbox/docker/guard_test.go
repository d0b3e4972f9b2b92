package docker_test

import (
	"bytes"
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
	"testing"
	"time"

	"belljar/sandbox/docker"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"golang.org/x/sys/unix"
)

// burstEnv has TestBurst, in a process that is killed, make containers.
const burstEnv = "BELLJAR_TEST_BURST"

// TestBurst is no test: see TestKilledDuringABurst.
func TestBurst(t *testing.T) {
	if os.Getenv(burstEnv) == "" {
		return // it is a part of TestKilledDuringABurst
	}
	engine, err := docker.Connect(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	image := baseImage(t, engine)
	fmt.Println("\nbegins")
	var all sync.WaitGroup
	for range 8 {
		spec := specOf(image)
		all.Go(func() { engine.Create(t.Context(), spec) })
	}
	all.Wait()
	fmt.Println("\nmade")
	select {} // until it is killed
}

// A program with this package that is killed while the engine makes containers
// for it leaves none, and no guard.
func TestKilledDuringABurst(t *testing.T) {
	t.Parallel()
	engine := connect(t)
	baseImage(t, engine)
	for try := range 6 {
		t.Run(fmt.Sprint(try), func(t *testing.T) {
			t.Parallel() // a guard stays for a while, as the engine may be late
			killedDuringABurst(t, engine, try > 0)
		})
	}
}

// killedDuringABurst kills such a program at once, or within a second.
func killedDuringABurst(t *testing.T, engine *docker.Engine, later bool) {
	mark := guardMark()
	program := exec.Command(os.Args[0], "-test.run=^TestBurst$")
	program.Env = append(os.Environ(), burstEnv+"=yes", mark)
	out, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	pid := program.Process.Pid
	said := make([]byte, 4096)
	n, err := io.ReadAtLeast(out, said, len("\nbegins"))
	if err != nil || !bytes.Contains(said[:n], []byte("begins")) {
		t.Fatalf("it said %q: %v", said[:n], err)
	}
	var moment time.Duration
	if later {
		moment = rand.N(time.Second) // any moment will do
	}
	time.Sleep(moment)
	program.Process.Kill()
	program.Wait()
	most := 0
	waitFor(t, "no container left", func() bool {
		left := containersOf(t, engine, pid)
		most = max(most, left)
		return left == 0 && len(guards(mark)) == 0
	})
	t.Logf("killed after %v: %d containers to remove", moment, most)
	time.Sleep(10 * time.Second) // the engine has time to be late
	if n := containersOf(t, engine, pid); n > 0 {
		t.Errorf("%d containers came later", n)
	}
}

// containersOf counts the containers that a process made.
func containersOf(t *testing.T, engine *docker.Engine, pid int) (n int) {
	t.Helper()
	list, err := engine.Client().ContainerList(t.Context(), container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", "dev.belljar.process"))})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list {
		if strings.HasPrefix(c.Labels["dev.belljar.process"], strconv.Itoa(pid)+"@") {
			n++
		}
	}
	return n
}

// guardMark is a variable that guards keep.
func guardMark() string { return fmt.Sprintf("NO_PROXY=%d-%d", os.Getpid(), time.Now().UnixNano()) }

// guards are the processes of guards that have mark in their environment.
func guards(mark string) (pids []string) {
	found, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range found {
		line, _ := os.ReadFile(file)
		environ, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "environ"))
		if string(line) == "belljar-guard\x00" && strings.Contains(string(environ), mark) {
			pids = append(pids, filepath.Base(filepath.Dir(file)))
		}
	}
	return pids
}

// The guard goes with its engine. One that was killed is replaced.
func TestGuardOfALife(t *testing.T) {
	mark := guardMark()
	name, value, _ := strings.Cut(mark, "=")
	t.Setenv(name, value)
	engine, err := docker.Connect(t.Context(), connect(t).Host())
	if err != nil {
		t.Fatal(err)
	}
	image := baseImage(t, engine)
	if found := guards(mark); len(found) > 0 {
		t.Errorf("guards %v before there is anything to guard", found)
	}
	for range 2 {
		box, err := engine.Create(t.Context(), specOf(image))
		if err != nil {
			t.Fatal(err)
		}
		defer box.Remove(context.WithoutCancel(t.Context()))
		found := guards(mark)
		if len(found) != 1 {
			t.Fatalf("guards %v", found)
		}
		exec.Command("kill", "-9", found[0]).Run()
		waitFor(t, "guard dead", func() bool { return len(guards(mark)) == 0 })
		if err := box.Remove(t.Context()); err != nil {
			t.Error(err)
		}
	}
	box, err := engine.Create(t.Context(), specOf(image))
	if err != nil {
		t.Fatal(err)
	}
	if err := box.Remove(t.Context()); err != nil {
		t.Error(err)
	}
	if err := engine.Close(); err != nil {
		t.Error(err)
	}
	if found := guards(mark); len(found) > 0 {
		t.Errorf("guards %v after Close", found)
	}
}

// The guard had all variables of its program, secrets as well, and what that had
// open for others: who reads to the end of such a pipe waited for the guard's.
func TestGuardHoldsNothing(t *testing.T) {
	mark := guardMark()
	name, value, _ := strings.Cut(mark, "=")
	t.Setenv(name, value)
	t.Setenv("BELLJAR_TEST_SECRET", "hunter2")
	var pipe [2]int
	if err := unix.Pipe(pipe[:]); err != nil { // without close-on-exec
		t.Fatal(err)
	}
	read := os.NewFile(uintptr(pipe[0]), "pipe")
	defer read.Close()
	engine, err := docker.Connect(t.Context(), connect(t).Host())
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	box, err := engine.Create(t.Context(), specOf(baseImage(t, engine)))
	unix.Close(pipe[1])
	if err != nil {
		t.Fatal(err)
	}
	defer box.Remove(context.WithoutCancel(t.Context()))
	found := guards(mark)
	if len(found) != 1 {
		t.Fatalf("guards %v", found)
	}
	environ, err := os.ReadFile("/proc/" + found[0] + "/environ")
	if err != nil || bytes.Contains(environ, []byte("hunter2")) {
		t.Errorf("its variables are %q: %v", environ, err)
	}
	text, err := io.ReadAll(read) // ends where no one holds it any more
	if err != nil || len(text) > 0 {
		t.Errorf("read %q: %v", text, err)
	}
}
