// Package hostprog runs programs of the operator's own on belljar's host, bounded
// and in a group that ends with them.
package hostprog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// hostDrain is for a pipe that what a program started still holds, having left
// its process group.
const hostDrain = time.Second

// Run runs a program of the person's own in a process group of its own, and
// kills the group when the program ends or ctx is done. Its error is ctx's where
// that came first.
//
// The program runs in / with PATH, HOME, LANG and cmd.Env alone: belljar's own directory
// may be a stranger's, which some interpreters load code from, and its
// environment may hold secrets.
func Run(ctx context.Context, cmd *exec.Cmd) error {
	// The signal at our death is sent when the thread that forked ends: see
	// PR_SET_PDEATHSIG in prctl(2), and golang/go#27505.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.Dir, cmd.Env, cmd.WaitDelay, cmd.SysProcAttr = "/", append(hostEnv(), cmd.Env...), hostDrain, groupAttr()
	if err := cmd.Start(); err != nil {
		if e, ok := errors.AsType[*exec.Error](err); ok {
			err = e.Err
		}
		return fmt.Errorf("starting it: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		awaitEnd(cmd.Process.Pid)
		close(ended)
	}()
	var late error
	select {
	case <-ended:
	case <-ctx.Done():
		late = ctx.Err()
	}
	// It is not reaped yet, so the number is still its group's.
	syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	<-ended
	err := cmd.Wait()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // it ended well, and what it left running does not count
	}
	if late != nil {
		return late
	}
	return err
}

// hostEnv is what a program needs of our environment.
func hostEnv() []string {
	env := []string{}
	for _, name := range []string{"PATH", "HOME", "LANG"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// awaitEnd returns when our child of that number ended, and leaves it to be
// reaped: until then nothing else has its number.
func awaitEnd(pid int) {
	for {
		if err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != unix.EINTR {
			return
		}
	}
}
