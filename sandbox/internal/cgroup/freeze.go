package cgroup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
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

var (
	// ErrNotFrozen is the error of WhileFreezing where the processes could not be frozen.
	ErrNotFrozen = errors.New("cannot freeze the container's processes")
	// ErrStayFrozen is the error of WhileFreezing where they may be frozen still.
	ErrStayFrozen = errors.New("cannot thaw the container's processes")
)

// WhileFreezing calls list repeatedly until it is done, while the group's processes
// freeze; the last call comes when all are frozen and none can fork. A group that
// is frozen already, such as a paused container's, stays frozen, unless a belljar froze it that was killed. A lock keeps
// out other belljar processes, which may list the same session.
func (g *Group) WhileFreezing(ctx context.Context, list func(frozen bool) (done bool)) (err error) {
	if g.freezer() == "" {
		return fmt.Errorf("%w: it has no control group for that", ErrNotFrozen)
	}
	ctx, cancel := context.WithTimeout(ctx, freezeTimeout)
	defer cancel()
	file, err := os.OpenFile(g.FreezerFile(), os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotFrozen, err)
	}
	defer file.Close() // which releases the lock
	if err := poll(ctx, func() bool { return unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil }); err != nil {
		return fmt.Errorf("%w: another belljar holds the lock", ErrNotFrozen)
	}
	if g.Frozen() && !g.marked() {
		list(true)
		return nil
	}
	unix.Setxattr(g.freezer(), mark, []byte{1}, 0) // who may not write it is as before
	defer func() {
		if failed := g.Freeze(file, false); failed != nil {
			err = fmt.Errorf("%w: %w", ErrStayFrozen, errors.Join(failed, err))
		}
	}()
	if err := g.Freeze(file, true); err != nil {
		return fmt.Errorf("%w: %w", ErrNotFrozen, err)
	}
	if err := poll(ctx, func() bool { return list(g.Frozen()) }); err != nil {
		return fmt.Errorf("%w within %v", ErrNotFrozen, freezeTimeout)
	}
	return nil
}

// mark is the attribute of a group's directory while a belljar freezes it, so that it is not taken for paused if that belljar
// is killed. Only root can write it.
const mark = "trusted.belljar.freezes"

func (g *Group) marked() bool {
	_, err := unix.Getxattr(g.freezer(), mark, nil)
	return err == nil
}

// Thaw resumes a group that a belljar froze which was killed before it could
// thaw it, or was about to. The caller knows that the container is not paused.
func (g *Group) Thaw() {
	if g.freezer() == "" {
		return
	}
	file, err := os.OpenFile(g.FreezerFile(), os.O_WRONLY, 0)
	if err != nil {
		return
	}
	defer file.Close()
	if unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
		g.Freeze(file, false)
	}
}

// freezer is the directory of FreezerFile, "" where none can be frozen.
func (g *Group) freezer() string { return cmp.Or(g.V2, g.Freezer) }

// FreezerFile is the file that freezes and thaws the group, "" where there is none.
func (g *Group) FreezerFile() string {
	if g.V2 != "" {
		return in(g.V2, "cgroup.freeze")
	}
	return in(g.Freezer, "freezer.state")
}

// Freeze freezes or thaws the group by its opened FreezerFile, and does not wait.
func (g *Group) Freeze(file *os.File, on bool) error {
	word := map[bool]string{false: "THAWED", true: "FROZEN"}[on]
	if g.V2 != "" {
		word = map[bool]string{false: "0", true: "1"}[on]
	}
	_, err := file.WriteString(word)
	if !on && err == nil {
		unix.Removexattr(g.freezer(), mark)
	}
	if errors.Is(err, unix.ENODEV) { // the group is gone, and all in it
		return nil
	}
	return err
}

// Frozen reports whether all processes of the group are frozen. A group that is removed
// has none.
func (g *Group) Frozen() bool {
	if g.freezer() == "" {
		return false
	}
	file, word := g.FreezerFile(), "FROZEN\n"
	if g.V2 != "" {
		file, word = in(g.V2, "cgroup.events"), "frozen 1\n"
	}
	text, err := ReadFile(file)
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
