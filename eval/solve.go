package eval

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"belljar/eval/run"
	"belljar/eval/suite"
	"belljar/sandbox"
)

// solve has the agent solve the task, and returns what it made.
func (t *trial) solve(ctx context.Context) (artifacts, outcome) {
	switch t.harness.Dir.Run.Agent.Kind {
	case run.Solutions:
		files, found, err := t.harness.Answers.Of(*t.task, t.number)
		if err != nil {
			return nil, outcome{verdict: run.Failed, side: run.BySolution, phase: run.Work, message: err.Error()}
		}
		if !found {
			return nil, outcome{verdict: run.Failed, side: run.BySolution, phase: run.Work, message: "there is no answer"}
		}
		return t.declared(ctx, files)
	case run.Oracle:
		return t.oracle(ctx)
	}
	return t.inContainer(ctx, t.worker())
}

// worker is what the agent does in a container, or nil if it needs none.
func (t *trial) worker() func(context.Context, *box) outcome {
	switch kind := t.harness.Dir.Run.Agent.Kind; {
	case t.aside, kind == run.Oracle:
		return t.ownSolution
	case kind == run.Program:
		return t.program
	case kind == run.Solutions:
		return nil
	}
	return func(context.Context, *box) outcome { return outcome{} }
}

// declared are the artifacts of an answer that was made elsewhere: its own files, and those
// that the task begins with.
func (t *trial) declared(ctx context.Context, files []sandbox.File) (artifacts, outcome) {
	begin, out := t.begin(ctx, t.task.Image)
	if out.verdict != "" {
		return nil, out
	}
	var made artifacts
	for _, f := range files {
		if !t.isDeclared(f.Path) {
			t.result.Refused = refuse(t.result.Refused, f.Path, "it is not declared")
			continue
		}
		made = append(made, f)
	}
	for _, f := range begin {
		if t.isDeclared(f.Path) && !slices.ContainsFunc(files, func(own sandbox.File) bool { return own.Path == f.Path }) {
			made = append(made, f)
		}
	}
	slices.SortFunc(made, func(a, b sandbox.File) int { return strings.Compare(a.Path, b.Path) })
	return made, outcome{}
}

// oracle makes the task's own solution.
func (t *trial) oracle(ctx context.Context) (artifacts, outcome) {
	s := t.task.Solution
	switch {
	case !s.Exists():
		return nil, outcome{verdict: run.Error, side: run.ByTask, phase: run.Work, message: "the task has no solution of its own"}
	case s.Script == "":
		return t.declared(ctx, s.Files)
	}
	return t.inContainer(ctx, t.ownSolution)
}

// ownSolution runs the task's own solution.
func (t *trial) ownSolution(ctx context.Context, b *box) outcome {
	s := t.task.Solution
	if s.Script == "" {
		return outcome{verdict: run.Error, side: run.ByTask, phase: run.Work, message: "the task has no solution of its own"}
	}
	if t.step != "" { // an earlier step's
		gone := b.do(ctx, run.Setup, "solution", func(c *sandbox.Command) { c.Script = "rm -rf " + suite.SolutionDir + "/*" })
		if out := gone.harness("removing the last step's solution"); out.verdict != "" {
			return out
		}
	}
	if len(s.With) > 0 {
		if out := b.put(ctx, run.Setup, "solution", sandbox.User{}, s.With, "").harness("writing the solution"); out.verdict != "" {
			return out
		}
	}
	step := b.do(ctx, run.Work, "oracle", func(c *sandbox.Command) {
		c.Script, c.Timeout, c.Env = inDir(t.task.Workdir, s.Script), t.task.Agent.Timeout, slices.Concat(c.Env, s.Env)
	})
	t.lingers(step.result.Lingering)
	out := step.fails(run.ByTask)
	if out.verdict == run.Error && step.result.Cause == sandbox.CauseExited {
		out.message = step.said()
	}
	return out
}

// inContainer gives an agent a container to work in, and takes out what it made.
func (t *trial) inContainer(ctx context.Context, work func(context.Context, *box) outcome) (artifacts, outcome) {
	b := t.agentBox()
	defer b.remove(ctx)
	t.aheadOfAgent(ctx)
	if out := t.ready(ctx, b); out.verdict != "" {
		return nil, out
	}
	return t.stage(ctx, b, work)
}

// stage has the agent work in a container that is ready, and takes out what it made.
func (t *trial) stage(ctx context.Context, b *box, work func(context.Context, *box) outcome) (artifacts, outcome) {
	if out := work(ctx, b); out.verdict != "" {
		return nil, out
	}
	for i, h := range t.task.Collect {
		s := b.do(ctx, run.Collect, fmt.Sprintf("hook %d", i+1), func(c *sandbox.Command) {
			c.Script, c.Timeout = inDir(t.task.Workdir, h.Command), h.Timeout
		})
		switch out := s.fails(run.BySolution); {
		case out.verdict == run.Error, s.lost != "":
			return nil, out
		case out.verdict != "":
			t.notice("[[verifier.collect]] %d: %s %s", i+1, out.message, strconv.Quote(lastLine(s.result.Stderr)))
		}
	}
	return t.take(ctx, b)
}

// agentBox is the container that an agent works in.
func (t *trial) agentBox() *box {
	dirs, bounds := append(t.task.Dirs(), suite.LogsDir), t.task.Agent
	if t.aside || t.harness.Dir.Run.Agent.Kind == run.Oracle {
		dirs = append(dirs, suite.SolutionDir)
	}
	if t.task.Grader.Shared || slices.ContainsFunc(t.task.Steps.List, func(s suite.Step) bool { return s.Task.Grader.Shared }) {
		dirs = append(dirs, suite.TestsDir, suite.RewardDir)
	}
	return t.newBox(t.task.Image, bounds, dirs, t.task.Env)
}

// ready makes a container as the task wants it to begin.
func (t *trial) ready(ctx context.Context, b *box) outcome {
	files, out := t.begin(ctx, t.task.Image)
	if out.verdict != "" {
		return out
	}
	return t.place(ctx, b, files, t.task.Setup, t.task.Ready)
}

// place writes files into the agent's container, and runs scripts there.
func (t *trial) place(ctx context.Context, b *box, files []sandbox.File, scripts ...string) outcome {
	dirs := []string{t.task.Workdir, suite.LogsDir}
	isThere := len(files) == 0 && !slices.ContainsFunc(dirs, func(d string) bool { return !b.has(d) })
	if !isThere || t.harness.Dir.Run.Agent.Kind == run.Program { // whose container must be there
		if out := b.harness(b.put(ctx, run.Setup, "files", sandbox.User{}, files, "mkdir -p "+words(dirs)), "writing the task's files"); out.verdict != "" {
			return out
		}
	}
	for _, script := range scripts {
		if script == "" {
			continue
		}
		s := b.do(ctx, run.Setup, "setup", func(c *sandbox.Command) {
			c.Script, c.Timeout = inDir(t.task.Workdir, script), t.task.Agent.Timeout
		})
		if out := b.harness(s, "running setup"); out.verdict != "" {
			return out
		}
	}
	return outcome{}
}

// begin are the files that a container of the task begins with.
func (t *trial) begin(ctx context.Context, image string) ([]sandbox.File, outcome) {
	if !t.task.Seed {
		return t.task.Files, outcome{}
	}
	seed, out := t.harness.seed(ctx, t, image)
	return over(seed, t.task.Files), out
}

// seed is what an image has in the task's working directory, where a container has an
// empty directory in memory. Its user must be able to read it.
func (h *Harness) seed(ctx context.Context, t *trial, image string) ([]sandbox.File, outcome) {
	key := image + " " + t.task.Workdir
	h.mu.Lock()
	known, ok := h.seeds[key]
	h.mu.Unlock()
	if ok {
		return known, outcome{}
	}
	b := t.newBox(image, t.task.Agent, nil, nil)
	defer b.remove(ctx)
	var made artifacts
	s, err := b.fetch(ctx, run.Setup, "cd / && [ -d "+quote("."+t.task.Workdir)+" ] || exit 0; exec tar -cf - "+quote("."+t.task.Workdir), func(from io.Reader) (err error) {
		made, _, err = unpacked(from, []suite.Artifact{{Path: t.task.Workdir}}, 0)
		if err == nil {
			_, err = io.Copy(io.Discard, from)
		}
		return err
	})
	out := s.harness("reading " + t.task.Workdir + " of the image")
	if out.verdict == "" && err != nil {
		out = s.outcome(run.Error, run.ByTask, "reading %s of the image: %v", t.task.Workdir, err)
	}
	if out.verdict != "" {
		return nil, out
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.seeds == nil {
		h.seeds = map[string]artifacts{}
	}
	h.seeds[key] = made
	return made, outcome{}
}
