package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"belljar/sandbox"
)

const (
	// killScript ignores no signal and leaves a process running. It prints a line when
	// it runs.
	killScript = "echo started; sleep 1000 & sleep 1000"

	// killAfter is how long it runs.
	killAfter = sandbox.MinTimeout
)

// benchKill measures the end of a command that would keep running.
func benchKill(ctx context.Context, b *bench) (benchRow, error) {
	l := b.local(sandbox.PoolSize{})
	defer l.Close()
	ours := func(ctx context.Context) (time.Duration, error) { return timedOut(ctx, l) }
	a, t, err := alternate(ctx, max(5, b.count/4), ours, b.peer.killed)
	return newBenchRow("docker kill", a, t), err
}

// timedOut measures from the timeout to the result, which comes after the container
// is gone.
func timedOut(ctx context.Context, l sandbox.Runner) (time.Duration, error) {
	r, err := sandbox.Run(ctx, l, sandbox.Command{Script: killScript, Caller: caller(), Timeout: killAfter, IdleTimeout: sandbox.NoIdleTimeout})
	if err == nil && r.Status == sandbox.StatusCanceled {
		err = context.Canceled
	}
	if err != nil {
		return 0, err
	}
	if r.Cause != sandbox.CauseWallTimeout || r.Evidence.RemoveError != "" {
		return 0, fmt.Errorf("a command that passes its timeout ended with %s: %s %s", r.Cause, r.Message, r.Evidence.RemoveError)
	}
	return max(0, r.Timing.Total-r.Timing.Queued-r.Timing.Start-killAfter), nil
}

// killed measures from docker kill to the end of the docker run that it ends.
func (p *peer) killed(ctx context.Context) (time.Duration, error) {
	argv := p.run(killScript, "--name", p.name("kill"))
	cmd, said, cancel := process(ctx, argv)
	defer cancel()
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, processError(argv, err, said)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return 0, processError(argv, errors.Join(err, cmd.Wait()), said)
	}
	pause(ctx, killAfter) // cancelled or not, it is killed next
	begun := time.Now()
	_, err = p.output(ctx, "kill", p.name("kill"))
	if err != nil {
		cancel() // it would keep running; clear removes its container
	}
	ended := cmd.Wait()
	took := time.Since(begun)
	if err != nil {
		return 0, err
	}
	if exit, ok := errors.AsType[*exec.ExitError](ended); !ok || exit.ExitCode() != exitKilled {
		return 0, fmt.Errorf("docker run ended with %w, not with status %d: %s", ended, exitKilled, said)
	}
	return took, nil
}
