package local

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/record"
)

// forgetLost is how long the loss of a session that nobody uses is remembered.
const forgetLost = 24 * time.Hour

func (l *Local) sessionDir() string { return l.stateDir("sessions") }

// Sessions lists this user's sessions and what runs in them, by name.
func (l *Local) Sessions(ctx context.Context) ([]sandbox.SessionInfo, error) {
	kept, err := l.Engine.Sessions(ctx, "")
	if err != nil {
		return nil, err
	}
	names, err := record.Names(l.sessionDir())
	if err != nil {
		return nil, err
	}
	for _, k := range kept {
		names = append(names, k.Session)
	}
	slices.Sort(names)
	var list []sandbox.SessionInfo
	for _, name := range slices.Compact(names) {
		info, err := l.session(ctx, name, kept)
		if err != nil {
			return list, err
		}
		list = append(list, info)
	}
	return list, nil
}

func (l *Local) session(ctx context.Context, name string, kept []sandbox.Kept) (sandbox.SessionInfo, error) {
	r, err := record.Store{Dir: l.sessionDir(), Name: name}.Look(ctx)
	if err != nil {
		return sandbox.SessionInfo{Name: name, Lost: err.Error()}, nil
	}
	info := sandbox.SessionInfo{Name: name, Image: r.Image, Created: r.Created, LastUsed: r.LastUsed, Deadline: r.Deadline, IdleEnd: r.LastUsed.Add(r.Idle)}
	i := slices.IndexFunc(kept, func(k sandbox.Kept) bool { return k.Session == name })
	if i < 0 {
		info.Lost = r.Gone(time.Now())
		return info, nil
	}
	k := kept[i]
	info.Container, info.Image, info.Created, info.Deadline = k.ID, k.Image, k.Created, k.Deadline
	info.User, info.UserName = k.User.Numbers(), k.User.Name
	if r.Session == "" { // made with another directory for its record
		info.LastUsed, info.IdleEnd = k.Created, k.Deadline
	}
	box, err := l.Engine.Adopt(ctx, k)
	if err != nil {
		return info, nil // it went just now: what runs is not known
	}
	defer box.Close()
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	if list, err := box.Processes(ctx); err == nil {
		info.Runs = append([]sandbox.Process{}, r.Started.Commands(list)...)
		r.Started.Attribute(info.Runs, nil)
	}
	return info, nil
}

// RemoveSession ends a session, with all that runs in it.
func (l *Local) RemoveSession(ctx context.Context, name string) error {
	l.open()
	if err := sandbox.CheckSession(name); err != nil {
		return err
	}
	store := record.Store{Dir: l.sessionDir(), Name: name}
	lock, err := store.Lock(ctx, 1, true)
	if err != nil {
		return err
	}
	defer lock.Close()
	found, err := l.endSession(ctx, name)
	if err != nil {
		return err
	}
	if r, err := store.Read(); err == nil && r.Session == "" && !found {
		return sandbox.Invalid("see: belljar session ls; belljar ps lists containers that are not this user's", "no session %q", name)
	}
	return store.Write(&record.Record{})
}

// endSession removes the session's container, and tells whether there was one.
func (l *Local) endSession(ctx context.Context, name string) (bool, error) {
	kept, err := l.Engine.Sessions(ctx, name)
	if err != nil {
		return false, err
	}
	for _, k := range kept {
		box, err := l.Engine.Adopt(ctx, k)
		if sandbox.CauseOf(err) == sandbox.CauseEngineLost {
			continue // it went just now
		}
		if err != nil {
			return true, err
		}
		removeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
		err = box.Remove(removeCtx)
		cancel()
		box.Close()
		if err != nil {
			return true, err
		}
	}
	return len(kept) > 0, nil
}

// ExpireSessions removes the containers of sessions whose idle time is over, of
// whichever process, and forgets those that were lost long ago. It returns how
// many it removed.
func (l *Local) ExpireSessions(ctx context.Context) (int, error) {
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
	r, err := store.Look(ctx)
	if err != nil || !r.IsIdle(time.Now()) {
		return false, err
	}
	now, cancel := context.WithCancel(ctx)
	cancel() // a session whose turn is taken is not idle
	turn, err := store.LockTurn(now, true)
	if err != nil {
		return false, nil
	}
	defer turn.Close()
	err = store.Change(ctx, func(r *record.Record) error {
		switch {
		case !r.IsIdle(time.Now()):
		case r.Lost == "":
			if ended, err = l.endSession(ctx, store.Name); ended && err == nil {
				r.Lost = fmt.Sprintf("no command for %v", r.Idle)
			} else if err == nil {
				r.Lost = r.Gone(time.Now())
			}
		case time.Since(r.LastUsed) > forgetLost:
			*r = record.Record{}
		}
		return err
	})
	return ended, err
}

// expireSessions does so from time to time.
func (l *Local) expireSessions() {
	for {
		if _, err := l.ExpireSessions(l.house.ctx); err != nil && l.house.ctx.Err() == nil {
			l.house.log.Warn("sessions cannot be looked through", "error", err)
		}
		l.sessions.closeGone()
		select {
		case <-time.After(expirePause):
		case <-l.house.ctx.Done():
			return
		}
	}
}

// closeGone closes the containers that are gone, of sessions that nobody uses.
func (s *sessions) closeGone() {
	for _, session := range s.all() {
		select {
		case session.use <- struct{}{}:
			if session.box != nil && len(session.active) == 0 && isClosed(session.box.Lost()) {
				session.drop(nil)
			}
			<-session.use
		default: // somebody does
		}
		s.letGo(session)
	}
}

// close lets go of all sessions, which live on.
func (s *sessions) close() {
	for _, session := range s.all() {
		session.use <- struct{}{}
		session.drop(nil)
		<-session.use
		s.letGo(session)
	}
}
