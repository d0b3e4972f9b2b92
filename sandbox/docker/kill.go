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
)

// killScript kills a process that has this PID and this start time, the twentieth
// field after its name. It needs nothing but sh.
const killScript = `set -f
k() { read -r s </proc/$1/stat || return; p=$1 t=$2; set -- ${s##*) }; [ "${20}" != "$t" ] || kill -9 $p; }
`

// Kill implements sandbox.Container: from this host where it sees the processes
// and may, else by kill(1) in the container, as the user that each runs as.
func (b *box) Kill(ctx context.Context, list []sandbox.Process) error {
	inside := map[int][]string{}
	for _, p := range list {
		if b.inspector.kill(p) {
			continue
		}
		if p.PID == 0 {
			return fmt.Errorf("killing process %d: its PID in the container is unknown", p.HostPID)
		}
		inside[p.UID] = append(inside[p.UID], fmt.Sprintf("k %d %d", p.PID, p.StartTicks))
	}
	var errs []error
	for _, uid := range slices.Sorted(maps.Keys(inside)) {
		errs = append(errs, b.killInside(ctx, uid, inside[uid]))
	}
	return errors.Join(errs...)
}

// killInside starts nothing as root, nor as the keeper: neither ran a command.
func (b *box) killInside(ctx context.Context, uid int, calls []string) error {
	killing, err := b.Exec(ctx, sandbox.Exec{
		// A process that is gone is no error, and one that is not is in the next list.
		Script: killScript + strings.Join(calls, "\n"), Dir: "/", User: sandbox.User{UID: uid, GID: uid}, Stdout: io.Discard, Stderr: io.Discard,
	})
	if err != nil {
		return fmt.Errorf("killing from inside: %w", err)
	}
	if _, err := killing.Wait(ctx); err != nil {
		return fmt.Errorf("killing from inside: %w", err)
	}
	return nil
}
