package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// freezeTimeout bounds how long processes may take to freeze: each needs a
	// moment of CPU time, and one that waits for a disk needs its answer first.
	freezeTimeout = time.Second

	// freezePause is the time between two checks of whether they are frozen.
	freezePause = 100 * time.Microsecond
)

var errNotFrozen = errors.New("cannot freeze the container's processes")

// whileFreezing calls list repeatedly until it is done, while the group's processes
// freeze; the last call comes when all are frozen and none can fork. A group that
// is frozen already, such as a paused container's, stays frozen. A lock keeps out other
// belljar processes, which may list the same session.
func (g *cgroup) whileFreezing(ctx context.Context, list func(frozen bool) (done bool)) (err error) {
	ctx, cancel := context.WithTimeout(ctx, freezeTimeout)
	defer cancel()
	file, err := os.OpenFile(g.freezerFile(), os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("%w: %w", errNotFrozen, err)
	}
	defer file.Close() // which releases the lock
	if err := poll(ctx, func() bool { return unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil }); err != nil {
		return fmt.Errorf("%w: another belljar holds the lock", errNotFrozen)
	}
	if g.frozen() {
		list(true)
		return nil
	}
	defer func() { err = errors.Join(err, g.freeze(file, false)) }()
	if err := g.freeze(file, true); err != nil {
		return fmt.Errorf("%w: %w", errNotFrozen, err)
	}
	if err := poll(ctx, func() bool { return list(g.frozen()) }); err != nil {
		return fmt.Errorf("%w within %v", errNotFrozen, freezeTimeout)
	}
	return nil
}

// thaw resumes a group that a belljar froze which was killed before it could
// thaw it. The caller knows that the container is not paused.
func (g *cgroup) thaw() {
	if !g.frozen() {
		return
	}
	file, err := os.OpenFile(g.freezerFile(), os.O_WRONLY, 0)
	if err != nil {
		return
	}
	defer file.Close()
	if unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
		g.freeze(file, false)
	}
}

// freezerFile is the file that freezes and thaws the group.
func (g *cgroup) freezerFile() string {
	if g.v2 != "" {
		return filepath.Join(g.v2, "cgroup.freeze")
	}
	return filepath.Join(g.freezer, "freezer.state")
}

func (g *cgroup) freeze(file *os.File, on bool) error {
	word := map[bool]string{false: "THAWED", true: "FROZEN"}[on]
	if g.v2 != "" {
		word = map[bool]string{false: "0", true: "1"}[on]
	}
	_, err := file.WriteString(word)
	if errors.Is(err, unix.ENODEV) { // the group is gone, and all in it
		return nil
	}
	return err
}

// frozen reports whether all processes of the group are frozen. A group that is removed
// has none.
func (g *cgroup) frozen() bool {
	file, word := g.freezerFile(), "FROZEN\n"
	if g.v2 != "" {
		file, word = filepath.Join(g.v2, "cgroup.events"), "frozen 1\n"
	}
	text, err := os.ReadFile(file)
	return errors.Is(err, unix.ENODEV) || strings.Contains(string(text), word)
}

// poll waits until the condition is true, or ctx ends.
func poll(ctx context.Context, is func() bool) error {
	for !is() {
		select {
		case <-time.After(freezePause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
