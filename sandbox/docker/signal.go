package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"belljar/sandbox"

	"golang.org/x/sys/unix"
)

// signalScript sends a signal to a process that has this PID and this start time, the
// twentieth field after its name. It needs nothing but sh.
const signalScript = `set -f
k() { read -r s </proc/$1/stat || return; p=$1 t=$2; set -- ${s##*) }; [ "${20}" != "$t" ] || kill -%d $p; }
`

// Signal implements sandbox.Container: from this host where it sees the processes
// and may, else by kill(1) in the container, as the user that each runs as.
func (b *box) Signal(ctx context.Context, list []sandbox.Process, signal sandbox.Signal) error {
	number := unix.SignalNum(string(signal))
	if number == 0 {
		return engineError(nil, "signal %.80q is unknown", string(signal)).As(sandbox.CauseInvalid).Hint("give a name such as SIGTERM")
	}
	inside := map[int][]string{}
	byInit, err := b.attached(ctx)
	if err == nil && byInit != nil {
		defer byInit.Release()
	}
	for _, p := range list {
		if b.inspector.signal(p, number) {
			continue
		}
		if byInit != nil && p.PID != 0 && (p.UID > 0 || b.root != "") {
			if err := byInit.Signal(ctx, p.PID, p.StartTicks, number); err == nil {
				continue
			}
		}
		call := fmt.Sprintf("k %d %d", p.PID, p.StartTicks)
		if p.PID == 0 {
			// Where only the engine lists, all that runs is the command's, and so all of
			// that user's processes may get it; but not in a session.
			if b.spec.Session != "" {
				return fmt.Errorf("sending a signal to process %d: its PID in the container is unknown", p.HostPID)
			}
			call = fmt.Sprintf("kill -%d -1", number)
		}
		if !slices.Contains(inside[p.UID], call) {
			inside[p.UID] = append(inside[p.UID], call)
		}
	}
	var errs []error
	for _, uid := range slices.Sorted(maps.Keys(inside)) {
		errs = append(errs, b.signalInside(ctx, uid, fmt.Sprintf(signalScript, number)+strings.Join(inside[uid], "\n")))
	}
	return errors.Join(errs...)
}

// signalInside starts nothing as root, nor as the keeper: neither ran a command.
func (b *box) signalInside(ctx context.Context, uid int, script string) error {
	killing, err := b.Exec(ctx, sandbox.Exec{
		// A process that is gone is no error, and one that is not is in the next list.
		Script: script, Dir: "/", User: sandbox.User{UID: uid, GID: uid}, Stdout: io.Discard, Stderr: io.Discard,
	})
	if err == nil {
		_, err = killing.Wait(ctx)
	}
	if err != nil {
		return fmt.Errorf("sending a signal from inside: %w", err)
	}
	return nil
}
