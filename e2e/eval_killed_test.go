package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"belljar/eval/run"
)

// keyPair makes key.pem and key.pub with openssl, as docs/evaluation.md says.
func (e *evaluating) keyPair(t *testing.T) {
	t.Helper()
	for _, line := range []string{"openssl genpkey -algorithm ed25519 -out key.pem", "chmod 600 key.pem", "openssl pkey -in key.pem -pubout -out key.pub"} {
		args := strings.Fields(line)
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir = e.dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
}

// orphans are the engine's containers whose belljar is gone.
func (e *evaluating) orphans(t *testing.T) (left []string) {
	t.Helper()
	var of struct {
		Containers []struct {
			ID       string
			Orphaned bool
		}
	}
	cmd := exec.Command(binary, "ps", "--format", "json")
	cmd.Env = e.env
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &of)
	}
	if err != nil {
		t.Fatalf("listing containers: %v", err)
	}
	for _, c := range of.Containers {
		if c.Orphaned {
			left = append(left, c.ID)
		}
	}
	return left
}

// A run that is killed at any moment, again and again, is finished by resume: nothing runs twice,
// nothing is left, and its receipt is right. EVAL_KILLS is how often it is killed: make eval-kills.
func TestEvalKilled(t *testing.T) {
	t.Parallel()
	kills, tasks, longest := 3, 6, 1500*time.Millisecond
	if n, err := strconv.Atoi(os.Getenv("EVAL_KILLS")); err == nil {
		kills, tasks, longest = n, 60, 8*time.Second
	}
	var lines []string
	for i := range tasks {
		grade := `"command":"cat a","expect":"42\n"`
		if i%3 == 0 {
			grade = `"check":"test $(cat a) = 42"`
		}
		lines = append(lines, fmt.Sprintf(`{"id":"%d","answer":"a","solution":"42\n",%s}`, i, grade))
	}
	e := evaluate(t, lines...)
	e.keyPair(t)
	e.env = append(e.env, "EVAL_BINARY="+binary)
	e.write(t, "agent.sh", "#!/bin/sh\n\"$EVAL_BINARY\" run 'echo 42 >a; sleep 0.1'\n")
	killed, runs := 0, 0
	for killed < kills || runs == 0 {
		runs++
		out := fmt.Sprintf("out%d", runs)
		for {
			args := []string{"resume", out, "--sign", "key.pem", "--", filepath.Join(e.dir, "agent.sh")}
			if _, err := os.Stat(filepath.Join(e.dir, out, run.RunFile)); err != nil {
				args = []string{"run", "suite.jsonl", "--out", out, "--sign", "key.pem", "--", filepath.Join(e.dir, "agent.sh")}
			}
			done := e.untilKilled(t, killed < kills, rand.N(longest), args)
			if done {
				break
			}
			killed++
		}
		e.whole(t, out, tasks)
	}
	t.Logf("%d kills in %d runs of %d tasks", killed, runs, tasks)
	eventually(t, "all containers are gone", func() bool { return len(e.orphans(t)) == 0 })
	eventually(t, "all agents are gone", func() bool {
		out, _ := exec.Command("pgrep", "-f", e.dir).Output()
		return len(out) == 0
	})
}

// untilKilled reports whether a belljar ended before it was to be killed.
func (e *evaluating) untilKilled(t *testing.T, kill bool, after time.Duration, args []string) (done bool) {
	t.Helper()
	cmd := e.command(args...)
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var moment <-chan time.Time
	if kill {
		moment = time.After(after)
	}
	select {
	case <-moment:
		cmd.Process.Kill()
		if err := <-ended; err == nil {
			return true // it was faster
		}
		if code := cmd.ProcessState.ExitCode(); code >= 0 {
			t.Fatalf("belljar eval %q: exit status %d\n%s", args, code, said.String())
		}
		return false
	case err := <-ended:
		if err != nil {
			t.Fatalf("belljar eval %q: %v\n%s", args, err, said.String())
		}
		return true
	}
}

// whole checks that a run has each trial once, and what its receipt says.
func (e *evaluating) whole(t *testing.T, out string, tasks int) {
	t.Helper()
	for key, r := range e.results(t, out) {
		if r.Verdict != run.Passed {
			t.Errorf("%s: task %s: %s (%s)", out, key.Task, r.Verdict, r.Message)
		}
	}
	lines := strings.Split(strings.TrimSuffix(e.read(t, out+"/results.jsonl"), "\n"), "\n")
	if n := len(e.results(t, out)); n != tasks || len(lines) != tasks {
		t.Errorf("%s has %d results in %d lines, want %d", out, n, len(lines), tasks)
	}
	if left := e.left(t, out); len(left) > 0 {
		t.Errorf("left of %s: %q", out, left)
	}
	if said := e.run(t, 0, "verify", out+"/receipt.json", "--key", "key.pub", "--out", out); !strings.Contains(said, " 0 differ") {
		t.Errorf("the receipt of %s: %s", out, said)
	}
}
