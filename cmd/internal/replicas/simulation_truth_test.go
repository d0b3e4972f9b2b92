package replicas_test

import (
	"fmt"
	"strconv"
	"time"

	"belljar/cmd/internal/replicas"
)

// truth is how a session is, whatever replicas believe.
type truth struct {
	pod       string
	state     int            // differs for each use
	left      *replicas.Kept // it was given up so, and has not been used since
	leftBy    *node
	leftSince time.Time // since when that one had it
}

// of is a session's. w.truthMu is held.
func (w *world) of(session string) *truth {
	t := w.truths[session]
	if t == nil {
		t = &truth{}
		w.truths[session] = t
	}
	return t
}

// excused reports whether others may have taken what a replica had since then.
func (w *world) excused(n *node, since time.Time) bool {
	if n == nil || n.isDead() {
		return true
	}
	n.mu.Lock()
	over := n.over
	n.mu.Unlock()
	return over || w.lapsedSince(n, since)
}

func (w *world) closes(n *node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.over = true
}

func (w *world) isPod(pod string) bool {
	w.truthMu.Lock()
	defer w.truthMu.Unlock()
	return w.pods[pod]
}

func (w *world) makePod(session string, n *node) string {
	w.truthMu.Lock()
	defer w.truthMu.Unlock()
	w.made++
	pod := fmt.Sprintf("pod %d of %s by %s", w.made, session, n.name)
	w.pods[pod] = true
	return pod
}

func (w *world) dropPod(pod string) {
	w.truthMu.Lock()
	defer w.truthMu.Unlock()
	delete(w.pods, pod)
}

// wrongly is for what holds w.truthMu.
func (w *world) wrongly(format string, args ...any) {
	w.truthMu.Unlock()
	defer w.truthMu.Lock()
	w.fail(format, args...)
}

// uses is that a replica begins to use a session that it knows so, for a request that came then.
func (w *world) uses(n *node, session string, r record, came time.Time) (state int) {
	w.logf("%s: uses %s, %q %d", n.name, session, r.pod, r.state)
	w.truthMu.Lock()
	defer w.truthMu.Unlock()
	t := w.of(session)
	if home, _ := w.home(session); home != n.name {
		if !w.excused(n, came) { // else another one may have it
			w.wrongly("%s uses %s, which %q has", n.name, session, home)
		}
		return r.state
	}
	if t.left != nil && w.pods[t.pod] && r.state != t.state && !w.excused(t.leftBy, t.leftSince) {
		w.wrongly("%s uses %s without what %s gave up", n.name, session, t.leftBy.name)
	}
	if r.pod != t.pod && w.pods[t.pod] {
		w.wrongly("%s uses %s with %q, not %q", n.name, session, r.pod, t.pod)
	}
	w.used++
	t.pod, t.left, t.state = r.pod, nil, w.used
	return t.state
}

// stillUses is that it has used it until now.
func (w *world) stillUses(n *node, session string, came time.Time) {
	w.truthMu.Lock()
	defer w.truthMu.Unlock()
	if home, _ := w.home(session); home != n.name && !w.excused(n, came) {
		w.wrongly("%s uses %s, which %q has taken", n.name, session, home)
	}
}

// removes is that a session ends.
func (w *world) removes(n *node, session, pod string, came time.Time) {
	w.logf("%s: removes %s", n.name, session)
	w.truthMu.Lock()
	defer w.truthMu.Unlock()
	if home, _ := w.home(session); home == n.name || !w.excused(n, came) {
		delete(w.pods, pod)
		w.of(session).left = nil
	}
}

func (w *world) givesUp(n *node, session string, k replicas.Kept) {
	w.logf("%s: gives %s up, %+v", n.name, session, k)
	w.truthMu.Lock()
	defer w.truthMu.Unlock()
	t := w.of(session)
	n.gave[session] = k.State
	home, since := w.home(session)
	if home != n.name {
		return // it forgets what another one has
	}
	if t.left != nil && w.pods[t.pod] && k.State != strconv.Itoa(t.state) && !w.excused(t.leftBy, t.leftSince) {
		w.wrongly("%s gives %s up without what %s gave up", n.name, session, t.leftBy.name)
	}
	t.left = nil
	t.state, _ = strconv.Atoi(k.State) // after a home was killed, it is what one that starts again with its disk has
	if k.Pod != "" {
		t.left, t.leftBy, t.leftSince = &k, n, since
	}
}

func (w *world) takesOver(n *node, session string, k replicas.Kept) {
	w.logf("%s: takes %s over, %+v", n.name, session, k)
	w.truthMu.Lock()
	defer w.truthMu.Unlock()
	t := w.of(session)
	home, since := w.home(session)
	switch {
	case home != n.name: // it was taken while this one took it, which then is not to use it
		return
	case k.State != "" && n.gave[session] == k.State: // perhaps its own again, as the Store did not answer; its use will tell
		t.leftBy, t.leftSince = n, since
		return
	}
	if w.pods[t.pod] && k.Owner != "ann" {
		w.wrongly("%s takes %s over for %q", n.name, session, k.Owner)
	}
	if w.pods[t.pod] && k.Pod != t.pod {
		w.wrongly("%s takes %s over with %q, not %q", n.name, session, k.Pod, t.pod)
	}
	switch {
	case !w.pods[t.pod]:
	case k.State != "" && k.State != strconv.Itoa(t.state):
		w.wrongly("%s takes %s over with the state %s, not %d", n.name, session, k.State, t.state)
	case k.State == "" && t.left != nil && !w.excused(t.leftBy, t.leftSince):
		w.wrongly("%s takes %s over without the state that %s gave up", n.name, session, t.leftBy.name)
	}
	if t.state, _ = strconv.Atoi(k.State); t.state == 0 { // its last home was killed
		t.left = nil
	}
	if t.left != nil {
		t.leftBy, t.leftSince = n, since
	}
}

// has is a session's home, as its entry says.
type has struct {
	name  string
	since time.Time
}

func (w *world) home(session string) (name string, since time.Time) {
	w.storeMu.Lock()
	defer w.storeMu.Unlock()
	h := w.homes[session]
	return h.name, h.since
}

// moves is that the home of a session changes; by is who does that. w.storeMu is held.
func (w *world) moves(session, to, by string) {
	h := w.homes[session]
	if h.name != "" && h.name != to && h.name != by && !w.lapsedAt(h.name, h.since) {
		w.fail("%s takes %s from %s", by, session, h.name)
	}
	if h.name != to {
		w.homes[session] = has{to, time.Now()}
	}
}
