package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"belljar/eval/run"
)

// Whatever happens to one task, its verdict says so, and the others go on. What the
// infrastructure fails is tried again.
func TestEvalFaults(t *testing.T) {
	needRoot(t, "killing a container from outside")
	t.Parallel()
	flood := 64 << 20
	if os.Getenv("EVAL_KILLS") != "" {
		flood = 1 << 30
	}
	const rest = `"answer":"a","solution":"42\n"`
	e := evaluate(t,
		`{"id":"fine",`+rest+`,"check":"test $(cat a) = 42"}`,
		`{"id":"image",`+rest+`,"image":"belljar/nosuch:1","check":"true"}`,
		`{"id":"hangs",`+rest+`,"check":"sleep 1000","timeout":2}`,
		fmt.Sprintf(`{"id":"floods",%s,"check":"head -c %d /dev/zero; test $(cat a) = 42"}`, rest, flood),
		`{"id":"killed",`+rest+`,"check":"sleep 20.0221; test $(cat a) = 42"}`,
	)
	cmd := e.command("run", "suite.jsonl", "--agent", "oracle", "--out", "out", "--jobs", "3", "--no-controls", "--format", "json")
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the container is killed", func() bool { return killContainerOf("sleep\x0020.0221\x00") })
	if cmd.Wait(); cmd.ProcessState.ExitCode() != 125 {
		t.Errorf("%s: %s", cmd.ProcessState, said.String())
	}
	results := e.results(t, "out")
	for task, want := range map[string]struct {
		verdict run.Verdict
		side    run.Side
		attempt int
		says    string
	}{
		"fine":   {run.Passed, "", 1, ""},
		"image":  {run.Error, run.ByTask, 1, "belljar/nosuch:1"},
		"hangs":  {run.Timeout, run.BySolution, 1, "still running after 2s"},
		"floods": {run.Passed, "", 1, ""},
		"killed": {run.Passed, "", 2, ""},
	} {
		r := results[run.Key{Task: task, Trial: 1}]
		if r.Verdict != want.verdict || r.Side != want.side || r.Attempt != want.attempt || !strings.Contains(r.Message, want.says) {
			t.Errorf("%s: %s (%s) of %q, cause %q, in attempt %d: %s", task, r.Verdict, r.Message, r.Side, r.Cause, r.Attempt, said.String())
		}
	}
	if log := e.read(t, "out/logs/floods/1/02-verify.stdout"); len(log) > 1<<20 {
		t.Errorf("%d bytes of the flood are kept", len(log))
	}
	if left := e.left(t, "out"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// killContainerOf kills the first process of the container in which a command line runs.
func killContainerOf(line string) bool {
	list, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range list {
		if text, _ := os.ReadFile(name); string(text) != line {
			continue
		}
		for pid := filepath.Base(filepath.Dir(name)); pid != "0"; {
			status, _ := os.ReadFile("/proc/" + pid + "/status")
			inside, parent := "", "0"
			for field := range strings.Lines(string(status)) {
				if of, ok := strings.CutPrefix(field, "NSpid:"); ok {
					inside = of
				} else if of, ok := strings.CutPrefix(field, "PPid:"); ok {
					parent = strings.TrimSpace(of)
				}
			}
			if of := strings.Fields(inside); len(of) > 1 && of[len(of)-1] == "1" {
				n, err := strconv.Atoi(pid)
				return err == nil && syscall.Kill(n, syscall.SIGKILL) == nil
			}
			pid = parent
		}
	}
	return false
}

// A run whose disk is full ends with an error, and goes on once there is room.
func TestEvalFullDisk(t *testing.T) {
	needRoot(t, "mounting a file system")
	t.Parallel()
	var lines []string
	for i := range 4 {
		lines = append(lines, fmt.Sprintf(`{"id":"%d","answer":"a","solution":"42\n","check":"head -c 60000 /dev/zero | tr '\\0' x; test $(cat a) = 42"}`, i))
	}
	e := evaluate(t, lines...)
	out := filepath.Join(e.dir, "out")
	if err := os.Mkdir(out, 0o700); err != nil {
		t.Fatal(err)
	}
	mount := func(options string) {
		if text, err := exec.Command("mount", "-t", "tmpfs", "-o", options, "none", out).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
	}
	mount("size=128k")
	t.Cleanup(func() { syscall.Unmount(out, syscall.MNT_DETACH) })
	said := e.run(t, 125, "run", "suite.jsonl", "--agent", "oracle", "--out", "out", "--retries", "0", "--jobs", "1")
	if !strings.Contains(said, "no space left on device") {
		t.Errorf("on a full disk: %s", said)
	}
	for _, r := range e.results(t, "out") {
		if r.Verdict != run.Passed && (r.Verdict != run.Error || r.Side != run.Infrastructure) {
			t.Errorf("%s: %s (%s) of %q", r.Task, r.Verdict, r.Message, r.Side)
		}
	}
	mount("remount,size=16m")
	if said := e.run(t, 0, "resume", "out"); !strings.Contains(said, "4 of 4 trials passed") {
		t.Errorf("resumed: %s", said)
	}
}
