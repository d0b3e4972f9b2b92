package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"belljar/cmd/internal/access"
	"belljar/cmd/internal/approvals"
	"belljar/cmd/internal/executions"
	"belljar/cmd/internal/replicas"
	"belljar/config"
	"belljar/sandbox"
	"belljar/sandbox/kubernetes"
	"belljar/sandbox/local"
)

// checkReplicas refuses what a sidecar cannot do together with others.
func checkReplicas(c *config.Config) error {
	u, err := url.Parse(c.Serve.Listen)
	switch {
	case !c.Serve.Replicas.Enabled:
		return nil
	case c.Engine.Kind != config.EngineKubernetes:
		return sandbox.Invalid("set engine.kind to kubernetes, or leave out serve.replicas", "serve.replicas.enabled is for pods of a cluster only")
	case err != nil || u.Scheme != "tcp" || u.Port() == "" || u.Port() == "0":
		return sandbox.Invalid("set it to one such as tcp://0.0.0.0:8443, the same port for all", "serve.replicas.enabled: other replicas cannot reach serve.listen %q", c.Serve.Listen)
	case isLoopback(u.Hostname()) && !isLoopback(c.Serve.Replicas.Address):
		return sandbox.Invalid("let it listen on an address that the others reach, such as tcp://0.0.0.0:8443; or, on one machine, set serve.replicas.address to a loopback address of its own, such as 127.0.0.2",
			"serve.replicas.enabled: other replicas cannot reach serve.listen %q, as each has its own loopback", c.Serve.Listen)
	case c.Serve.TokenFile == "" || c.Serve.ClientCA != "":
		return sandbox.Invalid("set serve.token_file, and leave out serve.client_ca", "serve.replicas.enabled: replicas pass on the tokens of callers, and cannot pass on client certificates")
	case c.Serve.TLSCert != "" && (len(c.Serve.Hosts) == 0 || net.ParseIP(c.Serve.Hosts[0]) != nil):
		return sandbox.Invalid("write it first in serve.hosts", "serve.replicas.enabled: replicas ask each other for a name that serve.tls_cert is for, and serve.hosts has none")
	}
	return nil
}

// checkServe is what belljar serve says of the configuration before it does anything. Who wants no server may keep nothing of commands.
func checkServe(c *config.Config) finding {
	refused, is := errors.AsType[*sandbox.Error](cmp.Or(servable(c, "belljar serve"), checkReplicas(c)))
	switch {
	case is && c.Serve.Replicas.Enabled:
		return fail(refused.Hint, "%s", refused.Message)
	case is:
		return warn(refused.Hint, "%s", refused.Message)
	case c.Serve.Replicas.Enabled:
		return ok("belljar serve listens at %s, as one of several replicas", c.Serve.Listen)
	}
	return ok("belljar serve listens at %s", c.Serve.Listen)
}

func isLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.Unmap().IsLoopback()
}

// join makes this sidecar one of several, if it is to be.
func (s *sidecar) join(ctx context.Context) error {
	c := s.config.Serve
	if !c.Replicas.Enabled {
		return nil
	}
	engine := s.runner.Host.Engine.(*kubernetes.Engine) // checkReplicas saw to that
	store := engine.Shared(c.Replicas.Namespace)
	name, err := replicaName(s.book.Dir)
	if err != nil {
		return err
	}
	u, err := url.Parse(c.Listen)
	if err != nil {
		return err
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil {
		return err
	}
	address, err := ownAddress(ctx, cmp.Or(c.Replicas.Address, u.Hostname()), store)
	if err != nil {
		return err
	}
	of := replicas.Config{
		Name: name, Self: store.Self(), Address: address, Port: uint16(port), Store: leases{store}, Keep: s.config.Spool.Age, Log: s.log,
		Local: &replica{book: s.book, owners: s.api.Owners, runner: s.runner.Local, engine: engine, asked: s.api.Approvals},
	}
	if c.TLSCert != "" {
		of.Secure = func() (*tls.Config, error) { return peerTLS(cmp.Or(c.Replicas.CA, c.TLSCert), c.Hosts[0]) }
	}
	joined, err := replicas.Join(ctx, of)
	if err != nil {
		return err
	}
	s.replicas.Store(joined)
	s.api.Replicas = joined
	s.log.Info("this is one of several replicas", "replica", name, "address", netip.AddrPortFrom(address, uint16(port)).String())
	return nil
}

// replicaName is the one in the directory of executions, whose IDs have it: a sidecar that starts again with them is the same replica.
func replicaName(dir string) (string, error) {
	file := filepath.Join(dir, "replica")
	text, err := os.ReadFile(file)
	if name := strings.TrimSpace(string(text)); err == nil && replicas.CheckName(name) {
		return name, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("reading this replica's name: %w", err)
	}
	name := replicas.NewName()
	if err := os.WriteFile(file, []byte(name+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("recording this replica's name: %w", err)
	}
	return name, nil
}

// ownAddress is the one that is configured, if it is one, or else the one towards the API server.
func ownAddress(ctx context.Context, configured string, of *kubernetes.Shared) (netip.Addr, error) {
	if a, err := netip.ParseAddr(configured); err == nil && !a.Unmap().IsUnspecified() {
		return a.Unmap(), nil
	}
	a, err := of.OwnAddress(ctx)
	if err == nil && !replicas.CheckAddress(a) {
		err = fmt.Errorf("others cannot reach %s", a)
	}
	if err != nil {
		return a, &sandbox.Error{Cause: sandbox.CauseEngine, Message: "the address of this replica is not found", Err: err, Hint: "set serve.replicas.address"}
	}
	return a, nil
}

// peerTLS trusts who has a certificate of that name which the file's sign, or one of the file's itself.
func peerTLS(file, name string) (*tls.Config, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the certificates of other replicas: %w", err)
	}
	c := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: name, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	if !c.RootCAs.AppendCertsFromPEM(text) {
		return nil, sandbox.Invalid("it is a PEM file of certificates", "%q has no certificate", file)
	}
	return c, nil
}

// replica is what this sidecar has, for the others.
type replica struct {
	book   *executions.Book
	owners *executions.Owners
	runner *local.Local
	engine *kubernetes.Engine
	asked  *approvals.Approvals
}

func (r *replica) Knows(ctx context.Context, id string) bool {
	x, err := r.book.Find(id)
	return err == nil && access.FromContext(ctx).Owns(x.Owner)
}

func (r *replica) Asks(id string) bool {
	return slices.ContainsFunc(r.asked.Waiting(), func(q approvals.Asked) bool { return q.ID == id })
}

func (r *replica) Keys() [][2]string               { return r.book.Keys() }
func (r *replica) KnowsKey(owner, key string) bool { return r.book.KnowsKey(owner, key) }

func (r *replica) Use(session string) (done func()) {
	if session == "" {
		return func() {}
	}
	return r.owners.Use(session)
}

func (r *replica) Runs(session string) bool { return r.book.Uses(session) }

func (r *replica) Idle(session string) bool { return !r.owners.InUse(session) && !r.book.Uses(session) }

func (r *replica) Known() (map[string]bool, error) {
	names, err := r.runner.SessionNames()
	known := map[string]bool{}
	for _, name := range slices.Concat(names, r.engine.Recorded()) {
		known[name] = true
	}
	return known, err
}

func (r *replica) Owner(session string) string {
	owner, err := r.owners.Of(session)
	if err != nil {
		return ""
	}
	return owner
}

func (r *replica) GiveUp(ctx context.Context, session string) (k replicas.Kept, err error) {
	defer r.Use(session)() // else it has no owner if it stays after all: for a moment it is nowhere
	if k.Owner, err = r.owners.Of(session); err != nil {
		return k, err
	}
	state, err := r.runner.GiveUpSession(ctx, session)
	if err != nil {
		return k, err
	}
	k.State = string(state)
	if k.Pod, err = r.engine.GiveUp(session); err == nil {
		err = r.owners.Set(session, "")
	}
	if err != nil { // it stays
		err = errors.Join(err, r.adopt(context.WithoutCancel(ctx), session, k))
	}
	return k, err
}

// TakeOver implements replicas.Sessions. Whose the session is says the Lease: what this replica remembers may be of one before.
func (r *replica) TakeOver(ctx context.Context, session string, k replicas.Kept) error {
	defer r.Use(session)() // else it has no owner any more once it is there: the engine may wait for long before it knows it
	if err := r.owners.Set(session, k.Owner); err != nil {
		return err
	}
	return r.adopt(ctx, session, k)
}

func (r *replica) adopt(ctx context.Context, session string, k replicas.Kept) error {
	if k.Pod == "" && k.State == "" {
		return nil // nothing was made
	}
	var kept *sandbox.Kept
	if k.Pod != "" {
		of, err := r.engine.TakeOver(ctx, k.Pod)
		if err != nil {
			return err
		}
		kept = &of
	}
	err := r.runner.TakeOverSession(ctx, session, []byte(k.State), kept)
	if err != nil && kept != nil { // else the session is known here, and the next request takes nothing over
		_, undo := r.engine.GiveUp(session)
		err = errors.Join(err, undo)
	}
	return err
}
