package oci

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/boxlink"
	"belljar/sandbox/internal/proc"
	"belljar/sandbox/listing"

	"golang.org/x/sys/unix"
)

// Sessions implements sandbox.Engine.
func (e *Engine) Sessions(_ context.Context, name string) (list []sandbox.Kept, err error) {
	all, err := e.containers()
	if err != nil {
		return nil, containersError(err)
	}
	for _, f := range all {
		r := f.record
		if !e.ours(f) || r.Session == "" || r.Owner != e.sessionOwner() || name != "" && r.Session != name {
			continue
		}
		if e.cutOff(f) {
			if err := e.sweep(f); err != nil && name != "" { // its name is not free; of a list the others are to be seen
				return nil, err
			}
			continue
		}
		if !r.ended() {
			list = append(list, sandbox.Kept{
				Session: r.Session, ID: f.id, Image: r.Image.Reference, ImageID: r.Image.ID, Print: r.Print, User: r.User, Created: r.Created, Deadline: r.Deadline,
			})
		}
	}
	return list, nil
}

// Adopt implements sandbox.Engine.
func (e *Engine) Adopt(ctx context.Context, kept sandbox.Kept) (sandbox.Container, error) {
	f, err := e.find(kept.ID)
	if err != nil {
		return nil, err
	}
	gone := func() error {
		return engineError(nil, "the container of session %q is gone", kept.Session).As(sandbox.CauseEngineLost).Hint("run the command again")
	}
	if !e.ours(f) || f.record.Session == "" || f.record.ended() {
		return nil, gone()
	}
	b := e.open(f)
	if b.link, err = f.record.dial(); err == nil {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		b.group.Thaw() // a belljar that was killed may have left it frozen
		err = b.link.Hello(ctx)
	}
	if err == nil {
		err = b.holdNamespace() // of an init that answered
	}
	if err != nil {
		b.close()
		if f.record.ended() {
			return nil, gone()
		}
		failed := engineError(err, "reaching the container of session %q, which runs", kept.Session)
		if errors.Is(err, errChannels) {
			return nil, failed.Hint("run the command again once one of them has ended")
		}
		return nil, failed.Hint(fmt.Sprintf("run the command again; if that does not help, remove the session: belljar session rm %s", kept.Session))
	}
	b.look()
	return b, nil
}

// Discard removes the container of a session that Adopt cannot open, as its init does not answer.
func (e *Engine) Discard(_ context.Context, kept sandbox.Kept) error {
	f, err := e.find(kept.ID)
	if err != nil || !e.ours(f) || f.record.Session == "" {
		return err
	}
	return e.sweep(f)
}

// dial connects to the init of a session. Its socket is in a directory that only its runtime sees.
func (r record) dial() (*boxlink.Link, error) {
	private, err := os.OpenFile(filepath.Join(fmt.Sprintf("/proc/%d/root", r.Parent.PID), r.private()), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer private.Close()
	if now, err := processOf(r.Parent.PID); err != nil {
		return nil, err
	} else if now != r.Parent { // another process got its PID
		return nil, errors.New("its runtime has ended")
	}
	return r.reach(private)
}

// find is the zero value for a container that is gone.
func (e *Engine) find(id string) (found, error) {
	all, err := e.containers()
	for _, f := range all {
		if f.id == id {
			return f, nil
		}
	}
	if err != nil {
		return found{}, containersError(err)
	}
	return found{}, nil
}

func containersError(err error) error {
	return engineError(err, "looking for containers").Hint("see: belljar doctor")
}

// open is a handle on a container, without a link.
func (e *Engine) open(f found) *box {
	b := newBox(e, f.id, f.name, f.record)
	b.group = f.group
	return b
}

// List returns belljar's containers.
func (e *Engine) List(context.Context) ([]listing.Container, error) {
	all, err := e.containers()
	if err != nil {
		return nil, containersError(err)
	}
	list := []listing.Container{}
	for _, f := range all {
		if f.group == nil {
			continue
		}
		r := f.record
		state := "running"
		switch {
		case !f.noted || r.First.PID == 0:
			state = "created"
		case r.First.ended():
			state = "exited"
		case f.group.Frozen():
			state = "paused"
		}
		c := listing.Container{ID: f.id, State: state, Foreign: !e.ours(f)}
		if c.Foreign {
			c.Created = f.group.Made()
			list = append(list, c)
			continue
		}
		c.Command, c.Pool, c.Session, c.Image = r.Command, r.Pool, r.Session, r.Image.Reference
		c.User, c.UserName, c.Created, c.Deadline, c.Owner = r.User.Numbers(), r.User.Name, r.Created, r.Deadline, f.process
		c.Orphaned = e.orphaned(f)
		list = append(list, c)
	}
	return list, nil
}

// cutOff reports whether a session's init runs though its runtime was killed: no one reaches it any more, and what it uses, such as
// its range of users, is another's to take.
func (e *Engine) cutOff(f found) bool {
	r := f.record
	return f.noted && r.Session != "" && f.host == e.owner.Host && !r.First.ended() && r.Parent.PID > 0 && r.Parent.ended()
}

// orphaned reports whether a container has no owner any more: the process that made it ended,
// and it is no session's that others may have, or is not finished.
func (e *Engine) orphaned(f found) bool {
	if e.cutOff(f) {
		return true
	}
	r := f.record
	kept := f.noted && r.Session != "" && !r.Own && !r.ended()
	return !kept && e.owner.Gone(f.host, f.process)
}

// FillProcesses fills in what runs in a container.
func (e *Engine) FillProcesses(ctx context.Context, c *listing.Container) error {
	f, err := e.find(c.ID)
	if err != nil {
		return err
	}
	if f.group == nil {
		return engineError(nil, "container %q is gone", c.ID).Hint("list again: belljar ps")
	}
	if !e.ours(f) {
		return engineError(nil, "container %q was not made by this user's belljar", c.ID).Hint("see what runs in it: cat " + filepath.Join(f.group.Pids, "cgroup.procs"))
	}
	if f.record.ownKernel() {
		c.Runs, err = e.listInside(ctx, f)
		return err
	}
	lister := proc.Lister{Group: f.group, KeeperUID: f.record.Keeper, HostUID: f.record.hostKeeper(), Taken: f.record.Root}
	c.Runs, err = lister.Processes(ctx)
	return err
}

// listInside lists what runs in a container with a kernel of its own: this host has only that kernel's processes. The init of
// a session tells every belljar, that of another container only the one that made it.
func (e *Engine) listInside(ctx context.Context, f found) (_ []sandbox.Process, err error) {
	if f.record.Session == "" {
		return nil, engineError(nil, "only the belljar that made container %q sees what runs in it", f.id).Hint("to see it, run the command in a session: belljar run --session NAME")
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	b := e.open(f)
	defer b.close()
	if b.link, err = f.record.dial(); err == nil {
		err = b.link.Hello(ctx)
	}
	if err != nil {
		return nil, engineError(err, "asking the init of container %q what runs in it", f.id).Hint("list again: belljar ps")
	}
	return b.Processes(ctx)
}

// Sweep removes this user's containers without an owner: those past their deadline, and those of
// belljar processes that have ended, which only a kill of the runtime, too, leaves behind.
// It returns how many it removed.
func (e *Engine) Sweep(ctx context.Context) (int, error) {
	all, err := e.containers()
	removed, errs := 0, []error{err}
	for _, f := range all {
		if ctx.Err() != nil { // the next sweep does the rest
			break
		}
		late := !f.record.Deadline.IsZero() && time.Now().After(f.record.Deadline)
		mine := e.ours(f) || !f.noted || f.dead() // without a record it is not finished
		if late && f.record.Session == "" {       // what its maker measures time by stands still while the host is suspended
			late = !e.owner.Runs(f.host, f.process)
		}
		_, left := e.left.Load(f.name)
		if !mine || !left && !e.orphaned(f) && !late {
			continue
		}
		if err := e.sweep(f); err != nil {
			errs = append(errs, err)
			continue
		}
		removed++
	}
	return removed, joined(errs...)
}

// dead reports whether nothing runs any more of a container that was finished. Its runtime was killed, or did
// not find its directory any more, which was removed.
func (f found) dead() bool { return f.noted && f.record.First.ended() && f.record.Parent.ended() }

func (e *Engine) sweep(f found) error {
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	if f.group != nil {
		f.group.Thaw() // a belljar that was killed may have left it frozen
	}
	proc.Signal(f.record.First.asListed(), unix.SIGKILL)
	awaitEnd(ctx, f.record.Parent)
	if err := e.removeGroup(f.name); err != nil {
		return engineError(err, "sweeping container %q", f.id).Hint("see: belljar doctor")
	}
	return nil
}
