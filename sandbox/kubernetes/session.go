package kubernetes

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/kube"
)

// record is what belljar knows of a pod that it made, by the pod's UID. That of a session is a file of this user's, for
// belljar's other processes: what labels say, anyone who may make pods can say.
type record struct {
	UID, Name      string
	Namespace      string
	Server         string // the API server
	Command        string
	Session        string
	Image, ImageID string
	Digest         string
	Print          string
	User           sandbox.User
	Limits         sandbox.Limits
	Tmpfs          []string
	Mounts         []sandbox.Mount `json:",omitempty"`
	Runtime        string
	Created        time.Time
	Deadline       time.Time
	Workspace      string        `json:",omitempty"`
	Idle           time.Duration `json:",omitempty"`
}

func (e *Engine) record(spec sandbox.Spec, pod *kube.Pod) record {
	r := record{
		UID: pod.Metadata.UID, Name: pod.Metadata.Name, Namespace: e.namespace, Server: e.Host(), Command: spec.Command, Session: spec.Session,
		Image: spec.Image.Reference, ImageID: spec.Image.ID, Digest: spec.Image.Digest, Print: spec.Print(), User: spec.User,
		Limits: spec.Limits.OfContainer(), Tmpfs: spec.Tmpfs, Mounts: spec.Mounts, Runtime: spec.Runtime, Created: time.Now(), Deadline: spec.Deadline,
		Workspace: spec.Workspace, Idle: spec.Idle,
	}
	r.Limits.Tmp = spec.Limits.Tmp
	return r
}

// records are those of sessions.
type records struct {
	mu   sync.Mutex
	here map[string]record // all records; with a directory, those that all has read: there may be thousands of files
}

// recordSuffix ends the names of records' files, which begin with the UID.
const recordSuffix = ".json"

func (e *Engine) recordFile(uid string) string {
	return filepath.Join(e.dir, filepath.Base(uid)+recordSuffix)
}

func (s *records) add(e *Engine, r record) error {
	if e.dir == "" {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.here == nil {
			s.here = map[string]record{}
		}
		s.here[r.UID] = r
		return nil
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return writeFile(e.dir, e.recordFile(r.UID), text)
}

// freshPrefix begins the names of files that are being written.
const freshPrefix = "new-"

// writeFile writes a file as a whole, which only this user can read.
func writeFile(dir, name string, text []byte) error {
	fresh, err := os.CreateTemp(dir, freshPrefix+"*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(fresh.Name())
	_, err = fresh.Write(text)
	if closing := fresh.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(fresh.Name(), name)
	}
	return err
}

func (s *records) remove(e *Engine, uid string) {
	if e.dir != "" {
		os.Remove(e.recordFile(uid))
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.here, uid)
}

// of is the record of the pod with that UID, in this cluster and namespace.
func (s *records) of(e *Engine, uid string) (r record, ok bool) {
	if e.dir == "" {
		s.mu.Lock()
		defer s.mu.Unlock()
		r, ok = s.here[uid]
		return r, ok
	}
	return e.readRecord(uid)
}

func (e *Engine) readRecord(uid string) (r record, ok bool) {
	text, err := os.ReadFile(e.recordFile(uid))
	ok = err == nil && json.Unmarshal(text, &r) == nil && r.UID == uid && r.Server == e.Host() && r.Namespace == e.namespace
	return r, ok
}

// list is belljar's pods in the namespace, of any process, which also more selects.
func (e *Engine) list(ctx context.Context, more string) ([]kube.Pod, error) {
	query := map[string][]string{"labelSelector": {labelManaged + "=" + managedBy + more}}
	list, err := kube.List[kube.Pod](ctx, e.client, kube.PodsPath(e.namespace), query)
	if err != nil {
		return nil, callError(err, "listing pods of namespace %q", e.namespace)
	}
	return slices.DeleteFunc(list, func(p kube.Pod) bool { return !isMade(p.Metadata) }), nil
}

// isMade reports whether belljar has made an object: the label alone may be that of others, such as belljar's own Deployment.
func isMade(m kube.Meta) bool { return m.Annotations[noteMaker] != "" }

// Sessions implements sandbox.Engine.
func (e *Engine) Sessions(ctx context.Context, name string) (list []sandbox.Kept, err error) {
	if name != "" {
		return e.sessionsOf(ctx, name)
	}
	pods, err := e.list(ctx, ","+labelKind+"=session")
	if err != nil {
		return nil, err
	}
	for _, pod := range pods {
		if r, ours := e.records.of(e, pod.Metadata.UID); ours && runs(&pod) {
			list = append(list, r.kept())
		}
	}
	return list, nil
}

// sessionsOf are those of one name. Only recorded ones count, and so it asks for their pods alone, and not for those of thousands of other
// sessions; and for no pod that this process is attached to.
func (e *Engine) sessionsOf(ctx context.Context, name string) (list []sandbox.Kept, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for _, r := range e.records.all(e) {
		if r.Session != name {
			continue
		}
		if l := e.links.Use(r.UID); l != nil {
			l.Release()
			list = append(list, r.kept())
			continue
		}
		var pod kube.Pod
		err := e.client.Get(ctx, kube.PodPath(e.namespace, r.Name), nil, &pod)
		switch {
		case err == nil && pod.Metadata.UID == r.UID && runs(&pod):
			list = append(list, r.kept())
		case err != nil && kube.CodeOf(err) != http.StatusNotFound:
			return nil, callError(err, "looking for the pod of session %q", name)
		}
	}
	return list, nil
}

// uncertainPause is before a session is tried again of which it is not known yet whether a process uses it.
const uncertainPause = 500 * time.Millisecond

// Adopt implements sandbox.Engine. It waits until it is known whether another process uses the session, which may take outageGrace: not
// where ctx ends before, as for who only looks.
func (e *Engine) Adopt(ctx context.Context, kept sandbox.Kept) (sandbox.Container, error) {
	for {
		c, err := e.adoptOnce(ctx, kept)
		if until, ends := ctx.Deadline(); !errors.Is(err, errUncertain) || ends && until.Before(e.opened.Add(outageGrace)) {
			return c, err
		}
		select {
		case <-time.After(uncertainPause):
		case <-ctx.Done():
			return nil, err
		}
	}
}

func (e *Engine) adoptOnce(ctx context.Context, kept sandbox.Kept) (sandbox.Container, error) {
	late, cancel := context.WithTimeout(ctx, e.hello)
	defer cancel()
	r, ours := e.records.of(e, kept.ID)
	if !ours {
		return nil, sessionGone(kept.Session)
	}
	b := newBox(e, r)
	l, err := b.reach(late)
	if err != nil {
		err = b.reachError(ctx, err)
		b.Close()
		return nil, err
	}
	b.use(l)
	return b, nil
}

// Discard removes the pod of a session that Adopt cannot open, as its init does not answer.
func (e *Engine) Discard(ctx context.Context, kept sandbox.Kept) error {
	r, ours := e.records.of(e, kept.ID)
	if !ours {
		return nil
	}
	return newBox(e, r).Remove(ctx)
}

func sessionGone(session string) error {
	return engineError(nil, "the pod of session %q is gone", session).As(sandbox.CauseEngineLost).Hint("run the command again")
}

// reachError says why a session's init is not reached. Only a session whose pod or init is gone is lost: the API server, or
// the pod's kubelet, may be back soon.
func (b *box) reachError(ctx context.Context, err error) error {
	if _, told := errors.AsType[*sandbox.Error](err); told || ctx.Err() != nil || b.engine.endsWithUs(b.spec) {
		return err
	}
	var pod kube.Pod
	switch failed := b.engine.client.Get(ctx, kube.PodPath(b.engine.namespace, b.record.Name), nil, &pod); {
	case kube.CodeOf(failed) == 404, failed == nil && pod.Metadata.UID != b.record.UID:
		return sessionGone(b.record.Session)
	case failed != nil:
		return callError(failed, "looking for the session's pod")
	case !runs(&pod):
		return engineError(nil, "the pod has ended: %s", cmp.Or(b.fateOf(&pod).reason, "its container does not run")).
			As(sandbox.CauseEngineLost).Hint("run the command again")
	case kube.CodeOf(err) != 0:
		return callError(err, "attaching to the session's pod")
	}
	// The pod runs, and what is in the session is not lost: what broke is the way to it.
	hint := "run the command again, or remove the session: belljar session rm " + b.record.Session
	if errors.Is(err, errSilent) {
		hint = "its node may have too much to do: " + hint
	}
	return engineError(err, "reaching the pod of session %q", b.record.Session).Hint(hint)
}
