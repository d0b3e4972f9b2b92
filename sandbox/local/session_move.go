package local

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"belljar/internal/names"
	"belljar/sandbox"
	"belljar/sandbox/internal/record"
)

// GiveUpSession forgets a session, which goes on without this process. What it returns is for
// TakeOverSession, of another process with a state directory of its own. A session that a command uses is busy.
func (l *Local) GiveUpSession(ctx context.Context, name string) (state []byte, err error) {
	l.open()
	if err := names.CheckSession(name); err != nil {
		return nil, err
	}
	s := l.sessions.acquire(name)
	defer l.sessions.release(s)
	if err := acquire(ctx, s.access); err != nil {
		return nil, err
	}
	defer func() { <-s.access }()
	if len(s.active) > 0 {
		return nil, &sandbox.Error{Cause: sandbox.CauseBusy, Message: fmt.Sprintf("a command uses session %q", name), Hint: "wait until it has ended", RetryAfter: time.Second}
	}
	s.detach(nil)
	store := record.Store{Dir: l.sessionDir(), Name: name}
	lock, err := store.Lock(ctx)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	r, err := store.Read()
	if err == nil && r.Session != "" {
		state, err = json.Marshal(r)
	}
	if err == nil {
		err = store.Write(&record.Record{})
	}
	return state, err
}

// TakeOverSession makes a session one of this process's: that of the container, if it has one, of which the engine knows. Without a
// state its idle time begins now, and of what runs in it no command is known; the default profile's workdir and idle time are its own where
// the engine kept none.
func (l *Local) TakeOverSession(ctx context.Context, name string, state []byte, kept *sandbox.Kept) error {
	l.open()
	if err := names.CheckSession(name); err != nil {
		return err
	}
	r := &record.Record{}
	switch {
	case len(state) > 0:
		if err := json.Unmarshal(state, r); err != nil || r.Session != name {
			return &sandbox.Error{Cause: sandbox.CauseEngine, Message: fmt.Sprintf("what another belljar recorded of session %q makes no sense", name), Err: err, Hint: "remove the session, and make it again"}
		}
	case kept != nil:
		profile, _ := l.profile(sandbox.DefaultProfile)
		*r = record.Record{
			Session: name, Container: kept.ID, Image: kept.Image, Created: kept.Created, Deadline: kept.Deadline, LastUsed: time.Now(),
			Workdir: cmp.Or(kept.Workspace, profile.Workdir), Idle: cmp.Or(kept.Idle, profile.Session.Idle), Found: true,
		}
	}
	store := record.Store{Dir: l.sessionDir(), Name: name}
	lock, err := store.Lock(ctx)
	if err != nil {
		return err
	}
	defer lock.Close()
	return store.Write(r)
}

// SessionNames are the names of the sessions that something is recorded of, also of those that were lost.
func (l *Local) SessionNames() ([]string, error) { return record.Names(l.sessionDir()) }
