package eval

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"belljar/eval/run"
	"belljar/eval/suite"
	"belljar/sandbox"
)

// keeper owns what the harness puts into a container and commands of the task or of a solution
// may not change: the tests. Commands run as another user.
var keeper = sandbox.User{UID: 65530, GID: 65530}

const (
	// stepTimeout is for what the harness itself does in a container.
	stepTimeout = 2 * time.Minute
	// endTimeout is for removing a container.
	endTimeout = time.Minute
	// keptOutput is how much of a command's output is logged.
	keptOutput = 1 << 20
)

// box is a container of one trial, and what all its commands have in common.
type box struct {
	trial *trial
	base  sandbox.Command
	id    string // of the container, once a command ran in it
	used  bool   // code of the solution ran in it

	witness *box // see solution
}

// solution says that code of the solution is to run in the container. From then on, what is wrong there is its doing, also
// that the container is gone: but not where its witness is, too, in which nothing runs.
func (b *box) solution(ctx context.Context) {
	if b.used = true; b.witness == nil {
		b.witness = b.trial.newBox(b.base.Image, suite.Bounds{}, nil, nil)
		b.witness.base.Profile, b.witness.base.Description = b.base.Profile, "the witness of an eval"
	}
	b.witness.stands(ctx)
}

// stands reports whether a witness's container is the one that it was.
func (b *box) stands(ctx context.Context) bool {
	c := b.base
	c.Script = ":"
	r, err := sandbox.Run(ctx, b.trial.harness.Runner, c)
	was := b.id
	b.id = r.Container.ID
	return err == nil && r.Status == sandbox.StatusSuccess && was != "" && was == b.id
}

// isOwn reports whether it is the solution's doing that the container is gone: an engine that ends takes its witness, too.
func (b *box) isOwn(ctx context.Context) bool { return b.used && b.witness.stands(ctx) }

// harness is the outcome of a step of our own: see step.harness.
func (b *box) harness(s step, what string) outcome {
	if !b.used {
		return s.harness(what)
	}
	out := s.fails(run.BySolution)
	if out.verdict != "" {
		out.message = what + ": " + out.message
	}
	return out
}

var boxes atomic.Int64

// newSession is a name for a session.
func (h *Harness) newSession() string {
	return fmt.Sprintf("%s%d-%d", h.sessions(), time.Now().UnixNano()%1e12, boxes.Add(1))
}

// newBox describes a container, which is made with its first command.
func (t *trial) newBox(image string, bounds suite.Bounds, dirs []string, env []string) *box {
	b := &box{trial: t, base: t.commands(image, bounds, dirs)}
	b.base.Env, b.base.Session = env, t.harness.newSession()
	return b
}

// graderBox is one that grades.
func (t *trial) graderBox() *box {
	g := t.task.Grader
	dirs := append(t.task.Dirs(), suite.TestsDir, suite.LogsDir)
	if g.By == run.ByReward {
		dirs = append(dirs, suite.RewardDir)
	}
	return t.newBox(g.Image, g.Bounds, dirs, t.graderEnv())
}

// testsOwner is whose the tests are. It runs the first command of their container, which has the directories in
// memory, too.
func (t *trial) testsOwner() sandbox.User {
	if t.task.Root {
		return sandbox.User{}
	}
	return keeper
}

// commands is what all commands of a container have in common.
func (t *trial) commands(image string, bounds suite.Bounds, dirs []string) sandbox.Command {
	if t.task.Root {
		dirs = []string{} // the root is writable
	}
	return sandbox.Command{
		Profile: t.harness.profile(t.task), Image: image, Tmpfs: dirs, Network: network(bounds), Limits: boundsOf(t.task, bounds),
		Streams: sandbox.StreamsFull, IdleTimeout: sandbox.NoIdleTimeout, Timeout: stepTimeout, Dir: "/tmp", OnOutputLimit: sandbox.OutputTruncate,
		Description: fmt.Sprintf("eval of task %.200s, trial %d", t.task.ID, t.number),
	}
}

// has reports whether a directory is in the container from its beginning.
func (b *box) has(dir string) bool {
	return dir == "/tmp" || dir == "/work" || slices.Contains(b.base.Tmpfs, dir)
}

// makeDirs is a script that makes those of the directories that are not, or "".
func (b *box) makeDirs(dirs ...string) string {
	dirs = slices.DeleteFunc(slices.Compact(dirs), b.has)
	if len(dirs) == 0 {
		return ""
	}
	return "mkdir -p " + words(dirs)
}

// do runs a command in the container, and records it as a phase.
func (b *box) do(ctx context.Context, name run.PhaseName, detail string, change func(c *sandbox.Command)) step {
	c := b.base
	change(&c)
	began := time.Now()
	x, err := b.trial.harness.Runner.Start(ctx, c)
	if err != nil {
		return b.trial.record(name, detail, sandbox.Refused(c, err), time.Since(began))
	}
	r, _ := x.Wait()
	return b.in(ctx, b.trial.record(name, detail, r, time.Since(began)))
}

// in says of a command whether it ran in the container that those before it ran in. If that is gone, the
// command has an empty one, which says nothing about what was in the other.
func (b *box) in(ctx context.Context, s step) step {
	switch id := s.result.Container.ID; {
	case b.base.Session == "" || id == "":
	case b.id == "":
		b.id = id
	case b.id != id:
		s.lost, s.own = cmp.Or(s.result.SessionLost, "it was ended"), b.isOwn(ctx)
	}
	return s
}

// put writes files into the container, as the user that runs commands, or the keeper.
func (b *box) put(ctx context.Context, name run.PhaseName, detail string, user sandbox.User, files []sandbox.File, then string) step {
	script := "umask 022; tar -xf - -C / || exit 90"
	if then != "" {
		script += "\n" + then
	}
	return b.do(ctx, name, detail, func(c *sandbox.Command) {
		c.User, c.Script, c.Stdin = user, script, packed(files)
	})
}

// remove ends the container, whatever runs in it, while the trial goes on: see trial.closed.
func (b *box) remove(ctx context.Context) {
	t := b.trial
	if b.witness != nil {
		b.witness.remove(ctx)
	}
	t.removing.Go(func() {
		if err := t.harness.removeSession(ctx, b.base.Session); err != nil {
			t.left.Store(b.base.Session, err)
		}
	})
}

// removeSession tries again if the engine fails: it may just restart.
func (h *Harness) removeSession(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	for {
		err := h.Runner.RemoveSession(ctx, name)
		if err == nil || sandbox.CauseOf(err) == sandbox.CauseInvalid { // there is none
			return nil
		}
		select {
		case <-time.After(engineRetry):
		case <-ctx.Done():
			return err
		}
	}
}

// fetch runs a script whose stdout is an archive, and reads it while it comes.
func (b *box) fetch(ctx context.Context, name run.PhaseName, script string, read func(io.Reader) error) (step, error) {
	c := b.base
	c.Script, c.Streams = script, sandbox.StreamsFull
	began := time.Now()
	x, err := b.trial.harness.Runner.Start(ctx, c)
	if err != nil {
		return b.trial.record(name, "", sandbox.Refused(c, err), time.Since(began)), nil
	}
	from, to := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := read(from)
		from.CloseWithError(io.ErrClosedPipe)
		if err != nil {
			x.Kill()
		}
		ended <- err
	}()
	var result sandbox.Result
	for e := range x.Events() {
		switch e.Type {
		case sandbox.EventStdout:
			to.Write(e.Data) // it fails once the reader has enough
		case sandbox.EventResult:
			result = *e.Result
		}
	}
	to.Close()
	err = <-ended
	result.Stdout.Head, result.Stdout.Tail = nil, nil // the archive is no log
	return b.in(ctx, b.trial.record(name, "", result, time.Since(began))), err
}

// quote quotes a word for the shell.
func quote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// inDir is a script that runs in a directory of the container.
func inDir(dir, script string) string { return "cd " + quote(dir) + " || exit 91\n" + script }

// words are quoted words.
func words(list []string) string {
	quoted := make([]string, len(list))
	for i, w := range list {
		quoted[i] = quote(w)
	}
	return strings.Join(quoted, " ")
}
