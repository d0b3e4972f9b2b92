// Package hostprog runs the operator's programs on belljar's host, bounded
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

// hostDrain is the time limit for a pipe that a process which left the process
// group still holds.
const hostDrain = time.Second

// Run runs a program of the user's in a new process group, and
// kills the group when the program ends or ctx is done. Its error is ctx's if
// that came first.
//
// The program runs in / with only PATH, HOME, LANG and cmd.Env: belljar's own directory
// may belong to someone else, and some interpreters load code from it, and its
// environment may hold secrets.
func Run(ctx context.Context, cmd *exec.Cmd) error {
	// PR_SET_PDEATHSIG's signal is sent when the thread that forked ends: see
	// prctl(2), and golang/go#27505.
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
	// It is not reaped yet, so its number still belongs to its group.
	syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	<-ended
	err := cmd.Wait()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // it succeeded; what it left running does not count
	}
	if late != nil {
		return late
	}
	return err
}

// hostEnv is the part of belljar's environment that a program needs.
func hostEnv() []string {
	env := []string{}
	for _, name := range []string{"PATH", "HOME", "LANG"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// awaitEnd returns when the child of that number has ended, and leaves it to be
// reaped: until then no other process has its number.
func awaitEnd(pid int) {
	for {
		if err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != unix.EINTR {
			return
		}
	}
}
