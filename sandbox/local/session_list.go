package local

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"belljar/internal/names"
	"belljar/sandbox"
	"belljar/sandbox/internal/record"

	"golang.org/x/sync/errgroup"
)

func (l *Local) sessionDir() string {
	if l.OwnDir != "" {
		return filepath.Join(l.OwnDir, "sessions")
	}
	return l.stateDir("sessions")
}

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
	names = slices.Compact(names)
	list := make([]sandbox.SessionInfo, len(names))
	var all errgroup.Group
	all.SetLimit(listedAtOnce)
	for i, name := range names {
		all.Go(func() error {
			list[i] = l.session(ctx, name, kept)
			return nil
		})
	}
	all.Wait()
	return list, ctx.Err()
}

const (
	// listedAtOnce is how many sessions are looked at side by side: each may be on a machine that does not answer.
	listedAtOnce = 8

	// recordPause is how long a list waits for a session's record. Who makes the session's next container has it, which may take minutes.
	recordPause = 200 * time.Millisecond

	// lookTimeout is how long it may take to see what runs in a session, which may be in a busy cluster.
	lookTimeout = 10 * time.Second
)

// listedRecord is a session's record as it is, or was before it is changed now.
func (l *Local) listedRecord(ctx context.Context, name string) (*record.Record, error) {
	store := record.Store{Dir: l.sessionDir(), Name: name}
	soon, cancel := context.WithTimeout(ctx, recordPause)
	defer cancel()
	r, err := store.Load(soon)
	if soon.Err() != nil && ctx.Err() == nil {
		return store.Read()
	}
	return r, err
}

func (l *Local) session(ctx context.Context, name string, kept []sandbox.Kept) sandbox.SessionInfo {
	r, err := l.listedRecord(ctx, name)
	if err != nil {
		return sandbox.SessionInfo{Name: name, Lost: err.Error()}
	}
	info := sandbox.SessionInfo{Name: name, Image: r.Image, Created: r.Created, LastUsed: r.LastUsed, Deadline: r.Deadline, IdleEnd: r.LastUsed.Add(r.Idle)}
	i := slices.IndexFunc(kept, func(k sandbox.Kept) bool { return k.Session == name })
	if i < 0 {
		info.Lost = r.LostReason(time.Now())
		return info
	}
	k := kept[i]
	info.Container, info.Image, info.Created, info.Deadline = k.ID, k.Image, k.Created, k.Deadline
	info.User, info.UserName = k.User.Numbers(), k.User.Name
	if r.Session == "" { // its record is in another state directory
		info.LastUsed, info.IdleEnd = k.Created, k.Deadline
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	box, err := l.Engine.Adopt(ctx, k)
	if err != nil {
		return info // it was just removed, or does not answer: what runs is unknown
	}
	defer box.Close()
	if list, err := box.Processes(ctx); err == nil {
		info.Runs = append([]sandbox.Process{}, r.Started.WithoutGates(list)...)
		r.Started.Attribute(info.Runs, nil)
	}
	return info
}

// RemoveSession ends a session, with everything that runs in it.
func (l *Local) RemoveSession(ctx context.Context, name string) error {
	l.open()
	if err := names.CheckSession(name); err != nil {
		return err
	}
	s := l.sessions.acquire(name)
	defer l.sessions.release(s)
	if err := acquire(ctx, s.access); err != nil {
		return err
	}
	defer func() { <-s.access }()
	store := record.Store{Dir: l.sessionDir(), Name: name}
	lock, err := store.Lock(ctx)
	if err != nil {
		return err
	}
	defer lock.Close()
	found, err := l.endSession(ctx, s)
	if err != nil {
		return err
	}
	if r, err := store.Read(); err == nil && r.Session == "" && !found {
		return sandbox.Invalid("see: belljar session ls; belljar ps also lists containers of other users", "no session %q", name)
	}
	return store.Write(&record.Record{})
}

// endSession removes the session's container, and reports whether there was one. Who calls has access to
// the session.
func (l *Local) endSession(ctx context.Context, s *session) (bool, error) {
	kept, err := l.Engine.Sessions(ctx, s.name)
	if err != nil {
		return false, err
	}
	for _, k := range kept {
		box, err := l.opened(ctx, s, k)
		if sandbox.CauseOf(err) == sandbox.CauseEngineLost {
			continue // it was just removed
		}
		if err != nil {
			if err = l.discard(ctx, k, err); err != nil {
				return true, err
			}
			continue
		}
		removeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
		err = box.Remove(removeCtx)
		cancel()
		if box == s.box {
			s.detach(nil)
		} else {
			box.Close()
		}
		if err != nil {
			return true, err
		}
		l.upkeep.hungry.roomAgain()
	}
	return len(kept) > 0, nil
}

// discard removes a session's container that could not be opened for that reason, where the engine can. One that another
// process uses stays.
func (l *Local) discard(ctx context.Context, k sandbox.Kept, why error) error {
	engine, can := l.Engine.(interface {
		Discard(ctx context.Context, k sandbox.Kept) error
	})
	if !can || ctx.Err() != nil || sandbox.CauseOf(why) == sandbox.CauseBusy {
		return why
	}
	return engine.Discard(ctx, k)
}

// opened is a session's container: the one that is open here, if no command uses it, spares opening
// it again.
func (l *Local) opened(ctx context.Context, s *session, k sandbox.Kept) (sandbox.Container, error) {
	if s.box != nil && len(s.active) == 0 && s.box.Info().ID == k.ID && !isClosed(s.box.Lost()) {
		return s.box, nil
	}
	return l.adopt(ctx, k)
}

// A session's container may take only one belljar process at a time, and one that lists sessions looks at it for a moment.
const (
	adoptTimeout = 3 * time.Second
	adoptPause   = 200 * time.Millisecond
)

// adopt opens a session's container, and waits a little where another process has it.
func (l *Local) adopt(ctx context.Context, k sandbox.Kept) (sandbox.Container, error) {
	for end := time.Now().Add(adoptTimeout); ; {
		box, err := l.Engine.Adopt(ctx, k)
		if sandbox.CauseOf(err) != sandbox.CauseBusy || !time.Now().Before(end) {
			return box, err
		}
		select {
		case <-time.After(adoptPause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
