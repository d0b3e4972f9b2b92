package kubernetes

import (
	"context"
	"maps"
	"net/http"
	"sync"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/kube"
)

// doom is a pod that is to be deleted, and could not be so far.
type doom struct {
	name, uid string
	maker     string    // where the request that was to make the pod had no answer, and so the UID is not known: its noteMaker
	until     time.Time // then: when there is one, if there ever will be
	session   bool      // another process may have it by then
}

// madeWithin is how long the API server may go on with a request to make a pod that has no answer.
const madeWithin = time.Minute

// doomed are all of them.
type doomed struct {
	mu    sync.Mutex
	all   map[doom]bool
	tries bool
}

// doom has a pod deleted later. Leases are renewed apart from that, which may take long.
func (e *Engine) doom(d doom) {
	all := &e.leases.doomed
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.all == nil {
		all.all = map[doom]bool{}
	}
	all.all[d] = true
	if !all.tries {
		all.tries = true
		e.all.Go(e.retryDoomed)
	}
}

func (e *Engine) retryDoomed() {
	tick := time.NewTicker(e.leases.each)
	defer tick.Stop()
	for all := &e.leases.doomed; ; {
		select {
		case <-tick.C:
		case <-e.life.Done():
			return
		}
		all.mu.Lock()
		var now []doom
		for d := range all.all {
			now = append(now, d)
		}
		all.mu.Unlock()
		for _, d := range now {
			if !all.has(d) { // it was spared meanwhile
				continue
			}
			ctx, cancel := context.WithTimeout(e.life, callTimeout)
			done := e.dispose(ctx, d)
			cancel()
			if done {
				all.mu.Lock()
				delete(all.all, d)
				all.mu.Unlock()
			}
		}
	}
}

func (d *doomed) has(one doom) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.all[one]
}

// spare forgets that a pod is to be deleted.
func (d *doomed) spare(uid string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.all, func(d doom, _ bool) bool { return d.uid == uid })
}

// dispose deletes a pod, and reports whether it is gone for certain, or another process's. A name alone is not enough: it may be another's.
func (e *Engine) dispose(ctx context.Context, d doom) (gone bool) {
	if d.uid == "" {
		var there kube.Pod
		err := e.client.Get(ctx, kube.PodPath(e.namespace, d.name), nil, &there)
		switch {
		case kube.CodeOf(err) == http.StatusNotFound:
			return time.Now().After(d.until)
		case err != nil:
			return false
		case there.Metadata.Annotations[noteMaker] != d.maker:
			return true // the name is taken: it was not made
		}
		d.uid = there.Metadata.UID
	}
	if d.session { // who could not delete it was cut off for a while, perhaps, and another process runs commands in it since
		hold, err := e.leases.get(ctx, holdPrefix+d.uid)
		switch {
		case err == nil && e.lives(hold) && !e.leases.isOurs(hold):
			return !hold.Ended(e.client.Now()) // if only an outage lets it live, that is known later
		case err != nil && kube.CodeOf(err) != http.StatusNotFound:
			return false
		}
	}
	return e.delete(ctx, d.name, d.uid, podGrace) == nil
}

// deleteOrDoom tries again where the API server cannot answer, and later, if it goes on like that.
func (e *Engine) deleteOrDoom(ctx context.Context, name, uid string, grace int) error {
	for {
		err := e.delete(ctx, name, uid, grace)
		if err == nil {
			return nil
		}
		after, yes := again(err)
		if yes {
			select {
			case <-time.After(max(250*time.Millisecond, after)):
				continue
			case <-ctx.Done():
			}
		}
		_, session := e.records.of(e, uid)
		e.doom(doom{name: name, uid: uid, session: session})
		return callError(err, "deleting pod %s, which is tried again each %s as long as this belljar runs", name, sandbox.FormatDuration(renewEach))
	}
}
