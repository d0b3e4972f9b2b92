package eval

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"belljar/eval/run"
	"belljar/eval/suite"
	"belljar/internal/target"
	"belljar/sandbox"
)

// grade grades artifacts in a fresh container: really, or as a control.
func (t *trial) grade(ctx context.Context, made artifacts, c control) outcome {
	if c.missing {
		made = nil
	}
	if t.task.Grader.By == run.ByExpect {
		return t.expect(ctx, made, c)
	}
	return t.verify(ctx, made, c)
}

// expect runs the program under test with each input, in a container of its own, and compares
// its output here: there is nothing in the container that it could read or change.
func (t *trial) expect(ctx context.Context, made artifacts, c control) outcome {
	g := t.task.Grader
	script := inDir(t.task.Workdir, g.Command)
	if t.task.Setup != "" {
		script = inDir(t.task.Workdir, "(\n"+t.task.Setup+"\n) </dev/null >/dev/null || exit 92\n"+g.Command)
	}
	var last step
	for i, one := range g.Cases {
		b := t.newBox(g.Image, g.Bounds, t.task.Dirs(), slices.Concat(t.task.Env, g.Env))
		detail := c.detail(fmt.Sprintf("case %d", i+1))
		last = b.do(ctx, c.phase(), detail, func(cmd *sandbox.Command) {
			cmd.Session, cmd.Script, cmd.Timeout = "", script, g.Timeout
			cmd.Files, cmd.Stdin = append(t.beside(t.task.Files), made...), strings.NewReader(one.Stdin)
			cmd.Limits.Result += int64(len(one.Stdout))
		})
		if out := last.fails(run.BySolution); out.verdict != "" {
			out.message = detail + ": " + out.message
			return out
		}
		if got := last.result.Stdout; got.Dropped > 0 || !matches(g.Exact, got.Bytes(), one.Stdout) {
			return last.outcome(run.Failed, run.BySolution, "%s: the output differs: %s", detail, strconv.Quote(lastLine(got)))
		}
	}
	return last.outcome(run.Passed, "", "")
}

// over is files, and those that replace some of them.
func over(files []sandbox.File, with artifacts) (all []sandbox.File) {
	for _, f := range files {
		if !slices.ContainsFunc(with, func(w sandbox.File) bool { return w.Path == f.Path }) {
			all = append(all, f)
		}
	}
	return append(all, with...)
}

// verify runs the task's tests on the artifacts. The tests are another user's, and were
// there first; the artifacts' code cannot write them, and has no network.
func (t *trial) verify(ctx context.Context, made artifacts, c control) outcome {
	g := t.task.Grader
	b := t.graderBox()
	defer b.remove(ctx)
	if out := t.placeTests(ctx, b, c); out.verdict != "" {
		return out
	}
	then := ""
	if t.task.Setup != "" {
		then = inDir(t.task.Workdir, t.task.Setup)
	}
	files, out := t.begin(ctx, g.Image)
	if out.verdict != "" {
		return out
	}
	if files = t.beside(files); len(files) > 0 || then != "" {
		if out := b.put(ctx, c.phase(), c.detail("files"), sandbox.User{}, files, then).harness("placing the task's files"); out.verdict != "" {
			return out
		}
	}
	if out := b.put(ctx, c.phase(), c.detail("artifacts"), sandbox.User{}, made, "mkdir -p "+words([]string{t.task.Workdir, g.Workdir})).fails(run.BySolution); out.verdict != "" {
		out.message = "placing the artifacts: " + out.message
		return out
	}
	if c.more {
		t.ahead(ctx)
	}
	return t.runTests(ctx, b, c)
}

// ahead has a container made for the next grading of artifacts.
func (t *trial) ahead(ctx context.Context) {
	if g := t.task.Grader; g.By != run.ByExpect && !g.Shared && len(t.task.Steps.List) == 0 {
		t.harness.ahead(ctx, t.graderBase(), t.testsOwner())
	}
}

func (t *trial) graderEnv() []string {
	return slices.Concat(t.task.Env, []string{"PYTHONNOUSERSITE=1"}, t.task.Grader.Env)
}

// placeTests places the tests as another user's than those that run, unless all is root. As the
// container's first user that one owns the writable directories, too, which on Docker have the modes of the
// image's: it lets the others write to them.
func (t *trial) placeTests(ctx context.Context, b *box, c control) outcome {
	prepare := c.prepare(t.task.Grader)
	if t.task.Root {
		prepare = "mkdir -p " + words([]string{suite.TestsDir, suite.RewardDir, suite.LogsDir}) + " && " + prepare
	} else {
		dirs := slices.DeleteFunc(slices.Clone(b.base.Tmpfs), func(d string) bool { return d == suite.TestsDir })
		prepare = "chmod 1777 " + words(append(dirs, "/tmp", "/work")) + " && " + prepare
	}
	return b.put(ctx, c.phase(), c.detail("tests"), t.testsOwner(), c.replace(t.task.Grader.Tests), prepare).harness("placing the tests")
}

// runTests runs the tests, and finds their verdict.
func (t *trial) runTests(ctx context.Context, b *box, c control) outcome {
	g := t.task.Grader
	script := g.Script
	if c.script != "" {
		script = c.script
	}
	s := b.do(ctx, c.phase(), c.detail(""), func(cmd *sandbox.Command) {
		cmd.Script, cmd.Shell, cmd.Timeout, cmd.Env = inDir(g.Workdir, script), g.Shell, g.Timeout, t.graderEnv()
	})
	if g.By == run.ByReward {
		return t.rewarded(ctx, b, s, c)
	}
	if out := s.fails(run.BySolution); out.verdict != "" {
		return out
	}
	return s.outcome(run.Passed, "", "")
}

// beside are files that are not among the artifacts, of which only those count that were
// taken out.
func (t *trial) beside(files []sandbox.File) []sandbox.File {
	return slices.DeleteFunc(slices.Clone(files), func(f sandbox.File) bool { return t.isDeclared(f.Path) })
}

// isDeclared reports whether a file is an artifact of the task.
func (t *trial) isDeclared(name string) bool {
	return slices.ContainsFunc(t.task.Artifacts, func(a suite.Artifact) bool { return target.Within(a.Path, name) && !a.Excludes(name) }) || target.Within(suite.LogsDir, name)
}

// matches reports whether the output is what the case expects.
func matches(exact bool, got []byte, want string) bool {
	if exact {
		return string(got) == want
	}
	return bytes.Equal(trimLines(got), trimLines([]byte(want)))
}

// trimLines is text without white space at the ends of lines, and at its end.
func trimLines(text []byte) []byte {
	lines := bytes.Split(text, []byte("\n"))
	for i := range lines {
		lines[i] = bytes.TrimRight(lines[i], " \t\r")
	}
	return bytes.TrimRight(bytes.Join(lines, []byte("\n")), "\n")
}
