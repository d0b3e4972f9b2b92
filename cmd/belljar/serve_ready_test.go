package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"belljar"
	"belljar/cmd/internal/executions"
	"belljar/sandbox"
	"belljar/sandbox/local"
	"belljar/sandbox/sandboxtest"
)

// fakeHost is an engine that answers, as a host has it.
type fakeHost struct{ belljar.Engine }

func (fakeHost) Ping(context.Context) error { return nil }

// starting is a sidecar that has just started, with an engine that makes what fault lets it.
func starting(t *testing.T, fault func() error, most sandbox.PoolSize) *sidecar {
	t.Helper()
	p := sandbox.Defaults().Profile
	p.Pool = most
	p.Pool.MaxAge = time.Hour
	l := &local.Local{
		Engine: &sandboxtest.Engine{Script: func(*sandboxtest.Proc) int { return 0 }, OnCreate: func(context.Context) error { return fault() }}, Images: &sandboxtest.Images{},
		Profiles: map[string]sandbox.Profile{"default": p, "other": p}, Log: slog.New(slog.DiscardHandler),
	}
	s := &sidecar{log: l.Log, book: &executions.Book{}, runner: &belljar.Runner{Local: l, Host: &belljar.Host{Engine: fakeHost{}}}}
	l.Warm()
	t.Cleanup(l.Close)
	return s
}

// Once a bug: a pool without a container made the sidecar not ready at any time. With a quota full of sessions no replica
// was, and no one could end a session; a rollout waited for a pod whose pool waited for the pods before it.
func TestReady(t *testing.T) {
	full := &sandbox.Error{Cause: sandbox.CauseBusy, Message: "exceeded quota"}
	broken := &sandbox.Error{Cause: sandbox.CauseImage, Message: "no such image"}
	for name, test := range map[string]struct {
		size  sandbox.PoolSize
		first error
		want  string // "" for ready
	}{
		"a pool that is filled":     {sandbox.PoolSize{Min: 1, Max: 1}, nil, ""},
		"no room":                   {sandbox.PoolSize{Min: 1, Max: 1}, full, ""},
		"no room, wrapped":          {sandbox.PoolSize{Min: 1, Max: 1}, fmt.Errorf("creating: %w", full), ""},
		"an image that is broken":   {sandbox.PoolSize{Min: 1, Max: 1}, broken, "no such image"},
		"an engine that fails":      {sandbox.PoolSize{Min: 1, Max: 1}, errors.New("refused"), "refused"},
		"a pool that may be empty":  {sandbox.PoolSize{Min: 0, Max: 1}, broken, ""},
		"no pool, whatever becomes": {sandbox.PoolSize{Max: sandbox.NoPool}, broken, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var fault atomic.Pointer[error]
				fault.Store(&test.first)
				s := starting(t, func() error { return *fault.Load() }, test.size)
				time.Sleep(time.Minute)
				err := s.ready(t.Context())
				if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
					t.Errorf("%v, want %q", err, test.want)
				}
				var none error
				fault.Store(&none)
				time.Sleep(time.Minute)
				if err := s.ready(t.Context()); err != nil {
					t.Errorf("once containers can be made: %v", err)
				}
				wrong := error(broken)
				fault.Store(&wrong)
				for _, profile := range []string{"default", "other"} { // whose pools may be empty then, and fail
					sandbox.Run(t.Context(), s.runner, sandbox.Command{Script: "true", Profile: profile})
				}
				p := s.runner.Profiles["default"]
				p.Limits.Pids++
				s.runner.Reload(map[string]sandbox.Profile{"default": p})
				time.Sleep(time.Minute)
				sandbox.Run(t.Context(), s.runner, sandbox.Command{Script: "true"})
				time.Sleep(time.Minute)
				if err := s.ready(t.Context()); err != nil {
					t.Errorf("it was ready, and is not once its pools fail: %v", err)
				}
			})
		})
	}
}

// A rollout does not go on before it is known whether containers can be made.
func TestNotReadyBeforeTheFirstContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := starting(t, func() error { time.Sleep(10 * time.Second); return nil }, sandbox.PoolSize{Min: 1, Max: 1})
		if err := s.ready(t.Context()); err == nil || !strings.Contains(err.Error(), "first container") {
			t.Errorf("%v", err)
		}
		time.Sleep(time.Minute)
		if err := s.ready(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
