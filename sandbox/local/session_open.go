package local

import (
	"cmp"
	"context"
	"time"

	"belljar/internal/names"
	"belljar/sandbox"
	"belljar/sandbox/internal/record"
)

// opened is what opening a session found, also if it failed.
type opened struct {
	user  sandbox.User  // the command's, with its numbers; zero where they are unknown
	image sandbox.Image // the container's
	lost  string        // why the session's previous container is gone
}

// open gives the command its place in the session's container, with a gate.
func (t *sessionTurn) open(ctx context.Context, image sandbox.Image) (place, opened, error) {
	ctx, cancel := context.WithTimeout(ctx, t.local.upkeep.create)
	defer cancel()
	p := &sessionPlace{turn: t}
	var found opened
	var noGate error // no reason to forget the container: unrecorded, it would not expire
	err := t.change(ctx, func(r *record.Record) (err error) {
		if found, err = t.findOrCreate(ctx, r, image, p); err != nil {
			return err
		}
		noGate = t.startGate(ctx, r, p)
		return nil
	})
	if err != nil && p.box != nil && !p.reused { // new, and not recorded: no command would find out how long it may stay
		if problem := remove(ctx, p.box); problem != "" {
			t.local.upkeep.log.Warn("a session that could not be recorded may have a container", "session", t.session.name, "error", problem)
		}
	}
	if err == nil {
		err = noGate
	}
	if err != nil {
		t.undo(p)
		return nil, found, timeoutError(ctx, err, "opening the session's container", t.local.upkeep.create)
	}
	return p, found, nil
}

// startGate opens the command's gate, and records that the command runs. Where an init starts
// it, Start does.
func (t *sessionTurn) startGate(ctx context.Context, r *record.Record, p *sessionPlace) error {
	t.approval.save(r)
	before := make(chan sandbox.Counters, 1)
	go func() { // while the gate answers
		var c sandbox.Counters
		if !tells(p.box) {
			c, _ = p.box.Counters(ctx)
		}
		before <- c
	}()
	err := t.openGate(ctx, r, p)
	p.before = <-before
	if !byInit(p.box) || !p.reused {
		r.LastUsed = time.Now()
	}
	switch {
	case err != nil:
		p.forgetIfNeverBegan(r, err)
		return err
	case p.gate != nil:
		r.Started.SetLeader(p.gate.PID, p.command.ID)
	case !byInit(p.box):
		r.Started.AddCold(p.command.ID)
	}
	t.session.active[p.command.ID] = true
	return nil
}

// undo reverts open after it failed.
func (t *sessionTurn) undo(p *sessionPlace) {
	t.session.access <- struct{}{}
	defer func() { <-t.session.access }()
	delete(t.session.active, t.command.ID)
	if p.gate != nil {
		p.gate.Close()
	}
	if len(t.session.active) == 0 {
		t.session.detach(nil)
	}
}

// findOrCreate finds or makes the session's container, and makes it the command's
// place.
func (t *sessionTurn) findOrCreate(ctx context.Context, r *record.Record, image sandbox.Image, p *sessionPlace) (found opened, err error) {
	s := t.session
	if err := t.find(ctx, r); err != nil {
		return found, err
	}
	has := ""
	if s.box != nil {
		has = s.box.Info().ID
	}
	if err := t.approval.check(s.name, has); err != nil {
		return found, err
	}
	if s.box != nil {
		if err := t.narrowing.fits(t.command, s.made, image); err != nil {
			return found, err
		}
		// A session keeps its image, even if the name means another one now.
		image, p.reused = sandbox.Image{Reference: s.made.Image, ID: s.made.ImageID}, true
	} else if r.Container != "" {
		found.lost = r.LostReason(time.Now())
	}
	if s.box == nil && t.command.Existing {
		return found, notThere(s.name, found.lost)
	}
	p.command, p.secrets, found.image = t.command, t.secrets, image
	if err = t.local.upkeep.checkShell(ctx, t.command, image); err != nil {
		return found, err
	}
	if p.command.User, err = t.local.upkeep.user(ctx, image, t.command.User); err != nil {
		return found, err
	}
	found.user = p.command.User
	if s.box == nil {
		if err = t.local.upkeep.checkNewDir(ctx, p.command, image); err != nil {
			return found, err
		}
		err = t.create(ctx, r, specOf(p.command, image))
	}
	p.box = s.box
	return found, err
}

// notThere refuses a command that is for an existing session.
func notThere(name, lost string) error {
	if lost != "" {
		return sandbox.Invalid("start a new one: belljar run --session "+name+" COMMAND", "session %q was lost: %s", name, lost)
	}
	return sandbox.Invalid("start it: belljar run --session "+name+" COMMAND", "no session %q", name)
}

// create makes the session's container.
func (t *sessionTurn) create(ctx context.Context, r *record.Record, spec sandbox.Spec) (err error) {
	s, life := t.session, t.profile.Session
	spec.Session, spec.Command = s.name, names.NewID()
	spec.Deadline = time.Now().Add(life.Max)
	spec.Workspace, spec.Idle = t.profile.Workdir, life.Idle
	if s.box, err = t.local.Engine.Create(ctx, spec); err != nil {
		s.box = nil
		return err
	}
	var before record.Former
	if r.Container != "" {
		before = record.Former{Container: r.Container, Lost: r.LostReason(time.Now())}
	}
	s.made = sandbox.Kept{Image: spec.Image.Reference, ImageID: spec.Image.ID, Print: spec.Print(), User: spec.User}
	*r = record.Record{
		Session: s.name, Container: s.box.Info().ID, Image: spec.Image.Reference, Workdir: t.profile.Workdir, Created: time.Now(), Deadline: spec.Deadline, Idle: life.Idle,
		Before: before,
	}
	return nil
}

// find opens the session's container, if it still has one.
func (t *sessionTurn) find(ctx context.Context, r *record.Record) error {
	s := t.session
	if s.box != nil && (isClosed(s.box.Lost()) || s.box.Info().ID != r.Container || r.Lost != "") {
		t.session.detach(nil)
	}
	if s.box != nil {
		return nil
	}
	kept, err := t.local.Engine.Sessions(ctx, s.name)
	if err != nil {
		return err
	}
	for _, k := range kept {
		box, err := t.local.adopt(ctx, k)
		if sandbox.CauseOf(err) == sandbox.CauseEngineLost {
			continue // it was just removed
		}
		if err != nil {
			return err
		}
		if r.Container == k.ID && r.Lost != "" { // ending it failed, or belljar died before that
			err := box.Remove(ctx)
			box.Close()
			if err != nil {
				return err
			}
			continue
		}
		s.box, s.made = box, k
		if r.Container != k.ID || r.Found { // the process that made it died before it could record it, or the record was of another engine's
			*r = record.Record{Session: s.name, Container: k.ID, Image: k.Image, Workdir: cmp.Or(k.Workspace, t.profile.Workdir), Created: k.Created, Deadline: k.Deadline, Idle: cmp.Or(k.Idle, t.profile.Session.Idle)}
			r.Started.Strangers(box.Processes(ctx))
		}
		return nil
	}
	return nil
}
