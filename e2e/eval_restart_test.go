package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"belljar/eval/run"

	"golang.org/x/sys/unix"
)

// The engine restarts in the middle of a run, twice. What that failed is tried again once the engine answers, and
// each trial ends as without it: none is counted as failed for it.
func TestEvalEngineRestart(t *testing.T) {
	needRoot(t, "an engine of one's own")
	d := privateEngine(t)
	var lines []string
	for i := range 8 {
		lines = append(lines, fmt.Sprintf(`{"id":"%d","answer":"a","solve":"sleep 0.3; echo %d >a","check":"sleep 0.5; test $(cat a) -lt 6","timeout":60}`, i, i))
	}
	e := &evaluating{t.TempDir(), append(os.Environ(), "DOCKER_HOST="+d.Host, "XDG_STATE_HOME="+t.TempDir())}
	e.write(t, "suite.jsonl", strings.Join(lines, "\n")+"\n")
	cmd := e.command("run", "suite.jsonl", "--agent", "oracle", "--out", "out", "--jobs", "2", "--no-controls")
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := func() int {
		text, _ := os.ReadFile(e.dir + "/out/results.jsonl")
		return strings.Count(string(text), "\n")
	}
	for _, after := range []int{1, 4} {
		eventually(t, fmt.Sprintf("%d trials ended", after), func() bool { return ended() >= after })
		d.Signal(t, unix.SIGKILL)
		time.Sleep(2 * time.Second) // a trial takes less: without a wait its tries would be used up
		d.Start(t)
	}
	if cmd.Wait(); cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("%s: %s", cmd.ProcessState, said.String())
	}
	results, again := e.results(t, "out"), 0
	for i := range 8 {
		r := results[run.Key{Task: fmt.Sprint(i), Trial: 1}]
		want := run.Passed
		if i >= 6 {
			want = run.Failed
		}
		if r.Verdict != want {
			t.Errorf("%s: %s (%s) of %q, cause %q, in attempt %d", r.Task, r.Verdict, r.Message, r.Side, r.Cause, r.Attempt)
		}
		if r.Attempt > 1 {
			again++
		}
	}
	if again == 0 || ended() != 8 {
		t.Errorf("%d trials were tried again, of %d results: %s", again, ended(), said.String())
	}
	eventually(t, "no container is left", func() bool {
		left, err := d.Left()
		return err == nil && len(left) == 0
	})
}
