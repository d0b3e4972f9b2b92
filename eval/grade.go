package eval

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
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
		with := func(made artifacts, detail string) step {
			return b.do(ctx, c.phase(), detail, func(cmd *sandbox.Command) {
				cmd.Session, cmd.Script, cmd.Timeout = "", script, g.Timeout
				cmd.Files, cmd.Stdin = append(t.beside(t.task.Files), made...), strings.NewReader(one.Stdin)
				cmd.Limits.Result += int64(len(one.Stdout))
			})
		}
		last = with(made, detail)
		// What a command cannot have, as a file with the name of another's directory, is the solution's doing, and no way out of
		// the denominator. The same command without it shows that.
		if last.result.Cause == sandbox.CauseInvalid && len(made) > 0 {
			without := with(nil, detail+" without artifacts")
			switch out := without.fails(run.BySolution); {
			case out.verdict == run.Error && out.side == run.Infrastructure:
				return out // nothing is shown
			case without.result.Cause != sandbox.CauseInvalid:
				return last.outcome(run.Failed, run.BySolution, "%s: the artifacts cannot be placed: %s", detail, last.result.Message)
			}
		}
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
	b, placed := t.grader(ctx, c)
	defer b.remove(ctx)
	if out := c.doesNotApply(placed); out.verdict != "" {
		return out
	}
	if out := placed.harness("placing the tests"); out.verdict != "" {
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
	if c.next != nil {
		t.ahead(ctx, *c.next)
	}
	return t.runTests(ctx, b, c, made)
}

func (t *trial) graderEnv() []string {
	return slices.Concat(t.task.Env, []string{"PYTHONNOUSERSITE=1"}, t.task.Grader.Env)
}

// grader is a container that has the tests, which may have been made ahead.
func (t *trial) grader(ctx context.Context, c control) (*box, step) {
	if s := t.takeSpare(c); s != nil {
		return s.box, s.box.in(ctx, t.record(c.phase(), c.detail("tests"), s.placed, s.took))
	}
	b := t.graderBox()
	return b, b.do(ctx, c.phase(), c.detail("tests"), t.placing(b, c))
}

// placing is the command that places the tests as another user's than those that run, unless all is root. As the
// container's first user that one owns the writable directories, too, which on Docker have the modes of the
// image's: it lets the others write to them.
//
// GNU tar sets the modes of directories that exist, and BusyBox's does not: whether /tests then has two bits that no
// directory has shows which it was, and only the second needs chmod. Each process is 1 % of a small task's time.
func (t *trial) placing(b *box, c control) func(*sandbox.Command) {
	tests, script := c.replace(t.task.Grader.Tests), "umask 022; tar -xpf - -C / || exit 90\n"
	for i := range tests {
		tests[i].Mode &^= 0o022
	}
	if t.task.Root {
		script = "mkdir -p " + words([]string{suite.TestsDir, suite.RewardDir, suite.LogsDir}) + " || exit 90\n" + script + "chmod 755 " + suite.TestsDir + " || exit 90\n"
	} else {
		dirs := append(slices.DeleteFunc(slices.Clone(b.base.Tmpfs), func(d string) bool { return d == suite.TestsDir }), "/tmp", "/work")
		for _, dir := range dirs {
			tests = append(tests, sandbox.File{Path: dir, Mode: fs.ModeDir | fs.ModeSticky | 0o777})
		}
		tests = append(tests, sandbox.File{Path: suite.TestsDir, Mode: fs.ModeDir | fs.ModeSetuid | fs.ModeSetgid | 0o755})
		script += "[ -u " + suite.TestsDir + " ] && [ -g " + suite.TestsDir + " ] || { chmod 1777 " + words(dirs) + " && chmod 755 " + suite.TestsDir + "; } || exit 90\n"
	}
	return func(cmd *sandbox.Command) {
		cmd.User, cmd.Script, cmd.Stdin = t.testsOwner(), script+c.prepare(t.task.Grader), packed(tests)
	}
}

// runTests places artifacts and runs the tests, and finds their verdict.
func (t *trial) runTests(ctx context.Context, b *box, c control, made artifacts) outcome {
	g := t.task.Grader
	script := g.Script
	if c.script != "" {
		script = c.script
	}
	script = inDir(g.Workdir, script)
	if dirs := b.makeDirs(t.task.Workdir, g.Workdir); dirs != "" && !g.Shared {
		script = dirs + "\n" + script
	}
	if len(made) > 0 { // by the tests' own command: one more would take longer than many tests
		script = "(umask 022; exec tar -xf - -C /) || { echo 'the artifacts cannot be placed' >&2; exit 90; }\nexec </dev/null\n" + script
	}
	s := b.do(ctx, c.phase(), c.detail(""), func(cmd *sandbox.Command) {
		cmd.Script, cmd.Shell, cmd.Timeout, cmd.Env = script, g.Shell, g.Timeout, t.graderEnv()
		if len(made) > 0 {
			cmd.Stdin = packed(made)
		}
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
