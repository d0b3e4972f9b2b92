package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"

	"belljar/cmd/internal/access"
	"belljar/cmd/internal/listen"
	"belljar/cmd/internal/replicas"
	"belljar/cmd/internal/tracing"
	"belljar/sandbox/kubernetes"
	"belljar/sandbox/local"
)

const (
	// upkeepPause is between two looks for what can be forgotten.
	upkeepPause = 5 * time.Minute

	// answerTime is how long the last answers may take, once all commands have ended.
	answerTime = 2 * time.Second

	// afterDrain is how long the end takes at most, after drain_timeout: who stops the sidecar has to wait that long, as deploy/ does.
	afterDrain = local.EndTime + answerTime + replicas.EndTime + local.CloseTime + kubernetes.CloseTime + tracing.LastWords
)

// serve answers requests until a signal asks for the end.
func (s *sidecar) serve(ctx context.Context, l *listen.Listener, signals <-chan os.Signal) error {
	server := l.Server(s.handler())
	requests, cut := context.WithCancel(context.WithoutCancel(ctx))
	server.BaseContext = func(net.Listener) context.Context { return requests }
	defer s.api.Close() // before the runner's end
	defer s.mcp.Close()
	defer cut()
	served := make(chan error, 1)
	go func() { served <- l.Serve(server) }()
	s.notify(listen.Ready())
	s.log.Info("serving", "addresses", fmt.Sprint(l.Addrs()), "version", version, "pages", s.pages(l.Addrs()))
	defer s.followTokens(ctx)() // also while it waits for its commands
	sweep := make(chan struct{}, 1)
	sweep <- struct{}{} // what was left before
	endSweeps := s.sweepEach(ctx, sweep)
	defer endSweeps()
	tick := time.NewTicker(upkeepPause)
	defer tick.Stop()
	for {
		select {
		case err := <-served:
			return errors.Join(err, s.replicas.Load().Close(), s.book.Close())
		case <-tick.C:
			s.book.Sweep()
			select {
			case sweep <- struct{}{}:
			default: // the last one goes on
			}
		case sig := <-signals:
			if sig == syscall.SIGHUP {
				s.reload()
				continue
			}
			endSweeps()
			s.replicas.Load().Drain()
			s.drain(signals)
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTime)
			defer cancel()
			defer context.AfterFunc(ctx, cut)()
			if server.Shutdown(ctx) != nil {
				server.Close()
			}
			<-served
			s.api.Close()
			s.mcp.Close()
			return errors.Join(s.replicas.Load().Close(), s.book.Close())
		}
	}
}

// sweepEach has what ended belljars left removed at each signal, and old idempotency keys, until stop. That may take long, and the end
// does not wait for it.
func (s *sidecar) sweepEach(ctx context.Context, sweep <-chan struct{}) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			select {
			case <-sweep:
			case <-ctx.Done():
				return
			}
			switch removed, err := s.runner.Host.Engine.Sweep(ctx); {
			case err != nil && ctx.Err() == nil:
				s.log.Warn("removing what other belljars left failed", "error", err)
			case removed > 0:
				s.log.Info("removed containers that another belljar left", "containers", removed)
			}
			if err := s.replicas.Load().SweepKeys(ctx); err != nil && ctx.Err() == nil {
				s.log.Warn("removing old idempotency keys failed", "error", err)
			}
		}
	})
	return func() {
		cancel()
		all.Wait()
	}
}

// followTokens has changes of the token file in use soon, until stop: in a cluster there may be no one to send SIGHUP.
func (s *sidecar) followTokens(ctx context.Context) (stop func()) {
	file := s.config.Serve.TokenFile
	if file == "" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var following sync.WaitGroup
	following.Go(func() { s.tokens.Follow(ctx, file, s.log) })
	return func() {
		cancel()
		following.Wait()
	}
}

// pages are where a browser finds the page: on the ports, not on a unix socket.
func (s *sidecar) pages(all []net.Addr) (urls []string) {
	scheme := "http"
	if s.config.Serve.TLSCert != "" {
		scheme = "https"
	}
	for _, at := range all {
		if tcp, ok := at.(*net.TCPAddr); ok {
			host := tcp.String()
			if tcp.IP.IsUnspecified() {
				host = fmt.Sprintf("localhost:%d", tcp.Port)
			}
			urls = append(urls, scheme+"://"+host+"/ui/")
		}
	}
	return urls
}

// handler is the API behind all that every request passes.
func (s *sidecar) handler() http.Handler {
	api, routes := s.api.Handler()
	routes.Handle("/mcp", s.mcp.Handler())
	c := s.config.Serve
	guard := &access.Guard{Tokens: &s.tokens, Hosts: c.Hosts, Origins: c.Origins, Log: s.log}
	bounds := access.Bounds{Requests: c.MaxRequests, Body: c.MaxBody}
	return s.metrics.Requests(routes, guard.Wrap(bounds.Wrap(s.spans.Requests(routes, s.replicas.Load().Wrap(api)))))
}

// notify logs that the service manager could not be told.
func (s *sidecar) notify(err error) {
	if err != nil {
		s.log.Warn("telling the service manager failed", "error", err)
	}
}

// reload takes the profiles and tokens that were changed, all of them or none.
func (s *sidecar) reload() {
	s.notify(listen.Reloading())
	defer func() { s.notify(listen.Ready()) }()
	c, err := s.load()
	if err == nil && s.config.Serve.TokenFile != "" {
		err = s.tokens.Load(s.config.Serve.TokenFile)
	}
	if err != nil {
		s.log.Error("nothing is reloaded: fix the configuration, and send SIGHUP again", "error", err)
		return
	}
	s.runner.Reload(c.Profiles)
	s.metrics.SetProfiles(profileNames(c))
	s.log.Info("reloaded profiles and tokens")
}

// drain waits for running commands, until its time is over or another signal comes.
func (s *sidecar) drain(signals <-chan os.Signal) {
	s.notify(listen.Stopping())
	s.log.Info("shutting down: waiting for the commands that are running", "drain_timeout", s.config.Serve.DrainTimeout.String(), "ends_within", (s.config.Serve.DrainTimeout + afterDrain).String())
	ctx, cancel := context.WithTimeout(context.Background(), s.config.Serve.DrainTimeout)
	defer cancel()
	drained := make(chan struct{})
	go func() {
		for {
			select {
			case sig := <-signals:
				if sig != syscall.SIGHUP {
					cancel()
				}
			case <-drained:
				return
			}
		}
	}()
	s.book.Drain(ctx)
	s.replicas.Load().Settle(ctx)
	close(drained)
}
