package local

import (
	"context"
	"errors"
	"fmt"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/record"
)

const (
	// expirePause is the time between two searches for idle sessions.
	expirePause = 5 * time.Second

	// forgetLost is how long the loss of an unused session is
	// remembered.
	forgetLost = 24 * time.Hour
)

// ExpireOnly has a session whose idle time is over here end only where that is so: else another process has it by now, perhaps. It is called
// before l is used.
func (l *Local) ExpireOnly(may func(ctx context.Context, name string) bool) {
	l.sessions.mayExpire = may
}

// ExpireSessions removes the containers of sessions whose idle time is over, whichever
// process made them, and forgets those that were lost long ago. It returns how
// many it removed.
func (l *Local) ExpireSessions(ctx context.Context) (int, error) {
	l.open()
	names, err := record.Names(l.sessionDir())
	removed, errs := 0, []error{err}
	for _, name := range names {
		ended, err := l.expireSession(ctx, record.Store{Dir: l.sessionDir(), Name: name})
		if ended {
			removed++
		}
		errs = append(errs, err)
	}
	return removed, errors.Join(errs...)
}

func (l *Local) expireSession(ctx context.Context, store record.Store) (ended bool, err error) {
	now, cancel := context.WithCancel(ctx)
	cancel() // a session that is in use is not idle: while its container is made, which may take long, the others' time goes on
	r, err := store.Load(now)
	if errors.Is(err, context.Canceled) {
		return false, ctx.Err()
	}
	if err != nil || !r.IsOver(time.Now()) { // or another process has it now, and its container
		return false, err
	}
	if r.Gone && time.Since(r.LastUsed) <= forgetLost {
		return false, nil
	}
	if may := l.sessions.mayExpire; may != nil && !may(ctx, store.Name) { // another process's commands may run in it, of which nothing is recorded here
		return false, nil
	}
	turn, err := store.LockTurn(now, true)
	if err != nil {
		return false, nil
	}
	defer turn.Close()
	err = store.Change(ctx, func(r *record.Record) error {
		switch {
		case !r.IsOver(time.Now()):
		case !r.Gone:
			if ended, err = l.endSession(ctx, &session{name: store.Name}); err != nil {
				break
			}
			if r.Gone = true; ended && r.Lost == "" {
				r.Lost = fmt.Sprintf("no command for %s", sandbox.FormatDuration(r.Idle))
			}
			r.Lost = r.LostReason(time.Now())
		case time.Since(r.LastUsed) > forgetLost:
			*r = record.Record{}
		}
		return err
	})
	return ended && err == nil, err
}

// expireSessions does so periodically.
func (l *Local) expireSessions() {
	for {
		if _, err := l.ExpireSessions(l.upkeep.ctx); err != nil && l.upkeep.ctx.Err() == nil {
			l.upkeep.log.Warn("checking sessions failed", "error", err)
		}
		l.sessions.closeEnded()
		select {
		case <-time.After(expirePause):
		case <-l.upkeep.ctx.Done():
			return
		}
	}
}
