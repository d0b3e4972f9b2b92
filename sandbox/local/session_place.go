package local

import (
	"context"
	"errors"
	"fmt"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/gate"
	"belljar/sandbox/internal/record"
)

// place is the session's container, with a gate in it.
func (t *sessionTurn) place(ctx context.Context, image sandbox.Image) (*place, error) {
	ctx, cancel := context.WithTimeout(ctx, createTimeout)
	defer cancel()
	p := &place{keeps: true}
	var noGate error // which is no reason to forget the container: nothing would end it when idle
	err := t.change(ctx, func(r *record.Record) (err error) {
		if p.reused, err = t.open(ctx, r, image); err != nil {
			return err
		}
		p.box = t.session.box
		t.x.standing.settle(r)
		before := make(chan sandbox.Counters, 1)
		go func() { // beside the gate's answer
			c, _ := p.box.Counters(ctx)
			before <- c
		}()
		noGate = t.openGate(ctx, r, p)
		p.before = <-before
		r.LastUsed = time.Now()
		if noGate != nil {
			p.failed = noGate
			p.forgetUnbegun(r)
			return nil
		}
		if p.gate != nil {
			r.Started.Lead(p.gate.Pid, t.x.command.ID)
		} else {
			r.Started.Join(t.x.command.ID)
		}
		t.session.active[t.x.command.ID] = true
		return nil
	})
	if err == nil {
		err = noGate
	}
	if err != nil {
		t.undo(p)
		return nil, late(ctx, err, "opening the session's container")
	}
	p.list, p.end, p.leave = t.list(p), t.finish(p), t.leave(p)
	return p, nil
}

// unbegun tells of a container that was just made and runs nothing, as its image
// has no shell: it is gone, and nothing was lost with it.
func (p *place) unbegun() bool {
	return p.failed != nil && !p.reused && sandbox.CauseOf(p.failed) == sandbox.CauseImage
}

// forgetUnbegun has the session be none, where that is so.
func (p *place) forgetUnbegun(r *record.Record) {
	if p.unbegun() && r.Container == p.box.Info().ID {
		*r = record.Record{}
	}
}

// undo takes back what place did before it failed.
func (t *sessionTurn) undo(p *place) {
	t.session.use <- struct{}{}
	defer func() { <-t.session.use }()
	delete(t.session.active, t.x.command.ID)
	if p.gate != nil {
		p.gate.Close()
	}
	if len(t.session.active) == 0 {
		t.session.drop(nil)
	}
}

// open sees to it that the session has a container, and tells whether it had.
func (t *sessionTurn) open(ctx context.Context, r *record.Record, image sandbox.Image) (reused bool, err error) {
	s := t.session
	if err := t.find(ctx, r); err != nil {
		return false, err
	}
	has := ""
	if s.box != nil {
		has = s.box.Info().ID
	}
	if err := t.x.standing.holds(s.name, has); err != nil {
		return false, err
	}
	if s.box != nil {
		if err := t.x.narrowing.fits(t.x.command, s.made, image); err != nil {
			return false, err
		}
		// Its image stays, whatever the name means by now.
		return true, t.x.become(ctx, sandbox.Image{Reference: s.made.Image, ID: s.made.ImageID})
	}
	if r.Container != "" {
		t.x.result.SessionLost = r.Gone(time.Now())
		t.x.output.emit(sandbox.Event{Type: sandbox.EventNotice, Data: fmt.Appendf(nil, "session %q was lost, with its files and processes: %s; a new container is made", s.name, t.x.result.SessionLost)})
	}
	if err := t.x.become(ctx, image); err != nil {
		return false, err
	}
	spec, life := specOf(t.x.command, image), t.x.profile.Session
	spec.Session, spec.Command = s.name, newID()
	spec.Deadline = time.Now().Add(life.Max)
	if s.box, err = t.x.local.Engine.Create(ctx, spec); err != nil {
		return false, err
	}
	s.made = sandbox.Kept{Image: image.Reference, ImageID: image.ID, Print: spec.Print(), User: spec.User}
	*r = record.Record{Session: s.name, Container: s.box.Info().ID, Image: image.Reference, Created: time.Now(), Deadline: spec.Deadline, Idle: life.Idle}
	return false, nil
}

// find opens the container that the session has, if it has one still.
func (t *sessionTurn) find(ctx context.Context, r *record.Record) error {
	s := t.session
	if s.box != nil && (isClosed(s.box.Lost()) || s.box.Info().ID != r.Container || r.Lost != "") {
		t.session.drop(nil)
	}
	if s.box != nil {
		return nil
	}
	kept, err := t.x.local.Engine.Sessions(ctx, s.name)
	if err != nil {
		return err
	}
	for _, k := range kept {
		box, err := t.x.local.Engine.Adopt(ctx, k)
		if sandbox.CauseOf(err) == sandbox.CauseEngineLost {
			continue // it went just now
		}
		if err != nil {
			return err
		}
		if r.Container == k.ID && r.Lost != "" { // its end failed, or its belljar's came first
			err := box.Remove(ctx)
			box.Close()
			if err != nil {
				return err
			}
			continue
		}
		s.box, s.made = box, k
		if r.Container != k.ID { // made by a process that did not live to write it down
			*r = record.Record{Session: s.name, Container: k.ID, Image: k.Image, Created: k.Created, Deadline: k.Deadline, Idle: t.x.profile.Session.Idle}
		}
		return nil
	}
	return nil
}

// openGate takes the gate that waits, if it is the command's user's, or opens one. A command that no gate can
// be told has none, nor one of a session in which none lasts: what earlier
// commands left may end a gate or make it stand still, as it may the command,
// whose fate tells of that. Only secrets need a gate.
func (t *sessionTurn) openGate(ctx context.Context, r *record.Record, p *place) error {
	told, ok := t.x.delivery()
	if !ok || t.x.command.TTY != nil {
		return nil
	}
	p.told = told
	if g := t.session.spare; g != nil && g.User == t.x.command.User.Unnamed() {
		t.session.spare = nil
		if g.Answers(ctx) {
			p.gate = g
			return nil
		}
		t.endGate(ctx, r, p.box, g)
	}
	g, err := gate.Open(ctx, p.box, t.x.command.User)
	if err == nil && !g.Answers(ctx) {
		err = gate.Mute("it said its PID, and nothing when it was asked")
	}
	if err == nil {
		p.gate = g
		return nil
	}
	t.endGate(ctx, r, p.box, g)
	var isMute gate.MuteError
	if errors.As(err, &isMute) && ctx.Err() == nil && len(t.x.secrets) == 0 {
		return nil
	}
	return err
}

// endGate ends a gate that does not answer; nil is one that is closed. One that
// stands still does not heed that, and is killed: it would be nobody's process
// for as long as the container lives.
func (t *sessionTurn) endGate(ctx context.Context, r *record.Record, box sandbox.Container, g *gate.Gate) {
	if g != nil {
		r.Started.Unwait(g.Pid)
		g.Close()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), listTimeout)
	defer cancel()
	list, _ := box.Processes(ctx) // which may have it also where it lacks others
	if strays := r.Started.Strays(list); len(strays) > 0 {
		if err := box.Kill(ctx, strays); err != nil {
			t.x.local.house.log.Warn("a shell that does not answer may still be there", "session", t.session.name, "error", err)
		}
	}
}

// drop lets go of the container, which the session no longer has or which is
// gone.
func (s *session) drop(box sandbox.Container) {
	if s.box == nil || box != nil && s.box != box {
		return
	}
	if s.spare != nil {
		s.spare.Close()
		s.spare = nil
	}
	s.box.Close()
	s.box = nil
}
