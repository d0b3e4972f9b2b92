package eval_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"belljar/eval"
	"belljar/eval/run"
	"belljar/eval/suite"
	"belljar/sandbox"
)

// watched is a Runner that notes what runs in which session.
type watched struct {
	eval.Runner
	mu       sync.Mutex
	sessions map[string][]noted // in their order
	all      int
}

// noted is a command, the n-th of all.
type noted struct {
	sandbox.Command
	n int
}

func (w *watched) Start(ctx context.Context, c sandbox.Command) (sandbox.Execution, error) {
	w.mu.Lock()
	w.all++
	w.sessions[c.Session] = append(w.sessions[c.Session], noted{c, w.all})
	w.mu.Unlock()
	return w.Runner.Start(ctx, c)
}

// Containers for grading are made ahead. Each is new: nothing ran there but what placed its tests, and it is for one
// grading of one trial. None is left. An agent on this host can reach them all: none is made while one works.
func TestSpares(t *testing.T) {
	b := engine(t)
	var tasks []suite.Task
	for i := range 4 {
		tasks = append(tasks, load(t, map[string]any{
			"id": fmt.Sprint("t", i), "image": python, "artifacts": []string{"a"}, "solve": "echo 42 >a", "memory_mb": 128 << (i / 2),
			"check": "[ ! -e /tmp/used ] && touch /tmp/used && test $(cat a) = 42",
		})...)
	}
	for _, agent := range []run.Agent{{Kind: run.Oracle}, {Kind: run.Program}} {
		w := &watched{Runner: b.runner, sessions: map[string][]noted{}}
		results := b.runWith(t, run.Run{Agent: agent}, tasks, func(h *eval.Harness) {
			h.Runner, h.Jobs = w, 2
			h.Program = writes{}
		})
		of := map[string]string{} // containers, and what they are for
		for _, r := range results {
			if r.Verdict != run.Passed {
				t.Errorf("%s: %s (%s)%s", r.Task, r.Verdict, r.Message, phases(r))
			}
			for _, p := range r.Phases {
				use := r.Task + " " + string(p.Name)
				if p.Name == run.Work || p.Name == run.Collect || p.Name == run.Setup {
					use = r.Task + " agent"
				}
				if p.Name == run.Check {
					use += " " + p.Detail[:4] // the control's
				}
				if before, again := of[p.Container]; again && before != use {
					t.Errorf("container %s is for %q and for %q", p.Container, before, use)
				}
				of[p.Container] = use
			}
		}
		agents := map[string][]noted{} // what agents' containers ran, by task
		for _, list := range w.sessions {
			if !places(list[0]) {
				agents[list[0].Description] = list
			}
		}
		ahead := 0
		for session, list := range w.sessions {
			if !places(list[0]) {
				continue
			}
			if len(list) > 2 || len(list) == 2 && list[0].Limits.Memory != list[1].Limits.Memory {
				t.Errorf("session %s: %+v", session, list)
			}
			if work := agents[list[0].Description]; list[0].n < work[len(work)-1].n {
				ahead++
			}
		}
		if want := map[bool]int{true: 0, false: len(tasks)}[agent.Kind == run.Program]; ahead != want {
			t.Errorf("%s: the tests were placed while an agent worked %d times, not %d", agent.Kind, ahead, want)
		}
	}
}

// writes is a program that solves tasks in their containers.
type writes struct{}

func (writes) Solve(ctx context.Context, w eval.Work) sandbox.Result {
	c := sandbox.Command{Script: "echo 42 >a"}
	x, err := w.Place.Start(ctx, c)
	if err != nil {
		return sandbox.Refused(c, err)
	}
	r, _ := x.Wait()
	return r
}

// places reports whether the command places tests.
func places(c noted) bool { return strings.Contains(c.Script, "tar -xpf") }

// Only their owner can write the tests, and anyone in the writable directories, whichever tar the image has.
func TestModes(t *testing.T) {
	b := engine(t)
	for _, image := range []string{python, "belljar/base"} {
		task := load(t, map[string]any{
			"id": "modes", "image": image, "answer": "a", "solution": "42", "tests": map[string]string{"t.sh": "true\n", "dir/u.sh": "true\n"},
			"check": "touch /tests/x 2>/dev/null || touch /tests/dir/x 2>/dev/null || echo >>/tests/t.sh || mkdir /tests/y || rm /tests/t.sh && exit 9; touch /tmp/y y && sh /tests/t.sh && sh /tests/dir/u.sh && test $(cat a) = 42",
		})
		if r := b.runWith(t, run.Run{Agent: run.Agent{Kind: run.Oracle}}, task, func(*eval.Harness) {})[0]; r.Verdict != run.Passed {
			t.Errorf("%s: %s (%s)%s", image, r.Verdict, r.Message, phases(r))
		}
	}
}

// Tests whose output is used may end with any status. Where a control says nothing about them, and no solution of the task's
// own shows that, a solution neither passed nor cheated.
func TestHonestWithoutSolution(t *testing.T) {
	b := engine(t)
	var answers []map[string]any
	var tasks []suite.Task
	for id, check := range map[string]string{
		"piped":   `perl /tests/a.pl | grep -q 3`,
		"equal":   `[ "$(perl /tests/a.pl)" = 3 ]`,
		"command": `perl -e '$s = <>; exit !($s == 1)' <a`,
	} {
		answers = append(answers, map[string]any{"id": id, "answer": "1"})
		tasks = append(tasks, load(t, map[string]any{"id": id, "image": python, "answer": "a", "check": check, "tests": map[string]string{"a.pl": "open F, '/work/a'; print 2 + <F>;\n"}})...)
	}
	list, err := suite.LoadAnswers(lines(t, answers...), tasks)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range b.runWith(t, run.Run{Agent: run.Agent{Kind: run.Solutions}}, tasks, func(h *eval.Harness) { h.Answers = list }) {
		if r.Task == "equal" && r.Verdict == run.Passed { // what is added prints something
			continue
		}
		if r.Verdict != run.Error || r.Side != run.ByTask || !strings.Contains(r.Message, "give the task a solution") {
			t.Errorf("%s: %s (%s) %+v%s", r.Task, r.Verdict, r.Message, r.Controls, phases(r))
		}
	}
}

// A container that is ended from outside before the tests run says nothing about the solution.
func TestLostContainer(t *testing.T) {
	b := engine(t)
	w := &ending{Runner: b.runner}
	task := load(t, map[string]any{"id": "lost", "image": python, "answer": "a", "solution": "42", "check": "test $(cat a) = 42"})
	r := b.runWith(t, run.Run{Agent: run.Agent{Kind: run.Oracle}}, task, func(h *eval.Harness) { h.Runner = w })[0]
	if r.Verdict != run.Passed || r.Attempt != 2 {
		t.Errorf("%s (%s) in attempt %d%s", r.Verdict, r.Message, r.Attempt, phases(r))
	}
}

// ending is a Runner that ends the first session before its second command.
type ending struct {
	eval.Runner
	mu       sync.Mutex
	session  string
	commands int
}

func (e *ending) Start(ctx context.Context, c sandbox.Command) (sandbox.Execution, error) {
	e.mu.Lock()
	if e.session == "" && strings.Contains(c.Script, "tar -xpf") {
		e.session = c.Session
	}
	if c.Session == e.session {
		e.commands++
	}
	end := e.commands == 2 && c.Session == e.session
	e.mu.Unlock()
	if end {
		if err := e.RemoveSession(ctx, c.Session); err != nil {
			return nil, err
		}
	}
	return e.Runner.Start(ctx, c)
}
