// Package listen opens the sockets of the sidecar and serves HTTP on them: a unix socket,
// TCP with or without TLS, or those that systemd passes.
//
// The one rule: what is open to more than this machine's user asks who calls, and no
// client can hold on to what others need: each read of a request and each write of an
// answer has its time, and of too many connections the longest idle one is closed.
//
//	l, err := listen.Open(ctx, listen.Config{Address: "unix:///run/belljar/belljar.sock", Connections: 2048})
//	server := l.Server(handler)
//	go func() { <-ctx.Done(); server.Shutdown(deadline) }()
//	listen.Ready()
//	err = l.Serve(server)
//
// # Design
//
// A limit that makes new connections wait, as netutil's, lets anyone who opens enough
// idle ones shut out the others. Here the newest comes in and the longest idle one goes,
// so an attacker must be faster than the client's first request.
package listen

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync"

	"belljar/sandbox"
)

// Config says where to listen, and for whom.
type Config struct {
	Address     string // unix:///path or tcp://host:port; systemd's sockets, if any, replace it
	Cert, Key   string // files in PEM for TLS, read again when they change; empty: no TLS
	ClientCA    string // file in PEM; empty: clients need no certificate
	Tokens      bool   // callers have tokens
	Insecure    bool   // allows other machines without TLS
	Connections int    // open ones of each socket
	Log         *slog.Logger
}

// Listener is the open sockets.
type Listener struct {
	sockets []net.Listener
	log     *slog.Logger
	times   times
}

// Open opens the sockets. ctx bounds the opening only.
func Open(ctx context.Context, c Config) (*Listener, error) {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	secured, err := c.secured()
	if err != nil {
		return nil, err
	}
	sockets, err := inherited()
	if err == nil && len(sockets) == 0 {
		var own net.Listener
		if own, err = c.open(ctx); err == nil {
			sockets = append(sockets, own)
		}
	}
	for _, socket := range sockets {
		if err == nil {
			err = c.check(socket.Addr())
		}
	}
	l := c.listener(sockets, secured)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (c Config) listener(sockets []net.Listener, secured *secure) *Listener {
	l := &Listener{log: c.Log, times: usual}
	for _, socket := range sockets {
		var bounded net.Listener = &crowd{Listener: socket, most: c.Connections, stall: &l.times.stall}
		if secured != nil && socket.Addr().Network() == "tcp" {
			bounded = secured.listener(bounded)
		}
		l.sockets = append(l.sockets, bounded)
	}
	return l
}

func (c Config) open(ctx context.Context) (net.Listener, error) {
	u, err := url.Parse(c.Address)
	switch {
	case err == nil && u.Scheme == "unix" && u.Host == "":
		return openUnix(ctx, u.Path)
	case err == nil && u.Scheme == "tcp":
		return c.openTCP(ctx, u.Host)
	}
	return nil, sandbox.Invalid("write unix:///path or tcp://host:port", "serve.listen %q is not an address", c.Address)
}

// Addrs are the addresses of the sockets.
func (l *Listener) Addrs() []net.Addr {
	var all []net.Addr
	for _, socket := range l.sockets {
		all = append(all, socket.Addr())
	}
	return all
}

// Serve serves on all sockets until the server is shut down or closed, or one of them
// fails.
func (l *Listener) Serve(s *http.Server) error {
	failed := make([]error, len(l.sockets))
	var all sync.WaitGroup
	for i, socket := range l.sockets {
		all.Go(func() {
			if err := s.Serve(socket); !errors.Is(err, http.ErrServerClosed) {
				failed[i] = errors.Join(err, s.Close())
			}
		})
	}
	all.Wait()
	return errors.Join(failed...)
}

// Close closes the sockets and removes the unix socket's file, unless that is systemd's.
// To shut down the server does so, too.
func (l *Listener) Close() error {
	var failed error
	for _, socket := range l.sockets {
		if err := socket.Close(); !errors.Is(err, net.ErrClosed) {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}
