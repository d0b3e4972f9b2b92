package local

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"belljar/internal/names"
	"belljar/sandbox"
	"belljar/sandbox/internal/record"
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
	r, err := record.Store{Dir: l.sessionDir(), Name: name}.Load(ctx)
	if err != nil {
		return sandbox.SessionInfo{Name: name, Lost: err.Error()}, nil
	}
	info := sandbox.SessionInfo{Name: name, Image: r.Image, Created: r.Created, LastUsed: r.LastUsed, Deadline: r.Deadline, IdleEnd: r.LastUsed.Add(r.Idle)}
	i := slices.IndexFunc(kept, func(k sandbox.Kept) bool { return k.Session == name })
	if i < 0 {
		info.Lost = r.LostReason(time.Now())
		return info, nil
	}
	k := kept[i]
	info.Container, info.Image, info.Created, info.Deadline = k.ID, k.Image, k.Created, k.Deadline
	info.User, info.UserName = k.User.Numbers(), k.User.Name
	if r.Session == "" { // its record is in another state directory
		info.LastUsed, info.IdleEnd = k.Created, k.Deadline
	}
	box, err := l.Engine.Adopt(ctx, k)
	if err != nil {
		return info, nil // it was just removed: what runs is unknown
	}
	defer box.Close()
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	if list, err := box.Processes(ctx); err == nil {
		info.Runs = append([]sandbox.Process{}, r.Started.WithoutGates(list)...)
		r.Started.Attribute(info.Runs, nil)
	}
	return info, nil
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
			return true, err
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
	}
	return len(kept) > 0, nil
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
