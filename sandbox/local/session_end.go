package local

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/gate"
	"belljar/sandbox/internal/record"
)

// killTimeout is how long a command's processes may take to be gone, with
// EndCommand; a container that is ended is gone for sure.
const killTimeout = 5 * time.Second

// list is what runs, without gates that wait, and whose it is.
func (t *sessionTurn) list(p *place) func(ctx context.Context) ([]sandbox.Process, error) {
	return func(ctx context.Context) (list []sandbox.Process, err error) {
		err = t.change(ctx, func(r *record.Record) error {
			list, err = t.attributed(ctx, p.box, r)
			return err
		})
		return list, err
	}
}

func (t *sessionTurn) attributed(ctx context.Context, box sandbox.Container, r *record.Record) ([]sandbox.Process, error) {
	list, err := box.Processes(ctx)
	if r.Container == box.Info().ID { // else the record is another container's by now
		list = r.Started.Commands(list)
		r.Started.Attribute(list, t.session.active)
	}
	return list, err
}

// finish ends the command: with its container, or alone if that can be proved.
func (t *sessionTurn) finish(p *place) func(ctx context.Context) {
	return func(ctx context.Context) {
		if p.ended {
			return
		}
		p.ended = true
		why := strings.TrimSuffix(t.x.result.Message, "; partial output kept")
		if t.x.command.OnTimeout == sandbox.EndCommand {
			err := t.killCommand(ctx, p)
			if err == nil {
				t.x.notice("%d of the command's processes were killed, and are gone; session %q goes on", len(t.x.result.Evidence.Killed), t.session.name)
				return
			}
			why = fmt.Sprintf("%s; that its processes are gone could not be proved: %v", why, err)
		}
		t.x.result.Evidence.Killed = nil // alone
		t.why = why
		t.lose(ctx, p.box, why)
		t.x.remove(ctx, p.box)
	}
}

// lose writes down that the session has no container any more, and why, before
// that is so. Without a reason, it was not belljar that ended it.
func (t *sessionTurn) lose(ctx context.Context, box sandbox.Container, why string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), listTimeout)
	defer cancel()
	err := t.change(ctx, func(r *record.Record) error {
		switch {
		case r.Container != box.Info().ID:
			t.x.result.SessionLost = "it was removed"
		case r.Lost == "":
			if why == "" {
				why = t.outside(r)
			}
			r.Lost = fmt.Sprintf("command %s: %s", t.x.command.ID, why)
			fallthrough
		default:
			t.x.result.SessionLost = r.Lost
		}
		return nil
	})
	if err != nil {
		t.x.local.house.log.Warn("a session's record cannot be written", "session", t.session.name, "error", err)
	}
	if !t.lost {
		t.lost = true
		t.x.notice("session %q is lost, with its files and processes", t.session.name)
	}
}

// outside says why the container ended under the command.
func (t *sessionTurn) outside(r *record.Record) string {
	if now := time.Now(); r.IsOver(now) {
		return r.Gone(now)
	}
	why := "its container ended, not by belljar"
	if t.x.result.Message != "" {
		why += ": " + t.x.result.Message
	}
	return why
}

// killCommand kills the command's processes until none is left in two lists, one
// after the other, that lack none.
func (t *sessionTurn) killCommand(ctx context.Context, p *place) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTimeout)
	defer cancel()
	for quiet := 0; quiet < 2; {
		list, err := p.list(ctx)
		if err != nil && isClosed(p.box.Lost()) {
			return err
		}
		own, unknown := t.own(list)
		if unknown != nil {
			return unknown
		}
		if len(own) > 0 {
			if err := p.box.Kill(ctx, own); err != nil && ctx.Err() == nil {
				return err
			}
			addKilled(&t.x.result.Evidence, own)
		}
		if quiet++; err != nil || len(own) > 0 {
			quiet = 0
		}
		if ctx.Err() != nil {
			return fmt.Errorf("some were left, or new ones had come, after %v", killTimeout)
		}
		if err == nil {
			t.x.result.Lingering, t.x.result.Evidence.ListError = list, ""
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
		}
	}
	return nil
}

// own are the command's processes. Where it may have more, that is an error. It
// names none of them: it is remembered, and they may hold secrets.
func (t *sessionTurn) own(list []sandbox.Process) (own []sandbox.Process, err error) {
	for _, process := range list {
		switch process.CommandID {
		case t.x.command.ID:
			own = append(own, process)
		case "":
			return nil, fmt.Errorf("which command started process %d is not known", process.PID)
		}
	}
	return own, nil
}

// leave writes down how the session goes on.
func (t *sessionTurn) leave(p *place) func(ctx context.Context) {
	return func(ctx context.Context) {
		if p.ended {
			t.x.recount(ctx, p)
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), createTimeout)
		defer cancel()
		// A fate that is not known yet will not be: the engine may tell of the
		// container's end only later.
		useless := isClosed(p.box.Lost()) || t.x.result.Cause == ""
		gone := useless && t.gone(ctx, p.box.Info().ID)
		if gone && !p.unbegun() {
			t.lose(ctx, p.box, t.why)
		}
		err := t.change(ctx, func(r *record.Record) error {
			t.settle(ctx, p.box, r)
			delete(t.session.active, t.x.command.ID)
			if r.Container == p.box.Info().ID {
				r.Started.Part(t.x.command.ID)
				r.LastUsed = time.Now()
				p.forgetUnbegun(r)
			}
			if useless || !t.x.local.isWarm() && len(t.session.active) == 0 {
				t.session.drop(p.box)
			}
			return nil
		})
		if err != nil {
			t.x.local.house.log.Warn("a session's record cannot be written", "session", t.session.name, "error", err)
		}
		if t.x.local.isWarm() && !useless {
			t.x.local.sessions.hold(t.session)
			t.x.local.house.all.Go(func() {
				defer t.x.local.sessions.letGo(t.session)
				t.prepare(p.box)
			})
		}
	}
}

// settle lists once more where something was left: it may have started others
// since, and gone, and whose they are could not be told later.
func (t *sessionTurn) settle(ctx context.Context, box sandbox.Container, r *record.Record) {
	if len(t.x.result.Lingering) == 0 || isClosed(box.Lost()) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	if list, err := t.attributed(ctx, box, r); err == nil {
		t.x.result.Lingering = list
	}
}

// gone asks whether the container is there no more. One that was lost sight of
// may be: that is the next command's to find out.
func (t *sessionTurn) gone(ctx context.Context, id string) bool {
	kept, err := t.x.local.Engine.Sessions(ctx, t.session.name)
	return err == nil && !slices.ContainsFunc(kept, func(k sandbox.Kept) bool { return k.ID == id })
}

// prepare opens a gate for the next command, and writes it down: it is no
// command's.
func (t *sessionTurn) prepare(box sandbox.Container) {
	ctx, cancel := context.WithTimeout(t.x.local.house.ctx, createTimeout)
	defer cancel()
	// The next command opens one itself where this fails.
	t.change(ctx, func(r *record.Record) error {
		s := t.session
		if s.box != box || s.spare != nil && s.spare.User == t.x.command.User.Unnamed() {
			return nil
		}
		if other := s.spare; other != nil {
			s.spare = nil
			t.endGate(ctx, r, box, other)
		}
		g, err := gate.Open(ctx, box, t.x.command.User)
		if err != nil {
			return err
		}
		s.spare = g
		r.Started.Wait(g.Pid)
		return nil
	})
}

// maxKilled bounds the processes that are told of.
const maxKilled = 256

// addKilled tells of processes that were killed, of each once.
func addKilled(e *sandbox.Evidence, list []sandbox.Process) {
	for _, p := range list {
		same := func(k sandbox.Process) bool {
			return k.PID == p.PID && k.HostPID == p.HostPID && k.StartTicks == p.StartTicks
		}
		if len(e.Killed) < maxKilled && !slices.ContainsFunc(e.Killed, same) {
			e.Killed = append(e.Killed, p)
		}
	}
}
