package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"belljar/sandbox"
)

// side does one of the two things that are compared, once, and returns how long it
// took.
type side func(ctx context.Context) (time.Duration, error)

// alternate measures both sides n times. They take turns, so that changes in the host's
// load affect both, and the first turn of each only warms the engine's caches.
func alternate(ctx context.Context, n int, ours, theirs side) (a, b measured, err error) {
	var took [2][]time.Duration
	for i := range 2 * (n + 1) {
		if ctx.Err() != nil {
			return a, b, ctx.Err()
		}
		d, err := [2]side{ours, theirs}[i%2](ctx)
		if err != nil {
			return a, b, err
		}
		if i >= 2 {
			took[i%2] = append(took[i%2], d)
		}
	}
	return oneByOne(took[0]), oneByOne(took[1]), nil
}

// timedRun measures a command on a Runner, from the call to its result, which must
// be a success, and pass check.
func timedRun(ctx context.Context, r sandbox.Runner, c sandbox.Command, check func(sandbox.Result) error) (time.Duration, error) {
	c.Caller = caller()
	begun := time.Now()
	result, err := sandbox.Run(ctx, r, c)
	took := time.Since(begun)
	if err == nil && result.Status == sandbox.StatusCanceled {
		err = context.Canceled
	}
	if err == nil && result.Status != sandbox.StatusSuccess {
		err = fmt.Errorf("belljar's command ended with %s, exit code %d: %s %s", result.Cause, result.ExitCode, result.Message, result.Stderr.Bytes())
	}
	if err == nil && check != nil {
		err = check(result)
	}
	return took, err
}

// processTimeout is more than any of the processes takes, so that a hanging engine
// does not block the bench for ever.
const processTimeout = 3 * time.Minute

// wholeProcess is a side that is a process: from its start to its end, which must
// be a success. Its output goes to /dev/null.
func wholeProcess(argv []string) side {
	return func(ctx context.Context) (time.Duration, error) {
		cmd, said, cancel := process(ctx, argv)
		defer cancel()
		begun := time.Now()
		err := cmd.Run()
		return time.Since(begun), processError(argv, err, said)
	}
}

// process is a command that Ctrl-C does not end, not even at a terminal: a docker run
// that is killed can leave a container that never starts, and all of them end
// soon. Its stderr is kept.
func process(ctx context.Context, argv []string) (*exec.Cmd, *bytes.Buffer, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), processTimeout)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	said := &bytes.Buffer{}
	cmd.Stderr = said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd, said, cancel
}

func processError(argv []string, err error, said *bytes.Buffer) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("running %q: %w: %s", argv[0], err, strings.TrimSpace(said.String()))
}

// pause waits, or until ctx is cancelled.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
