package local

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/record"
)

// sessionPlace is the container of the command's session, which outlives it.
type sessionPlace struct {
	base
	turn      *sessionTurn
	reused    bool             // an earlier command ran in it
	before    sandbox.Counters // what was counted before the command
	ended     bool             // End was called
	endReason string           // why we ended the container
	empty     bool             // the last list; the record does not say so yet
	noticed   bool             // a notice says that the session is lost
}

func (p *sessionPlace) Info() sandbox.ContainerInfo {
	info := p.box.Info()
	info.Reused = p.reused
	return info
}

func (p *sessionPlace) Keeps() bool { return true }

// Start implements place. Where an init tells which process it started, that is recorded
// before anyone can list it.
func (p *sessionPlace) Start(ctx, patient context.Context, stdout, stderr io.Writer) (started process, err error) {
	if !byInit(p.box) {
		return p.base.Start(ctx, patient, stdout, stderr)
	}
	unwritten := p.turn.change(ctx, func(r *record.Record) error {
		if started, err = p.base.Start(ctx, patient, stdout, stderr); err != nil {
			return err
		}
		p.countBefore(ctx)
		if r.Container != p.box.Info().ID {
			return nil
		}
		if r.LastUsed = time.Now(); leader(started.running) != 0 {
			r.Started.SetLeader(leader(started.running), p.command.ID)
		} else {
			r.Started.AddCold(p.command.ID)
		}
		return nil
	})
	switch {
	case err == nil && started.running == nil:
		return started, unwritten
	case err == nil:
		p.turn.warnUnwritten(unwritten)
	}
	return started, err
}

// countBefore takes what was counted before the command, where the start tells it. Where that does not come it is what is counted now: a
// command is not blamed for what was before it.
func (p *sessionPlace) countBefore(ctx context.Context) {
	t, can := p.running.(teller)
	if !can {
		return
	}
	var ok bool
	if p.before, ok = t.Before(ctx); !ok {
		p.before, _ = p.box.Counters(ctx)
	}
}

// Processes lists what runs, without waiting gates. Where nothing does, the record has
// nothing to add, and Leave notes it: most commands leave nothing.
func (p *sessionPlace) Processes(ctx context.Context) (list []sandbox.Process, err error) {
	if byInit(p.box) && p.running != nil && isClosed(p.running.Exited()) && !p.command.Parallel { // so that no other command starts meanwhile
		list, err = p.processes(ctx)
		if p.empty = err == nil && len(list) == 0; p.empty {
			return list, nil
		}
	}
	err = p.turn.change(ctx, func(r *record.Record) error {
		list, err = p.listAttributed(ctx, r)
		return err
	})
	return list, err
}

func (p *sessionPlace) listAttributed(ctx context.Context, r *record.Record) ([]sandbox.Process, error) {
	list, err := p.box.Processes(ctx)
	if r.Container == p.box.Info().ID { // otherwise the record is about a newer container
		list = r.Started.WithoutGates(list)
		r.Started.Attribute(list, p.turn.session.active)
	}
	return list, err
}

func (p *sessionPlace) Counters(ctx context.Context) (sandbox.Counters, error) {
	c, err := p.counters(ctx)
	return ownCounters(c, p.before), err
}

// End ends the command with its container, or without it if none of its processes stays.
func (p *sessionPlace) End(ctx context.Context, why string) (c cleanup) {
	if p.ended {
		return c
	}
	p.ended = true
	why = strings.TrimSuffix(why, partialKept)
	if p.command.OnTimeout == sandbox.EndCommand {
		err := p.kill(ctx, &c)
		if err == nil {
			c.alone = true
			return c
		}
		c.killed = nil // not only these
		why = fmt.Sprintf("%s; could not confirm that its processes ended: %v", why, err)
	}
	p.endReason = why
	p.recordLoss(ctx, &c, why)
	if c.removeError = remove(ctx, p.box); c.removeError == "" {
		p.turn.local.upkeep.hungry.roomAgain()
	}
	return c
}

// EndedBy implements place. Who removes a session holds its record meanwhile.
func (p *sessionPlace) EndedBy(ctx context.Context) (why string) {
	p.turn.change(ctx, func(r *record.Record) error {
		switch now := time.Now(); {
		case r.Container != p.box.Info().ID:
			why = cmp.Or(r.EndOf(p.box.Info().ID), "the session was removed")
		case r.Lost != "" || r.IsExpired(now):
			why = r.LostReason(now)
		}
		return nil
	})
	return why
}

// recordLoss records that the session has no container any more, and why, before
// the container ends.
func (p *sessionPlace) recordLoss(ctx context.Context, c *cleanup, why string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), listTimeout)
	defer cancel()
	err := p.turn.change(ctx, func(r *record.Record) error {
		if r.Container != p.box.Info().ID {
			c.sessionLost = cmp.Or(r.EndOf(p.box.Info().ID), "it was removed")
			return nil
		}
		if now := time.Now(); r.Lost == "" {
			if p.endReason == "" && r.IsExpired(now) {
				why = r.LostReason(now)
			}
			r.Lost = fmt.Sprintf("command %s: %s", p.command.ID, why)
		}
		c.sessionLost = r.Lost
		return nil
	})
	p.turn.warnUnwritten(err)
	if !p.noticed {
		p.noticed = true
		c.notice("session %q is lost, including its files and processes", p.turn.session.name)
	}
}

func (t *sessionTurn) warnUnwritten(err error) {
	if err != nil {
		t.local.upkeep.log.Warn("writing a session's record failed", "session", t.session.name, "error", err)
	}
}

// Leave records the session's state after the command.
func (p *sessionPlace) Leave(ctx context.Context, result sandbox.Result, failed error) (c cleanup) {
	if p.ended {
		c.counters = finalCounters(ctx, p)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), createTimeout)
	defer cancel()
	t := p.turn
	// Where the fate is still unknown, the container is useless: the engine may report
	// its end only later.
	useless := isClosed(p.box.Lost()) || result.Cause == ""
	if useless && !p.neverBegan(failed) && p.isRemoved(ctx) {
		p.recordLoss(ctx, &c, p.whyLost(result))
	}
	if p.neverBegan(failed) { // an init does not need the image's shell: with one, the container is still there
		c.removeError = remove(ctx, p.box)
	}
	err := t.change(ctx, func(r *record.Record) error {
		if len(result.Lingering) > 0 {
			p.relist(ctx, r, &c)
		}
		delete(t.session.active, p.command.ID)
		if r.Container == p.box.Info().ID {
			if p.empty {
				r.Started.Attribute(nil, nil)
			}
			r.Started.RemoveCold(p.command.ID)
			r.LastUsed = time.Now()
			p.forgetIfNeverBegan(r, failed)
		}
		if len(t.session.active) == 0 && (useless || !t.local.isWarm()) { // else others use it
			t.session.detach(p.box)
		}
		return nil
	})
	if err != nil {
		t.warnUnwritten(err)
		t.undo(p) // the change above may not have run: else the command would seem to run for ever
	}
	if err == nil && t.local.isWarm() && !useless && !byInit(p.box) {
		t.local.sessions.retain(t.session)
		later := *t
		later.store.Turn = nil // it is over by then
		t.local.upkeep.all.Go(func() {
			defer t.local.sessions.release(t.session)
			later.openSpare(p.box, p.command.User)
		})
	}
	return c
}

// whyLost is the reason why belljar ended the container, if it did.
func (p *sessionPlace) whyLost(result sandbox.Result) string {
	switch {
	case p.endReason != "":
		return p.endReason
	case result.Message != "":
		return "its container was ended, not by belljar: " + result.Message
	}
	return "its container was ended, not by belljar"
}

// relist lists processes once more where some stayed: they may have started others since
// and ended, and later no one could tell which command those belong to.
func (p *sessionPlace) relist(ctx context.Context, r *record.Record, c *cleanup) {
	if isClosed(p.box.Lost()) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	if list, err := p.listAttributed(ctx, r); err == nil {
		c.listed, c.processes = true, list
	}
}

// neverBegan reports whether a new container runs nothing, as its image
// has no shell: nothing is lost with it.
func (p *sessionPlace) neverBegan(failed error) bool {
	return failed != nil && !p.reused && sandbox.CauseOf(failed) == sandbox.CauseImage
}

// forgetIfNeverBegan removes the session's record in that case.
func (p *sessionPlace) forgetIfNeverBegan(r *record.Record, failed error) {
	if p.neverBegan(failed) && r.Container == p.box.Info().ID {
		*r = record.Record{}
	}
}

// isRemoved reports whether the container is gone. If that is unknown, it may still
// exist: the next command finds out.
func (p *sessionPlace) isRemoved(ctx context.Context) bool {
	kept, err := p.turn.local.Engine.Sessions(ctx, p.turn.session.name)
	return err == nil && !slices.ContainsFunc(kept, func(k sandbox.Kept) bool { return k.ID == p.box.Info().ID })
}
