package kubernetes

import (
	"context"
	"sync"
	"time"

	"belljar/sandbox/internal/kube"
)

// outage knows whether leases may seem to have ended because no one could renew them: the API server, or what it keeps them in, was away.
type outage struct {
	mu    sync.Mutex
	since time.Time // when the first write began of those that failed in a row; zero after one that was answered
	until time.Time // after an outage: by then others have had the time to renew theirs

	before *time.Time // see writtenBefore; nil while it was not asked for
}

const (
	// outageLeast is how long writes must fail until another process's lease may have ended because of that.
	outageLeast = leaseFor - 2*renewEach
	// outageGrace is how long other processes may take, after an outage, to renew their leases.
	outageGrace = 2 * renewEach
)

// note takes note of a write of a lease.
func (o *outage) note(began time.Time, err error) {
	_, failed := again(err)
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil && failed {
		if o.since.IsZero() {
			o.since = began
		}
		return
	}
	if o.lastsLocked() {
		o.until = time.Now().Add(outageGrace)
	}
	o.since = time.Time{}
}

func (o *outage) lastsLocked() bool { return !o.since.IsZero() && time.Since(o.since) >= outageLeast }

// is reports whether there is one, or was until just now.
func (o *outage) is() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lastsLocked() || time.Now().Before(o.until)
}

// makeLease makes a lease.
func (e *Engine) makeLease(ctx context.Context, namespace string, l kube.Lease) (made kube.Lease, err error) {
	began := time.Now()
	if err := e.client.Create(ctx, kube.LeasesPath(namespace), &l, &made); err != nil {
		return made, err
	}
	return e.timely(ctx, kube.LeasePath(namespace, l.Metadata.Name), made, began), nil
}

// putLease replaces a lease, which renews it.
func (e *Engine) putLease(ctx context.Context, path string, l kube.Lease) (now kube.Lease, err error) {
	began := time.Now()
	if now, err = e.putOnce(ctx, path, l); err != nil {
		return now, err
	}
	return e.timely(ctx, path, now, began), nil
}

func (e *Engine) putOnce(ctx context.Context, path string, l kube.Lease) (now kube.Lease, err error) {
	began := time.Now()
	l.Spec.RenewTime = kube.MicroTime(e.client.Now())
	err = e.client.Update(ctx, path, &l, &now)
	e.outage.note(began, err)
	return now, err
}

// timely renews a lease once more where the answer shows that its time was wrong, and so that it seems to have ended, or to live on for too
// long: the API server's clock was not known yet, or this machine's was set, or stood still.
func (e *Engine) timely(ctx context.Context, path string, l kube.Lease, began time.Time) kube.Lease {
	renewed, err := l.Spec.Renewed()
	if err == nil && e.client.Now().Sub(renewed).Abs() <= clockError+time.Since(began) {
		return l
	}
	if right, err := e.putOnce(ctx, path, l); err == nil {
		return right
	}
	return l // the next renewal may do
}
