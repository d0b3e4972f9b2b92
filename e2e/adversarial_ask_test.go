package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"belljar/sandbox"
)

// answer is the output of belljar run --format json for a command.
type answer struct {
	code int
	peak int64 // bytes of memory that belljar took
	json whole

	Status, Cause, Message string
	ExitCode               int `json:"exit_code"`
	Signal                 string
	Stdout, Stderr         string
	StdoutEncoding         string `json:"stdout_encoding"`
	StdoutBytes            int64  `json:"stdout_bytes"`
	StderrBytes            int64  `json:"stderr_bytes"`
	Truncated              bool
	Lingering              []struct {
		HostPID int `json:"host_pid"`
		UID     int
		Command string
	}
	Evidence struct {
		OOMKills      int    `json:"oom_kills"`
		PidsLimitHits int    `json:"pids_limit_hits"`
		KilledBy      string `json:"killed_by"`
		StoppedBy     string `json:"stopped_by"`
		Killed        []sandbox.Process
		RemoveError   string `json:"remove_error"`
		OutputError   string `json:"output_error"`
		ListError     string `json:"list_error"`
	}
	Resources struct {
		CPUSeconds float64 `json:"cpu_seconds"`
	}
	Timing struct {
		Total float64 `json:"total_ms"`
	}
	Container struct {
		ID, Engine  string
		ImageDigest string `json:"image_digest"`
	}
}

// ask runs a command to its end, which must leave no container.
func ask(t *testing.T, args ...string) answer {
	t.Helper()
	return askAs(t, func(*exec.Cmd) {}, args...)
}

// askAs is ask with a changed environment, directory or stdin.
func askAs(t *testing.T, change func(*exec.Cmd), args ...string) answer {
	t.Helper()
	p := begun(t, change, args...)
	a := p.wait(t)
	if left := owned(p.cmd.Process.Pid); left != "" {
		t.Errorf("left behind: %s", left)
	}
	return a
}

// patience is for what would otherwise hang the suite. Six floods at once over pods, on a slow machine, take two minutes.
const patience = 5 * time.Minute

// asked is a running command.
type asked struct {
	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer
	peak           func() int64
}

func begun(t *testing.T, change func(*exec.Cmd), args ...string) *asked {
	t.Helper()
	a := &asked{cmd: exec.Command(binary, append([]string{"run", "--format", "json"}, args...)...)}
	a.cmd.Stdout, a.cmd.Stderr = &a.stdout, &a.stderr
	change(a.cmd)
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	a.peak = watchMemory(a.cmd.Process.Pid)
	return a
}

// watchMemory samples the memory that a process has of its own, until its end, and returns the most.
func watchMemory(pid int) (peak func() int64) {
	var most int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
			_, rest, found := strings.Cut(string(text), "\nRssAnon:")
			if !found {
				return // it ended
			}
			var kib int64
			fmt.Sscan(rest, &kib)
			most = max(most, kib<<10)
			time.Sleep(5 * time.Millisecond)
		}
	}()
	return func() int64 { <-done; return most }
}

// whole is a result's JSON. A message has only its beginning.
type whole string

func (w whole) String() string { return string(w[:min(len(w), 4000)]) }

func (a *asked) wait(t *testing.T) answer {
	t.Helper()
	hung := time.AfterFunc(patience, func() { a.cmd.Process.Kill() })
	err := a.cmd.Wait()
	if !hung.Stop() {
		t.Errorf("belljar does not end")
	}
	r := answer{code: exitCode(t, err), peak: a.peak(), json: whole(a.stdout.String())}
	if err := json.Unmarshal(a.stdout.Bytes(), &r); err != nil {
		t.Errorf("no result: %v, exit status %d, stdout %.1000q, stderr %.1000q", err, r.code, &a.stdout, &a.stderr)
	}
	if e := r.Container.Engine; e != "" && e != engineKind() {
		t.Errorf("it ran on %s", e)
	}
	return r
}

// refused is a command that never gets a container: by policy with 126, or as
// invalid with 125.
func refused(t *testing.T, code int, want string, args ...string) {
	t.Helper()
	out, err := exec.Command(binary, append([]string{"run"}, append(args, "echo RAN")...)...).CombinedOutput()
	if got := exitCode(t, err); got != code || !strings.Contains(string(out), want) || strings.Contains(string(out), "RAN") {
		t.Errorf("%q: exit status %d, want %d with %q: %s", args, got, code, want, out)
	}
}

// configured is a configuration file in a new directory.
func configured(t *testing.T, lines ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sandbox.yaml")
	text := "version: 1\n" + strings.Join(lines, "\n") + "\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// shared is a new directory that anyone may write to, and a configuration that
// allows mounting it.
func shared(t *testing.T, mode string) (dir, config string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir, configured(t, "mounts:", "  allow:", `    - {source: "`+dir+`", mode: `+mode+"}")
}

// tool runs a program on the host that must succeed.
func tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		var stderr []byte
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			stderr = exit.Stderr
		}
		t.Fatalf("%s %q: %v: %s", name, args, err, stderr)
	}
	return strings.TrimSpace(string(out))
}

// container is the one container of a belljar process.
func container(t *testing.T, pid int) string {
	t.Helper()
	id, _, _ := strings.Cut(owned(pid), " ")
	if id == "" {
		t.Fatal("there is no container")
	}
	return id
}

// probe builds testdata/probe, and returns the flags that mount it or, over pods, copy it, and where it is then.
func probe(t *testing.T) (flags []string, program string) {
	t.Helper()
	dir, err := buildProbe()
	if err != nil {
		t.Fatal(err)
	}
	if onPods() {
		return []string{"--file", dir + "/probe:/tmp/probe"}, "/tmp/probe"
	}
	config := configured(t, "mounts:", "  allow:", `    - {source: "`+dir+`"}`)
	return []string{"--config", config, "-v", dir + ":/probe:ro"}, "/probe/probe"
}

// probed runs it.
func probed(t *testing.T, args string) answer {
	t.Helper()
	flags, program := probe(t)
	return ask(t, append(flags, program+args)...)
}

var buildProbe = sync.OnceValues(func() (string, error) {
	dir, err := filepath.EvalSymlinks(filepath.Dir(binary))
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, "probe")
	out, err := withoutCgo("build", "-o", dir+"/", "./testdata/probe").CombinedOutput()
	if err != nil {
		err = errors.Join(err, errors.New(string(out)))
	}
	return dir, err
})
