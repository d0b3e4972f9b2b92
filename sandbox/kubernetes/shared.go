package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"belljar/sandbox/internal/kube"
)

// Shared is what belljar's processes write down for each other: a Lease of a namespace for each entry. They believe what
// it says, so no one else should be able to write there.
type Shared struct {
	engine    *Engine
	namespace string
}

// Shared are the entries of a namespace; "" is that of the pods.
func (e *Engine) Shared(namespace string) *Shared {
	return &Shared{engine: e, namespace: cmp.Or(namespace, e.namespace)}
}

// Entry is one of them. Names are unique, and as Kubernetes wants them.
type Entry struct {
	Kind, Name string
	Holder     string            // "" for none
	For        time.Duration     // how long it counts without being renewed; whole seconds
	Age        time.Duration     // since it was made, changed or renewed
	Lives      bool              // it was renewed in time, or may not have been because of an outage, and its holder is no process of this host that has ended
	Values     map[string]string // by names without a domain
	Version    string            // of what was read, for Update
	UID        string
}

const (
	// labelShared tells entries from the leases of processes, which Sweep removes.
	labelShared = "belljar.dev/shared"
	notePrefix  = "belljar.dev/"
)

var (
	// ErrTaken is that another process made or changed the entry meanwhile.
	ErrTaken = errors.New("another process has changed it")
	// ErrNone is that there is no such entry.
	ErrNone = errors.New("there is none")
)

// Self names this process, as a holder.
func (s *Shared) Self() string { return s.engine.holder() }

// List are the entries of a kind.
func (s *Shared) List(ctx context.Context, kind string) (all []Entry, err error) {
	list, err := kube.List[kube.Lease](ctx, s.engine.client, kube.LeasesPath(s.namespace), url.Values{"labelSelector": {labelShared + "=" + kind}})
	if err != nil {
		return nil, callError(err, "listing leases of namespace %q", s.namespace)
	}
	written := s.engine.written(list)
	for _, l := range list {
		e := s.entry(&l)
		e.Lives = e.Lives || s.engine.mayRenew(l, written)
		all = append(all, e)
	}
	return all, nil
}

// Get is an entry, or ErrNone.
func (s *Shared) Get(ctx context.Context, name string) (e Entry, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var l kube.Lease
	if err := s.engine.client.Get(ctx, kube.LeasePath(s.namespace, name), nil, &l); err != nil {
		return e, s.problem(err, "reading", name)
	}
	return s.entry(&l), nil
}

// Create makes an entry, or is ErrTaken. It renews it, too.
func (s *Shared) Create(ctx context.Context, e Entry) (made Entry, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	l, err := s.engine.makeLease(ctx, s.namespace, *s.lease(e))
	if err != nil {
		return made, s.problem(err, "making", e.Name)
	}
	return s.entry(&l), nil
}

// Update replaces an entry that has not changed since it was read, or is ErrTaken. It renews it, too.
func (s *Shared) Update(ctx context.Context, e Entry) (now Entry, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	l, err := s.engine.putLease(ctx, kube.LeasePath(s.namespace, e.Name), *s.lease(e))
	if err != nil {
		return now, s.problem(err, "changing", e.Name)
	}
	return s.entry(&l), nil
}

// Delete removes an entry that has not changed since it was read. One that is gone, or has changed, is no error.
func (s *Shared) Delete(ctx context.Context, e Entry) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := s.engine.client.Delete(ctx, kube.LeasePath(s.namespace, e.Name), kube.Meta{UID: e.UID, ResourceVersion: e.Version}, 0)
	if err == nil || over(err) {
		return nil
	}
	return s.problem(err, "deleting", e.Name)
}

func (s *Shared) problem(err error, doing, name string) error {
	switch kube.CodeOf(err) {
	case http.StatusConflict:
		return fmt.Errorf("%s lease %s: %w", doing, name, ErrTaken)
	case http.StatusNotFound:
		return fmt.Errorf("%s lease %s: %w", doing, name, ErrNone)
	}
	return callError(err, "%s lease %s of namespace %q", doing, name, s.namespace)
}

func (s *Shared) lease(e Entry) *kube.Lease {
	now := kube.MicroTime(s.engine.client.Now())
	l := &kube.Lease{
		APIVersion: "coordination.k8s.io/v1", Kind: "Lease",
		Metadata: kube.Meta{Name: e.Name, UID: e.UID, ResourceVersion: e.Version, Labels: map[string]string{labelShared: e.Kind}, Annotations: map[string]string{}},
		Spec:     kube.LeaseSpec{HolderIdentity: e.Holder, LeaseDurationSeconds: int(e.For / time.Second), RenewTime: now},
	}
	for name, value := range e.Values {
		l.Metadata.Annotations[notePrefix+name] = value
	}
	return l
}

func (s *Shared) entry(l *kube.Lease) Entry {
	e := Entry{
		Kind: l.Metadata.Labels[labelShared], Name: l.Metadata.Name, Holder: l.Spec.HolderIdentity, For: time.Duration(l.Spec.LeaseDurationSeconds) * time.Second,
		Lives: s.engine.lives(*l), Values: map[string]string{}, Version: l.Metadata.ResourceVersion, UID: l.Metadata.UID,
	}
	renewed, _ := l.Spec.Renewed() // zero: it says nothing, and so does not live
	e.Age = s.engine.client.Now().Sub(renewed)
	for name, value := range l.Metadata.Annotations {
		if short, ours := strings.CutPrefix(name, notePrefix); ours {
			e.Values[short] = value
		}
	}
	return e
}

// OwnAddress is the address of this machine that the API server is reached from.
func (s *Shared) OwnAddress(ctx context.Context) (netip.Addr, error) {
	to, err := url.Parse(s.engine.Host())
	if err != nil {
		return netip.Addr{}, err
	}
	conn, err := (&net.Dialer{Timeout: callTimeout}).DialContext(ctx, "udp", net.JoinHostPort(to.Hostname(), cmp.Or(to.Port(), "443"))) // sends nothing
	if err != nil {
		return netip.Addr{}, fmt.Errorf("looking for this machine's address towards the API server: %w", err)
	}
	defer conn.Close()
	return conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap(), nil
}
