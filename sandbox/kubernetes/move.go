package kubernetes

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/kube"
)

// freeTime bounds how long TakeOver waits for the process that was attached to a session's pod.
const freeTime = 15 * time.Second

// OnSession has each new session told before a command runs in it, with what is recorded of its pod, for TakeOver. It is called
// before the engine is used.
func (e *Engine) OnSession(told func(ctx context.Context, session, record string) error) {
	e.told = told
}

// TakeOver makes the pod of a record that OnSession was told of in another process a session of this one's, once that process is no
// longer attached to it. The record is believed: it comes from where only belljar writes.
func (e *Engine) TakeOver(ctx context.Context, text string) (kept sandbox.Kept, err error) {
	var r record
	if err := json.Unmarshal([]byte(text), &r); err != nil || r.UID == "" || r.Session == "" || r.Namespace != e.namespace {
		return kept, engineError(err, "what another belljar recorded of a session is of no pod in namespace %q", e.namespace).Hint("give all replicas the same engine.kubernetes.namespace")
	}
	r.Server = e.Host() // the same one by another name, perhaps
	e.leases.awaitFree(ctx, r.UID)
	if err := e.records.add(e, r); err != nil {
		return kept, engineError(err, "recording the session").Hint("set XDG_STATE_HOME to a writable directory")
	}
	return r.kept(), nil
}

// GiveUp forgets a session, whose pod stays. It returns its record, "" without one.
func (e *Engine) GiveUp(session string) (text string, err error) {
	var newest record // a session that lost its pod may have got another one since
	for _, r := range e.records.all(e) {
		if r.Session != session {
			continue
		}
		e.records.remove(e, r.UID)
		if text != "" && r.Created.Before(newest.Created) {
			continue
		}
		line, err := json.Marshal(r)
		if err != nil {
			return "", err
		}
		text, newest = string(line), r
	}
	e.leases.doomed.spare(newest.UID)
	return text, nil
}

// Recorded are the names of the sessions that this process knows.
func (e *Engine) Recorded() (names []string) {
	for _, r := range e.records.all(e) {
		names = append(names, r.Session)
	}
	return names
}

// all are the records of this cluster and namespace.
func (s *records) all(e *Engine) (all []record) {
	if e.dir == "" {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, r := range s.here {
			all = append(all, r)
		}
		return all
	}
	entries, _ := os.ReadDir(e.dir) // it may be gone
	s.mu.Lock()
	defer s.mu.Unlock()
	read := s.here
	s.here = map[string]record{}
	for _, entry := range entries {
		uid, is := strings.CutSuffix(entry.Name(), recordSuffix)
		r, ok := read[uid]
		if is && !ok {
			r, ok = e.readRecord(uid)
		}
		if ok {
			s.here[uid] = r
			all = append(all, r)
		}
	}
	return all
}

func (r record) kept() sandbox.Kept {
	return sandbox.Kept{Session: r.Session, ID: r.UID, Image: r.Image, ImageID: r.ImageID, Print: r.Print, User: r.User, Created: r.Created, Deadline: r.Deadline, Workspace: r.Workspace, Idle: r.Idle}
}

// awaitFree waits until no process is attached to a session's init, for a while.
func (s *leases) awaitFree(ctx context.Context, uid string) {
	ctx, cancel := context.WithTimeout(ctx, freeTime)
	defer cancel()
	for {
		var l kube.Lease
		err := s.engine.client.Get(ctx, kube.LeasePath(s.engine.namespace, holdPrefix+uid), nil, &l)
		held := err == nil
		if held {
			held, err = s.engine.mayHold(ctx, l)
		}
		if kube.CodeOf(err) == 404 || err == nil && !held {
			return
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return
		}
	}
}
