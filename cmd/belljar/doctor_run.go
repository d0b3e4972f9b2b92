package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"belljar"
	"belljar/config"
	"belljar/internal/boxinit"
	"belljar/sandbox"
)

// checkOrphans looks for containers that an engine's crash, or a kill in
// mid-creation, left.
func checkOrphans(ctx context.Context, p *patient) finding {
	list, err := p.host.Engine.List(ctx)
	if err != nil {
		return p.problem(err)
	}
	orphans := 0
	for _, m := range list {
		if m.Orphaned || !m.Deadline.IsZero() && time.Now().After(m.Deadline) {
			orphans++
		}
	}
	if orphans > 0 {
		return warn("the next belljar run removes them", "%s left behind by a belljar that has ended", containers(orphans))
	}
	return ok("none; %s in use", containers(len(list)))
}

func containers(n int) string {
	if n == 1 {
		return "1 container"
	}
	return fmt.Sprintf("%d containers", n)
}

// trialScript prints who it is and its kernel's version, leaves a process running and ends when its stdin
// does. It needs nothing but sh and sleep.
const trialScript = `read -r version </proc/version && echo "Kernel: $version"
while read -r key value; do
  case $key in Uid:|NoNewPrivs:|Seccomp:|CapEff:) echo "$key $value" ;; esac
done </proc/self/status
sleep 100 >/dev/null 2>&1 &
read -r _
exit 3`

const trialTimeout = 30 * time.Second

// trial is a real command, and what was observed while it ran.
type trial struct {
	result sandbox.Result
	err    error
	asked  time.Duration // how long the engine took to list the processes
	top    error         // its error
	left   bool          // the container still exists afterwards
}

// runTrial runs the command with the default profile. While it waits for its
// stdin, the engine lists its processes.
func (p *patient) runTrial(ctx context.Context) trial {
	var t trial
	limit := 2 * trialTimeout
	if engine, says := p.host.Engine.(interface{ StartTimeout() time.Duration }); says {
		limit += engine.StartTimeout() // so that it says why a container did not start in time
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	stdin, end := io.Pipe()
	defer end.Close()
	profile := p.config.Profiles[sandbox.DefaultProfile]
	x, err := belljar.New(p.host, p.config).Start(ctx, sandbox.Command{
		Script: trialScript, Caller: caller(), Stdin: stdin, Pull: p.pull(profile.Pull),
		Timeout: min(trialTimeout, profile.MaxTimeout), IdleTimeout: sandbox.NoIdleTimeout,
	})
	if err != nil {
		t.err = err
		return t
	}
	for event := range x.Events() {
		if event.Type == sandbox.EventStart {
			begun := time.Now()
			t.top = p.ask(ctx, x.ID())
			t.asked = time.Since(begun)
			end.Close()
		}
	}
	t.result, t.err = x.Wait()
	list, err := p.host.Engine.List(ctx)
	if t.err == nil {
		t.err = err
	}
	for _, m := range list {
		t.left = t.left || m.Command == x.ID()
	}
	return t
}

// ask finds the command's container, and has Docker list its processes.
func (p *patient) ask(ctx context.Context, command string) error {
	list, err := p.host.Engine.List(ctx)
	if err != nil {
		return err
	}
	for _, m := range list {
		if m.Command == command && p.docker != nil {
			return p.docker.Top(ctx, m.ID)
		}
		if m.Command == command {
			return nil
		}
	}
	return errors.New("the engine does not list the container of a running command")
}

const reportIt = "this should not happen: please report it, with the output of belljar doctor --format json"

func checkCommand(ctx context.Context, p *patient) finding {
	if p.noImage {
		return skip("no image")
	}
	p.trial = p.runTrial(ctx)
	if p.trial.err != nil {
		return p.problem(p.trial.err)
	}
	return p.trial.judge(p.config.Profiles[sandbox.DefaultProfile].User)
}

// judge is the finding about the command.
func (t trial) judge(user sandbox.User) finding {
	r := t.result
	if user.Name != "" {
		user = r.User // with the numbers from the image
	}
	if r.Cause != sandbox.CauseExited || r.ExitCode != 3 {
		return fail(reportIt, "a test command that exits with 3 ended with %s, exit code %d: %s %s", r.Cause, r.ExitCode, r.Message, r.Stderr.Bytes())
	}
	if lost := r.Evidence.OutputError; lost != "" {
		return fail("free space in belljar's state directory, or set XDG_STATE_HOME to another writable directory", "a command's output could not be kept: %s", lost)
	}
	if wrong := t.locked(user); len(wrong) > 0 {
		return fail(reportIt, "the test command is not locked down as it should be: it had %s", strings.Join(wrong, ", "))
	}
	if t.left || r.Evidence.RemoveError != "" {
		return fail(reportIt, "the container still exists after its command ended: %s", r.Evidence.RemoveError)
	}
	return ok("started in %d ms, finished after %d ms; exit code, output and lock-down are correct, and nothing is left",
		r.Timing.Start.Milliseconds(), (r.Timing.Total - t.asked).Milliseconds())
}

// said are the lines that the command printed, by their keys.
func (t trial) said() map[string]string {
	got := map[string]string{}
	for line := range strings.Lines(string(t.result.Stdout.Bytes())) {
		key, value, _ := strings.Cut(line, ":")
		got[key] = strings.Join(strings.Fields(value), " ")
	}
	return got
}

// ownKernel reports whether the command's kernel was not that of its host.
func (t trial) ownKernel() bool {
	return kata(t.result.Container.Runtime) || boxinit.GVisor(t.said()["Kernel"])
}

// locked are the lines of /proc/self/status that differ from a lock-down's. A
// runtime with its own kernel has its own meaning of seccomp.
func (t trial) locked(user sandbox.User) []string {
	want := map[string]string{"Uid": fmt.Sprintf("%d %[1]d %[1]d %[1]d", user.UID), "CapEff": strings.Repeat("0", 16)}
	if !t.ownKernel() {
		want["NoNewPrivs"], want["Seccomp"] = "1", "2"
	}
	got := t.said()
	var wrong []string
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if got[key] != want[key] {
			wrong = append(wrong, fmt.Sprintf("%s %q instead of %q", key, got[key], want[key]))
		}
	}
	return wrong
}

// checkProcesses reports whether belljar can list what commands leave running.
func checkProcesses(_ context.Context, p *patient) finding {
	if p.trial.result.Cause != sandbox.CauseExited {
		return skip("no command ran")
	}
	return p.trial.judgeList()
}

func (t trial) judgeList() finding {
	const ps = "install ps on the engine's host: apt-get install -y procps"
	r := t.result
	if r.Evidence.ListError != "" {
		if t.ownKernel() {
			return warn("use another runtime if you need that list", "cannot list the processes that a command leaves running: %s", r.Evidence.ListError)
		}
		return warn(ps, "cannot list the processes that a command leaves running: %s", r.Evidence.ListError)
	}
	seen := slices.ContainsFunc(r.Lingering, func(p sandbox.Process) bool { return strings.Contains(p.Command, "sleep 100") })
	switch {
	case !seen:
		return fail(reportIt, "a command left a process running, and belljar did not list it")
	case t.top != nil:
		return ok("belljar lists the processes that a command leaves running; the engine cannot: %v", t.top)
	}
	return ok("belljar lists the processes that a command leaves running")
}

// checkWay reports what starts commands. Without an init of belljar's own they are as
// isolated, and slower.
func checkWay(_ context.Context, p *patient) finding {
	way := p.trial.result.Container.Way
	if way == "" {
		return skip("no command ran")
	}
	if way == sandbox.WayInit {
		return ok("belljar's own init starts commands")
	}
	why := "it has no init of belljar's own"
	if told, tells := p.host.Engine.(interface{ Way() (way, why string) }); tells {
		_, why = told.Way()
	}
	if p.config.Engine.Init == config.NoInit {
		why = "engine.init is none"
	}
	return ok("the engine starts commands, which takes longer: %s", why)
}
