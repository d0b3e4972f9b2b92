package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"belljar/sandbox/internal/boxlink"
	"belljar/sandbox/internal/failure"
	"belljar/sandbox/internal/kube"
)

// helloTimeout is how long an init may take to answer for the first time.
const helloTimeout = 20 * time.Second

// link is this process's attachment to a pod's init. All handles of the pod share it.
type link struct {
	*boxlink.Link
	table  *links
	uid    string // the pod's
	stream *kube.Stream
	hold   *hold // of a session, else nil
	users  int   // guarded by table.mu; the last one closes it
	once   sync.Once
}

// links are an engine's, by the pods' UIDs.
type links struct {
	mu        sync.Mutex
	all       map[string]*link
	following sync.WaitGroup // of those who wait for processes' ends
}

// use returns the link of a pod, for one more user, or nil. A broken one is of no use.
func (t *links) use(uid string) *link {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.all[uid]
	if l == nil || l.broken() {
		return nil
	}
	l.users++
	return l
}

// add takes a new link up, which has one user.
func (t *links) add(l *link) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == nil {
		t.all = map[string]*link{}
	}
	t.all[l.uid], l.table, l.users = l, t, 1
}

// addUser is called by who has the link in use already.
func (l *link) addUser() {
	l.table.mu.Lock()
	defer l.table.mu.Unlock()
	l.users++
}

// release is called by each user, at last.
func (l *link) release() {
	l.table.mu.Lock()
	l.users--
	last := l.users == 0
	if last && l.table.all[l.uid] == l {
		delete(l.table.all, l.uid)
	}
	l.table.mu.Unlock()
	if last {
		l.close()
	}
}

// close ends what the link carries, for all its users. A pod that ends with it does so now.
func (l *link) close() {
	l.once.Do(func() {
		l.Close()
		l.stream.Close()
		if l.hold != nil {
			l.hold.release()
		}
	})
}

func (t *links) closeAll() {
	t.mu.Lock()
	all := t.all
	t.all = nil
	t.mu.Unlock()
	for _, l := range all {
		l.close()
	}
	t.following.Wait()
}

func (l *link) broken() bool {
	select {
	case <-l.Done():
		return true
	default:
		return false
	}
}

// attach attaches to the init of a pod that runs, as its one client.
func (e *Engine) attach(ctx context.Context, name, uid string) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	stream, err := e.client.Attach(ctx, e.namespace, name, mainContainer)
	if err != nil {
		return nil, err
	}
	l := &link{uid: uid, stream: stream, Link: boxlink.Frames(stream)}
	if err := l.Hello(ctx); err != nil {
		l.close()
		if said := failure.OneLine(stream.Said()); said != "" {
			err = errors.New(said)
		} else if failed := stream.Failed(); failed != nil {
			err = failed
		}
		return nil, fmt.Errorf("waiting for the pod's init: %w", err)
	}
	e.links.add(l)
	return l, nil
}
