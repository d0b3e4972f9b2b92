package report

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"belljar/eval/run"
	"belljar/sandbox"
)

var started = time.Date(2026, 11, 22, 19, 0, 0, 0, time.UTC)

// runOf is a run of tasks with those names.
func runOf(trials int, tasks ...string) run.Run {
	r := run.Run{Version: run.Version, ID: "01j", Started: started, Belljar: "belljar 1", Trials: trials, Agent: run.Agent{Kind: run.Oracle}}
	for _, id := range tasks {
		r.Tasks = append(r.Tasks, run.Task{ID: id, Source: "/suite/" + id, Image: "belljar/base", Grading: run.ByReward, Sealed: true})
	}
	return r
}

func ended(task string, trial int, verdict run.Verdict) run.Result {
	r := run.Result{Task: task, Trial: trial, Attempt: 1, Verdict: verdict, Sealed: true, Started: started, Millis: 1500}
	switch verdict {
	case run.Passed, run.Skipped:
	case run.Error:
		r.Side = run.Infrastructure
	default:
		r.Side = run.BySolution
	}
	return r
}

func bySide(r run.Result, side run.Side) run.Result {
	r.Side = side
	return r
}

func TestSummary(t *testing.T) {
	t.Parallel()
	unsealed := ended("c", 1, run.Passed)
	unsealed.Sealed = false
	r := New(runOf(3, "a", "b", "c", "d"), []run.Result{
		ended("a", 1, run.Passed), ended("a", 3, run.Passed), ended("a", 2, run.Failed),
		ended("b", 1, run.Error), ended("b", 2, run.Tampered), ended("b", 3, run.Timeout),
		unsealed, ended("c", 2, run.OOM), ended("c", 3, run.Skipped),
		ended("d", 1, run.Error), ended("d", 1, run.Passed), // tried again: the last counts
	})
	want := Summary{
		Tasks: 4, Trials: 12, Missing: 2, Counted: 8, Passed: 4, Failed: 1, Tampered: 1, Timeout: 1, OOM: 1, Skipped: 1,
		InfrastructureErrors: 1, Unsealed: 1, Flaky: []string{"a", "c"},
		PassAt: []Estimate{{K: 1, Chance: (2./3 + 0 + 1./2 + 1) / 4, Tasks: 4}, {K: 2, Chance: (1. + 0 + 1) / 3, Tasks: 3, LeftOut: 1}, {K: 3, Chance: 1, Tasks: 1, LeftOut: 3}},
	}
	got := r.Summary
	for i, e := range got.PassAt {
		if math.Abs(e.Chance-want.PassAt[i].Chance) < 1e-9 {
			got.PassAt[i].Chance = want.PassAt[i].Chance
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || fmt.Sprintf("%+v", got.PassAt) != fmt.Sprintf("%+v", want.PassAt) || fmt.Sprint(got.Flaky) != fmt.Sprint(want.Flaky) || got.AllPassed() {
		t.Errorf("%+v, want\n%+v", got, want)
	}
	if len(r.Wrong) > 0 {
		t.Errorf("wrong: %q", r.Wrong)
	}
	text := r.Text()
	for _, line := range []string{
		"without controls: a solution that cheats the tests passes",
		"4 of 8 trials passed: 1 failed, 1 tampered, 1 timed out, 1 ran out of memory",
		"not counted: 1 error of the infrastructure, 1 skipped, 2 not ended",
		"pass@1 54.2% of 4 tasks, pass@2 66.7% of 3 tasks (1 with too few trials that count)",
		"unsealed: 1 trial: ", "flaky: 2 tasks", "2 of 3 passed, flaky",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("no %q in\n%s", line, text)
		}
	}
}

// What the agent's own side breaks counts, and does not raise pass@k.
func TestAgentErrorCounts(t *testing.T) {
	t.Parallel()
	r := New(runOf(2, "a"), []run.Result{ended("a", 1, run.Passed), bySide(ended("a", 2, run.Error), run.BySolution)})
	if s := r.Summary; s.Counted != 2 || s.AgentErrors != 1 || s.PassAt[0].Chance != 0.5 {
		t.Errorf("%+v", s)
	}
}

// What belljar does not write is never a pass, and is said.
func TestHostileResults(t *testing.T) {
	t.Parallel()
	strange := ended("a", 1, "PASSED")
	strange.Millis = math.Inf(1)
	late := ended("a", 2, run.Timeout)
	late.Millis = -1e300
	late.Phases = []run.Phase{{Millis: 1e300}}
	r := New(runOf(2, "a", "a"), []run.Result{
		strange, late, ended("other", 1, run.Passed), ended("a", 0, run.Passed), ended("a", 3, run.Passed), ended("a", -1, run.Passed),
	})
	if s := r.Summary; s.Tasks != 1 || s.Trials != 2 || s.Passed != 0 || s.Missing != 0 || s.InfrastructureErrors != 1 || s.Timeout != 1 {
		t.Errorf("%+v", s)
	}
	if len(r.Wrong) != 6 {
		t.Errorf("%q", r.Wrong)
	}
	if ms := r.Tasks[0].Millis(); ms < 0 || ms > 1e10 {
		t.Errorf("%v ms", ms)
	}
	text := r.Text()
	if strings.Count(text, "changed by something other than belljar") != 6 {
		t.Errorf("not said:\n%s", text)
	}
}

// An error of no one is in the numbers all the same: they add up.
func TestErrorOfNoOne(t *testing.T) {
	t.Parallel()
	r := New(runOf(1, "a", "b"), []run.Result{bySide(ended("a", 1, run.Error), "someone"), bySide(ended("b", 1, run.Error), "")})
	if s := r.Summary; s.InfrastructureErrors != 2 || s.Counted != 0 || len(r.Wrong) != 2 || !strings.Contains(r.Text(), "not counted: 2 errors of the infrastructure") {
		t.Errorf("%+v, %q\n%s", s, r.Wrong, r.Text())
	}
}

// hostile has what acts on terminals, browsers, XML readers and eyes in each text.
const hostile = "\x1b]0;pwned\x07\x1b[2J\r\n<script>alert(1)</script>&#0;]]>\x00\x08\u202egnp\u2066\ufffe\uffff\xff\xc3\u200b\u009b31m\" onx='y' --> <!-- {{.}} \U000e0041\t"

// hostileRun has it wherever a run has text.
func hostileRun() (run.Run, []run.Result) {
	r := runOf(2, "plain", hostile)
	r.ID, r.Belljar, r.Config, r.Notices = hostile, hostile, hostile, []string{hostile}
	r.Agent = run.Agent{Kind: hostile, Command: []string{hostile}, Path: hostile, SHA256: hostile}
	r.Suite = run.Suite{Paths: []string{hostile}, SHA256: hostile}
	r.Options = run.Options{Filter: hostile, Shard: hostile}
	r.Tasks[1].Source, r.Tasks[1].Image, r.Tasks[1].Digest, r.Tasks[1].Grading, r.Tasks[1].Notices = hostile, hostile, hostile, hostile, []string{hostile}
	reward := math.Inf(-1)
	out := run.Output{Bytes: -1, SHA256: hostile, Tail: strings.Repeat(hostile, 200), Log: "javascript:" + hostile}
	bad := ended(hostile, 1, run.Failed)
	bad.Side, bad.Phase, bad.Cause, bad.Message, bad.Reward, bad.Rewards = hostile, hostile, hostile, hostile, &reward, map[string]float64{hostile: math.NaN()}
	bad.Refused, bad.Notices = []string{hostile}, []string{hostile}
	bad.Controls = []run.Control{{Name: hostile, Passed: true, Message: hostile}, {Name: hostile, Skipped: hostile}}
	bad.Artifacts = []run.Artifact{{Path: hostile, Mode: hostile, SHA256: hostile}}
	bad.Lingering = []sandbox.Process{{PID: -1, User: hostile, State: hostile, Command: hostile}}
	bad.Phases = []run.Phase{{Name: hostile, Detail: hostile, Status: hostile, Cause: hostile, Signal: hostile, Message: hostile, Container: hostile, Image: hostile, Stdout: out, Stderr: out,
		Evidence: sandbox.Evidence{DiskFull: []string{hostile}, KilledBy: hostile, StoppedBy: hostile, Source: hostile, OutputError: hostile, ListError: hostile, CollectError: hostile, RemoveError: hostile}}}
	other := bad
	other.Trial, other.Verdict = 2, hostile
	return r, []run.Result{bad, other, ended("plain", 1, run.Passed), ended(hostile+"2", 1, hostile)}
}

func TestTextHostile(t *testing.T) {
	t.Parallel()
	text := New(hostileRun()).Text()
	for _, r := range text {
		if r != '\n' && (r < ' ' || r >= 0x7f && r < 0xa0 || r == 0x202e || r == 0x2066 || r == 0x200b || r >= 0xfffe || r == '\ufffd') {
			t.Errorf("%U in the table", r)
		}
	}
	if lines := strings.Count(text, "\n"); lines > 20 {
		t.Errorf("%d lines: one is another's\n%s", lines, text)
	}
	if !strings.Contains(text, `\x1b]0;pwned`) {
		t.Errorf("not said:\n%s", text)
	}
}

// A large suite shows what did not pass.
func TestTextLarge(t *testing.T) {
	t.Parallel()
	var tasks []string
	var results []run.Result
	for i := range 200 {
		id := fmt.Sprintf("t%03d", i)
		tasks = append(tasks, id)
		verdict := run.Passed
		if i == 150 {
			verdict = run.Failed
		}
		results = append(results, ended(id, 1, verdict))
	}
	text := New(runOf(1, tasks...), results).Text()
	if strings.Count(text, "\n") > 10 || !strings.Contains(text, "t150") || !strings.Contains(text, "199 other tasks") {
		t.Errorf("%s", text)
	}
}

// How each step of a task ended is in all that is shown of a trial.
func TestStepsAreShown(t *testing.T) {
	half := 0.5
	r := run.Result{Steps: []run.Step{{Name: "one", Verdict: run.Passed}, {Name: "two\x1b", Verdict: run.Failed, Reward: &half, Message: "step two: reward 0.5"}}}
	if got := strings.Join(facts(r), "|"); !strings.Contains(got, "step one (0s): passed|") || !strings.Contains(got, "failed, reward 0.5: step two: reward 0.5") || strings.Contains(got, "\x1b") {
		t.Errorf("facts %q", got)
	}
	if lists := trialLists(r); len(lists) != 1 || lists[0].Name != "Steps" || len(lists[0].Lines) != 2 {
		t.Errorf("lists %+v", lists)
	}
}
