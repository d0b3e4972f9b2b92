package eval_test

import (
	"context"
	"fmt"
	"slices"
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
	sessions map[string][]sandbox.Command // in their order
}

func (w *watched) Start(ctx context.Context, c sandbox.Command) (sandbox.Execution, error) {
	w.mu.Lock()
	w.sessions[c.Session] = append(w.sessions[c.Session], c)
	w.mu.Unlock()
	return w.Runner.Start(ctx, c)
}

// Containers for grading are made ahead, where image and limits fit. Each is new: nothing ran there, and it
// is for one grading of one trial. None is left.
func TestSpares(t *testing.T) {
	b := engine(t)
	var tasks []suite.Task
	for i := range 4 {
		tasks = append(tasks, load(t, map[string]any{
			"id": fmt.Sprint("t", i), "image": python, "artifacts": []string{"a"}, "solve": "echo 42 >a", "memory_mb": 128 << (i / 2),
			"check": "[ ! -e /tmp/used ] && touch /tmp/used && test $(cat a) = 42",
		})...)
	}
	w := &watched{Runner: b.runner, sessions: map[string][]sandbox.Command{}}
	results := b.runWith(t, run.Run{Agent: run.Agent{Kind: run.Oracle}}, tasks, func(h *eval.Harness) { h.Runner, h.Jobs = w, 2 })
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
	ahead := 0
	for session, list := range w.sessions {
		i := slices.IndexFunc(list, func(c sandbox.Command) bool { return c.Script == ":" })
		switch {
		case i > 0:
			t.Errorf("session %s was used before it was made ahead", session)
		case i == 0 && len(list) > 1:
			ahead++
			if want, got := list[0].Limits.Memory, list[1].Limits.Memory; want != got {
				t.Errorf("session %s was made with %d bytes, and used with %d", session, want, got)
			}
		}
	}
	if ahead < len(tasks) {
		t.Errorf("%d containers were made ahead and used, of %d sessions", ahead, len(w.sessions))
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

// ending is a Runner that ends the first session before its third command.
type ending struct {
	eval.Runner
	mu       sync.Mutex
	session  string
	commands int
}

func (e *ending) Start(ctx context.Context, c sandbox.Command) (sandbox.Execution, error) {
	e.mu.Lock()
	if e.session == "" && c.Script != ":" {
		e.session = c.Session
	}
	if c.Session == e.session {
		e.commands++
	}
	end := e.commands == 3 && c.Session == e.session
	e.mu.Unlock()
	if end {
		if err := e.RemoveSession(ctx, c.Session); err != nil {
			return nil, err
		}
	}
	return e.Runner.Start(ctx, c)
}
