package e2e

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"belljar/sandbox"
)

// fate is what became of one of them.
type fate string

const (
	ended        fate = "ended"
	lostRunning  fate = "engine_lost"
	neverStarted fate = "killed before there was an ID"
)

// TestDetachSoak: many commands in the background, whose supervisors are killed at random.
// Each has its result or is lost, and nothing is left.
func TestDetachSoak(t *testing.T) {
	needEngine(t)
	commands, atOnce := soakCommands(16), 4
	if longSoak != "" {
		atOnce = 8
	}
	state, use := ownState(t)
	temporary := t.TempDir()
	in := func(c *exec.Cmd) {
		use(c)
		c.Env = append(c.Environ(), "TMPDIR="+temporary)
	}
	var mu sync.Mutex
	fates, waited := map[fate]int{}, []time.Duration{}
	next := make(chan int)
	var all sync.WaitGroup
	for range atOnce {
		all.Go(func() {
			for i := range next {
				began := time.Now()
				f := soakDetached(t, state, in, i)
				mu.Lock()
				fates[f]++
				waited = append(waited, time.Since(began))
				mu.Unlock()
			}
		})
	}
	for i := range commands {
		next <- i
	}
	close(next)
	all.Wait()

	slices.Sort(waited)
	t.Logf("%d commands: %v; from the start to the result p50 %v, p99 %v", commands, fates, waited[len(waited)/2], waited[len(waited)*99/100])
	if fates[ended] == 0 || fates[lostRunning] == 0 {
		t.Errorf("too little happened: %v", fates)
	}
	eventually(t, "no supervisor is left", func() bool { return len(supervisors(t, state)) == 0 })
	eventually(t, "no container is left", func() bool { return orphans() == "" })
	// Whoever comes later removes what killed ones left, besides what is kept.
	past := time.Now().Add(-2 * time.Minute)
	if err := os.Chtimes(filepath.Join(spoolOf(state), ".swept"), past, past); err != nil {
		t.Fatal(err)
	}
	belljarIn(t, in, "logs")
	wantOnlySpools(t, spoolOf(state))
	if left, err := filepath.Glob(temporary + "/*"); len(left) > 0 || err != nil {
		t.Errorf("temporary files are left: %q, %v", left, err)
	}
}

// soakDetached runs one, and kills its supervisor at a random moment or not at all.
func soakDetached(t *testing.T, state string, use func(*exec.Cmd), i int) fate {
	sleep := fmt.Sprintf("0.%d", rand.IntN(10))
	if i%6 == 2 {
		sleep = "1000" // which only the kill ends
	}
	cmd := exec.Command(binary, "run", "-d", "--description", fmt.Sprint("soak ", i), fmt.Sprintf("echo %d; sleep %s; exit %d", i, sleep, i%100))
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	use(cmd)
	if err := cmd.Start(); err != nil {
		t.Error(err)
		return ""
	}
	early := i%3 == 1
	if early {
		time.Sleep(time.Duration(rand.IntN(400)) * time.Millisecond)
		for _, child := range childrenOf(cmd.Process.Pid) {
			syscall.Kill(child, syscall.SIGKILL)
		}
	}
	code := exitCode(t, cmd.Wait())
	id := strings.TrimSpace(stdout.String())
	if id == "" {
		if !early || code != 125 || stderr.Len() == 0 {
			t.Errorf("command %d: exit %d without an ID, %q", i, code, &stderr)
		}
		return neverStarted
	}
	late := i%3 == 2
	if late {
		time.Sleep(time.Duration(rand.IntN(900)) * time.Millisecond)
		if pid := supervisorOf(state, id); pid != 0 {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	return fateOf(t, use, id, i, early || late)
}

func fateOf(t *testing.T, use func(*exec.Cmd), id string, i int, killed bool) fate {
	got := belljarIn(t, use, "wait", "--format", "json", id)
	var r sandbox.Result
	if err := json.Unmarshal([]byte(got.stdout), &r); err != nil || r.ID != id || r.Description != fmt.Sprint("soak ", i) {
		t.Errorf("command %d: %v, %+v", i, err, got)
		return ""
	}
	out := string(r.Stdout.Bytes())
	switch {
	case r.Cause == sandbox.CauseExited && r.ExitCode == i%100 && got.code == i%100 && out == fmt.Sprintln(i):
		return ended
	case killed && r.Cause == sandbox.CauseEngineLost && r.Status == sandbox.StatusFatal && got.code == 125 && (out == "" || out == fmt.Sprintln(i)):
		return lostRunning
	}
	t.Errorf("command %d, killed %v: %+v", i, killed, got)
	return ""
}

// childrenOf are the processes that a process started, and that still are its.
func childrenOf(parent int) (list []int) {
	for pid, stat := range processes() {
		_, after, _ := strings.Cut(stat, ") ")
		if fields := strings.Fields(after); len(fields) > 1 && fields[1] == strconv.Itoa(parent) {
			list = append(list, pid)
		}
	}
	return list
}

// processes are all there are, with their stat.
func processes() map[int]string {
	all := map[int]string{}
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		stat, err := os.ReadFile(file)
		pid, failed := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil && failed == nil {
			all[pid] = string(stat)
		}
	}
	return all
}

// supervisors are the processes that have commands of that state in the background, and
// their guards.
func supervisors(t *testing.T, state string) (list []int) {
	t.Helper()
	for pid := range processes() {
		dir := fmt.Sprintf("/proc/%d/", pid)
		line, _ := os.ReadFile(dir + "cmdline")
		env, _ := os.ReadFile(dir + "environ")
		if strings.HasPrefix(string(line), "belljar\x00supervise\x00") && strings.Contains(string(env), "XDG_STATE_HOME="+state+"\x00") {
			list = append(list, pid)
		}
	}
	return list
}

// wantOnlySpools wants nothing but outputs and results of commands.
func wantOnlySpools(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() == ".swept" {
			return err
		}
		stream, _, _ := strings.Cut(entry.Name(), ".")
		if !entry.Type().IsRegular() || !slices.Contains([]string{"command", "result", "stdout", "stderr"}, stream) || strings.HasSuffix(name, ".new") {
			t.Errorf("%s is left", name)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
