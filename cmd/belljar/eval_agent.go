package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"belljar/cmd/internal/approvals"
	"belljar/cmd/internal/tracing"
	"belljar/config"
	"belljar/eval"
	evalrun "belljar/eval/run"
	"belljar/sandbox"

	"belljar"
)

// hostAgent is a program of the operator's, on this host. For each trial it is started by
// belljar keep, which ends its processes, and gets the address of a sidecar that has the
// trial's container and nothing else.
type hostAgent struct {
	run    string // the run's ID
	agent  evalrun.Agent
	runner *belljar.Runner
	config *config.Config
}

// agentDirs is what the names of the run's directories for agents begin with.
func agentDirs(run string) string { return filepath.Join(os.TempDir(), "belljar-eval-"+run+"-") }

// newHostAgent checks that the program can be run at all.
func newHostAgent(run string, agent evalrun.Agent, runner *belljar.Runner, c *config.Config) (*hostAgent, error) {
	if err := servable(c, "belljar eval"); err != nil {
		return nil, err
	}
	c.Serve = config.Serve{Listen: c.Serve.Listen, MaxConnections: c.Serve.MaxConnections, MaxRequests: c.Serve.MaxRequests, MaxBody: c.Serve.MaxBody, DrainTimeout: time.Nanosecond}
	return &hostAgent{run, agent, runner, c}, nil
}

// clean removes what a killed belljar left of the run.
func (a *hostAgent) clean() {
	left, _ := filepath.Glob(agentDirs(a.run) + "*")
	for _, dir := range left {
		os.RemoveAll(dir)
	}
}

// Solve implements eval.Program.
func (a *hostAgent) Solve(ctx context.Context, w eval.Work) (r sandbox.Result) {
	dir, err := os.MkdirTemp("", filepath.Base(agentDirs(a.run))+"*")
	if err != nil {
		r.Fail(fmt.Errorf("making a directory for the agent: %w", err))
		return r
	}
	defer os.RemoveAll(dir)
	instruction := filepath.Join(dir, "instruction.md")
	if err := os.WriteFile(instruction, []byte(w.Task.Instruction), 0o600); err != nil {
		r.Fail(fmt.Errorf("writing the instruction: %w", err))
		return r
	}
	address := "unix://" + filepath.Join(dir, "socket")
	stop, err := a.serve(ctx, w.Place, dir, address)
	if err != nil {
		r.Fail(fmt.Errorf("serving the agent's container: %w", err))
		return r
	}
	env := []string{
		"BELLJAR_TASK=" + w.Task.ID, "BELLJAR_TRIAL=" + strconv.Itoa(w.Trial), "BELLJAR_SESSION=" + w.Place.Session(),
		"BELLJAR_INSTRUCTION=" + instruction, "BELLJAR_HOST=" + address,
	}
	r = a.start(ctx, env, w.Timeout)
	if err := stop(); err != nil && r.Cause != sandbox.CauseCanceled {
		r.Fail(fmt.Errorf("serving the agent's container: %w", err))
	}
	return r
}

// serve runs a sidecar for one trial, until stop. That ends the commands that still run.
func (a *hostAgent) serve(ctx context.Context, place *eval.Workplace, dir, address string) (stop func() error, err error) {
	c := *a.config
	c.Serve.Listen = address
	s := &sidecar{config: &c, runner: a.runner, spans: &tracing.Tracing{}, log: slog.New(slog.DiscardHandler), ended: place.Ended}
	if err := s.assemble(place, filepath.Join(dir, "executions"), &approvals.Approvals{}); err != nil {
		return nil, err
	}
	listener, err := s.listen(ctx)
	if err != nil {
		return nil, errors.Join(err, s.book.Close())
	}
	signals, served := make(chan os.Signal, 1), make(chan error, 1)
	go func() { served <- s.serve(context.WithoutCancel(ctx), listener, signals) }()
	return func() error {
		signals <- os.Interrupt
		return errors.Join(<-served, listener.Close())
	}, nil
}

// start runs the program to its end.
func (a *hostAgent) start(ctx context.Context, env []string, timeout time.Duration) (r sandbox.Result) {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var stdout, stderr bounded
	ended, err := keep(limited, keeping{a.agent.Command, a.agent.Dir, append(agentEnv(), env...)}, &stdout, &stderr)
	r.Stdout, r.Stderr = stdout.output(), stderr.output()
	switch {
	case err != nil:
		r.Fail(err)
	case ctx.Err() != nil:
		r.Fail(ctx.Err())
	case limited.Err() != nil:
		r.Status, r.Cause, r.ExitCode = sandbox.StatusTimeout, sandbox.CauseWallTimeout, sandbox.ExitEnded
		r.Message = fmt.Sprintf("still running after %s (timeout)", sandbox.FormatDuration(timeout))
	case ended.Signal != "":
		r.Status, r.Cause, r.ExitCode, r.Signal = sandbox.StatusError, sandbox.CauseSignaled, ended.Status, ended.Signal
		r.Message = "ended by " + ended.Signal
	case ended.Status != 0:
		r.Status, r.Cause, r.ExitCode, r.Message = sandbox.StatusError, sandbox.CauseExited, ended.Status, fmt.Sprintf("exit status %d", ended.Status)
	default:
		r.Status, r.Cause = sandbox.StatusSuccess, sandbox.CauseExited
	}
	if ended.Left > 0 && err == nil && limited.Err() == nil {
		r.Message = strings.TrimPrefix(fmt.Sprintf("%s, %d of its processes still ran and were ended", r.Message, ended.Left), ", ")
	}
	return r
}

// agentEnv is the operator's environment, without what is belljar's: the agent uses the
// sidecar of its trial only.
func agentEnv() (env []string) {
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "BELLJAR_") {
			env = append(env, kv)
		}
	}
	return env
}

// agentProgram is a command of the operator's as a run keeps it, to be found again by resume.
func agentProgram(args []string) (a evalrun.Agent, err error) {
	a = evalrun.Agent{Kind: evalrun.Program, Command: args}
	if _, err := exec.LookPath(args[0]); err != nil {
		return a, sandbox.Invalid("name a program on this host after --, such as: -- ./agent.sh", "the agent cannot be started: %v", err)
	}
	a.Dir, err = os.Getwd()
	return a, err
}

// bounded keeps the beginning and the end of an output.
type bounded struct {
	head, tail []byte
	total      int64
}

// keptHalf is how much it keeps of each.
const keptHalf = 512 << 10

func (b *bounded) Write(p []byte) (int, error) {
	n := len(p)
	b.total += int64(n)
	first := min(len(p), keptHalf-len(b.head))
	b.head, p = append(b.head, p[:first]...), p[first:]
	b.tail = append(b.tail, p[max(0, len(p)-keptHalf):]...)
	if len(b.tail) > 2*keptHalf { // not with each write
		b.tail = bytes.Clone(b.tail[len(b.tail)-keptHalf:])
	}
	return n, nil
}

func (b *bounded) output() sandbox.Output {
	tail := b.tail[max(0, len(b.tail)-keptHalf):]
	return sandbox.Output{Head: b.head, Tail: tail, Total: b.total, Dropped: b.total - int64(len(b.head)+len(tail))}
}
