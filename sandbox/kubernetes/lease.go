package kubernetes

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"belljar/sandbox/internal/kube"
)

// lease is one that this process has, and renews until release: each by itself, so that none ends because another takes long.
type lease struct {
	of   *leases
	name string
	end  context.CancelFunc
	done chan struct{} // closed once it is not renewed any more

	now  kube.Lease // as it was last seen; until done it is that of who renews it
	lost bool       // set before done: another process has taken it over

	once   sync.Once
	failed error
}

func (l *lease) renewals(life context.Context) {
	defer close(l.done)
	tick := time.NewTicker(l.of.each)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-life.Done():
			return
		}
		ctx, cancel := context.WithTimeout(l.of.engine.life, renewEach/2)
		l.lost = !l.renew(ctx)
		cancel()
		if l.lost {
			return
		}
	}
}

func (l *lease) path() string { return kube.LeasePath(l.of.engine.namespace, l.name) }

// renew renews it, and reports whether this process has it still. One that another program deleted is made again: this process still
// runs.
func (l *lease) renew(ctx context.Context) (ours bool) {
	for range 2 {
		renewed, err := l.of.engine.putLease(ctx, l.path(), l.now)
		if err == nil {
			l.now = renewed
			return true
		}
		if !over(err) {
			return true // the next time may do
		}
		there, err := l.of.get(ctx, l.name)
		switch {
		case kube.CodeOf(err) == http.StatusNotFound:
			if made, err := l.of.create(ctx, l.name); err == nil {
				l.now = made
			}
			return true
		case err != nil:
			return true
		case !l.of.isOurs(there):
			return false
		}
		l.now = there
	}
	return true
}

// serves has the lease end as soon as a link breaks: who attaches again needs it. A link whose lease another process has taken is
// closed.
func (l *lease) serves(to *link) {
	to.Yield = func() { l.release() }
	l.of.engine.all.Go(func() {
		select {
		case <-to.Done():
			l.release()
		case <-l.done:
			if l.lost {
				to.Close()
			}
		}
	})
}

// release deletes it, unless another process has it. Where that fails, it ends by itself.
func (l *lease) release() error {
	l.once.Do(func() {
		l.end()
		<-l.done
		ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
		defer cancel()
		if err := l.delete(ctx); err != nil {
			l.failed = fmt.Errorf("deleting lease %s: %w", l.name, err)
		}
		l.of.mu.Lock()
		defer l.of.mu.Unlock()
		if l.of.held[l.name] == l {
			delete(l.of.held, l.name)
		}
	})
	return l.failed
}

func (l *lease) delete(ctx context.Context) error {
	for {
		err := l.of.engine.client.Delete(ctx, l.path(), l.now.Metadata, 0)
		if kube.CodeOf(err) != http.StatusConflict {
			if kube.CodeOf(err) == http.StatusNotFound {
				return nil
			}
			return err
		}
		there, err := l.of.get(ctx, l.name) // a renewal without an answer may have changed it
		switch {
		case kube.CodeOf(err) == http.StatusNotFound, err == nil && !l.of.isOurs(there):
			return nil
		case err != nil:
			return err
		}
		l.now = there
	}
}
