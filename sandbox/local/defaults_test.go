package local_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/local"
	"belljar/sandbox/sandboxtest"

	"github.com/google/go-cmp/cmp"
)

// Unset fields of a profile get the defaults, also a field that is new.
func TestOpenFieldsOfProfiles(t *testing.T) {
	want := sandbox.Defaults().Profile
	if d := cmp.Diff(want, local.ProfileDefaults(sandbox.Profile{})); d != "" {
		t.Error(d)
	}
	for name, test := range map[string]struct{ set, want func(p *sandbox.Profile) }{
		"a short bound shortens the timeouts": {
			func(p *sandbox.Profile) { p.MaxTimeout = time.Minute },
			func(p *sandbox.Profile) {
				p.MaxTimeout, p.Timeout, p.IdleTimeout = time.Minute, time.Minute, time.Minute
			},
		},
		"a long timeout raises the bound": {
			func(p *sandbox.Profile) { p.Timeout = 5 * time.Hour },
			func(p *sandbox.Profile) { p.Timeout, p.MaxTimeout = 5*time.Hour, 5*time.Hour },
		},
		"no pool":      {func(p *sandbox.Profile) { p.Pool.Max = sandbox.NoPool }, func(p *sandbox.Profile) { p.Pool.Min, p.Pool.Max = 0, sandbox.NoPool }},
		"none at rest": {func(p *sandbox.Profile) { p.Pool.Max = 3 }, func(p *sandbox.Profile) { p.Pool.Min, p.Pool.Max = 0, 3 }},
		"no variables": {func(p *sandbox.Profile) { p.Env = []string{} }, func(p *sandbox.Profile) { p.Env = []string{} }},
		"one limit":    {func(p *sandbox.Profile) { p.Limits.Pids = 7 }, func(p *sandbox.Profile) { p.Limits.Pids = 7 }},
	} {
		var p sandbox.Profile
		test.set(&p)
		want := sandbox.Defaults().Profile
		test.want(&want)
		if d := cmp.Diff(want, local.ProfileDefaults(p)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// A Local without settings runs commands as one with all defaults written out.
func TestZeroIsTheDefault(t *testing.T) {
	for name, open := range map[string]func(e *sandboxtest.Engine) *local.Local{
		"New": func(e *sandboxtest.Engine) *local.Local { return local.New(e, &sandboxtest.Images{}) },
		"no profile": func(e *sandboxtest.Engine) *local.Local {
			return &local.Local{Engine: e, Images: &sandboxtest.Images{}}
		},
		"an empty one": func(e *sandboxtest.Engine) *local.Local {
			return &local.Local{Engine: e, Images: &sandboxtest.Images{}, Profiles: map[string]sandbox.Profile{"default": {}}}
		},
		"reloaded": func(e *sandboxtest.Engine) *local.Local {
			l := newLocal(e)
			l.Reload(nil)
			return l
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				engine := playing(sleep(time.Hour))
				l := open(engine)
				defer l.Close()
				begun, d := time.Now(), sandbox.Defaults().Profile
				r, err := sandbox.Run(t.Context(), l, command())
				if err != nil {
					t.Fatal(err)
				}
				wantFate(t, r, sandbox.StatusTimeout, sandbox.CauseIdleTimeout, sandbox.ExitEnded)
				wantAfter(t, begun, d.IdleTimeout)
				s := engine.Specs()[0]
				if s.User != d.User || s.Limits.OfContainer() != d.Limits.OfContainer() || s.Network != "none" || s.Workdir != d.Workdir || s.Image.Reference != d.Image {
					t.Errorf("made %+v", s)
				}
			})
		})
	}
}

func TestReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := playing(sleep(time.Second))
		engine.OnCreate = sandboxtest.Hang
		l := local.New(engine, &sandboxtest.Images{})
		ctx := cancelAfter(t, 3*time.Second)
		if err := l.Ready(ctx); !errors.Is(err, ctx.Err()) || err == nil {
			t.Errorf("with an engine that hangs: %v", err)
		}
		l.Close()
		wantNoneLeft(t, engine)
		if err := l.Ready(t.Context()); err == nil {
			t.Error("a closed one is ready")
		}
	})
	synctest.Test(t, func(t *testing.T) {
		engine := playing(sleep(time.Second))
		failure := errors.New("no room for it")
		var healthy atomic.Bool
		engine.OnCreate = func(context.Context) error {
			time.Sleep(time.Second)
			if healthy.Load() {
				return nil
			}
			return failure
		}
		l := local.New(engine, &sandboxtest.Images{})
		defer l.Close()
		if err := l.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), failure.Error()) {
			t.Errorf("with an engine that fails: %v", err)
		}
		healthy.Store(true)
		for l.Ready(t.Context()) != nil {
			time.Sleep(time.Second)
		}
		if list := pools(l); len(list) != 1 || list[0].Ready != sandbox.Defaults().Profile.Pool.Min {
			t.Errorf("pools %+v", list)
		}
		wantRun(t, l, command(), true)
	})
	synctest.Test(t, func(t *testing.T) {
		l := newLocal(playing(sleep(time.Second)))
		defer l.Close()
		if err := l.Ready(t.Context()); err != nil {
			t.Errorf("without a pool: %v", err)
		}
	})
}

func TestNoQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, sandbox.Admission{MaxRunning: 1, MaxQueued: sandbox.NoQueue})
		x := c.start(t.Context(), t, "1m")
		_, err := c.Start(t.Context(), sandbox.Command{Script: "1s"})
		wantBusy(t, err, "1 commands running, 0 waiting")
		x.Wait()
		if r, err := sandbox.Run(t.Context(), c, sandbox.Command{Script: "1s"}); err != nil {
			t.Errorf("%+v, %v", r, err)
		}
	})
}
