package local_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/sandboxtest"
)

// telling is an engine whose processes tell what others are asked for.
type telling struct {
	*sandboxtest.Engine
	silent                     bool // as an init of an earlier version
	lists, counts, told, begun atomic.Int64
}

func (e *telling) Create(ctx context.Context, s sandbox.Spec) (sandbox.Container, error) {
	box, err := e.Engine.Create(ctx, s)
	if err != nil {
		return nil, err
	}
	return &tellingBox{box, e}, nil
}

func (e *telling) Adopt(ctx context.Context, kept sandbox.Kept) (sandbox.Container, error) {
	box, err := e.Engine.Adopt(ctx, kept)
	if err != nil {
		return nil, err
	}
	return &tellingBox{box, e}, nil
}

type tellingBox struct {
	sandbox.Container
	engine *telling
}

func (b *tellingBox) TellsAround() bool { return true }

func (b *tellingBox) Processes(ctx context.Context) ([]sandbox.Process, error) {
	b.engine.lists.Add(1)
	return b.Container.Processes(ctx)
}

func (b *tellingBox) Counters(ctx context.Context) (sandbox.Counters, error) {
	b.engine.counts.Add(1)
	return b.Container.Counters(ctx)
}

func (b *tellingBox) Exec(ctx context.Context, x sandbox.Exec) (sandbox.Running, error) {
	before, _ := b.Container.Counters(ctx)
	r, err := b.Container.Exec(ctx, x)
	if err != nil {
		return nil, err
	}
	return &tellingProcess{r, b, before}, nil
}

type tellingProcess struct {
	sandbox.Running
	box    *tellingBox
	before sandbox.Counters
}

func (p *tellingProcess) Before(context.Context) (sandbox.Counters, bool) {
	p.box.engine.begun.Add(1)
	return p.before, !p.box.engine.silent
}

func (p *tellingProcess) ProcessesAtExit(ctx context.Context) ([]sandbox.Process, bool) {
	p.box.engine.told.Add(1)
	list, err := p.box.Container.Processes(ctx)
	return list, err == nil && !p.box.engine.silent
}

func (p *tellingProcess) CountersAtExit(ctx context.Context) (sandbox.Counters, bool) {
	c, err := p.box.Container.Counters(ctx)
	return c, err == nil && !p.box.engine.silent
}

// What comes with a process's start and end is not asked for once more, and what does not come is asked for.
func TestTold(t *testing.T) {
	for _, session := range []string{"", "s"} {
		for _, silent := range []bool{false, true} {
			t.Run(session+" silent "+strconv.FormatBool(silent), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					commands := 0
					e := &telling{silent: silent, Engine: playing(func(p *sandboxtest.Proc) int {
						commands++
						p.Sleep(time.Millisecond) // where the start tells nothing, what came before it is counted once it is over
						p.Count(func(c *sandbox.Counters) { c.PidsLimitHits++ })
						if commands == 2 {
							p.Daemon("left", func(p *sandboxtest.Proc) int { p.CloseOutput(); p.Sleep(time.Hour); return 0 })
						}
						return 0
					})}
					e.Way = sandbox.WayInit
					l := newLocal(e.Engine)
					l.Engine, l.StateDir = e, t.TempDir()
					defer l.Close()
					for i := range 2 {
						c := command()
						c.ID, c.Session = "", session
						x, err := l.Start(t.Context(), c)
						if err != nil {
							t.Fatal(err)
						}
						r, err := x.Wait()
						if err != nil || r.Evidence.PidsLimitHits != 1 || len(r.Lingering) != i {
							t.Errorf("%+v, %v", r, err)
						}
					}
					l.RemoveSession(t.Context(), "s")
					asked := e.lists.Load() + e.counts.Load()
					if most := int64(3); !silent && asked > most { // where something is left, what runs is looked at again
						t.Errorf("it asked %d times, want at most %d", asked, most)
					} else if silent && asked < 4 {
						t.Errorf("it asked %d times", asked)
					}
					if e.told.Load() != 2 || (session != "") != (e.begun.Load() == 2) {
						t.Errorf("told %d, begun %d", e.told.Load(), e.begun.Load())
					}
				})
			})
		}
	}
}

// A command that is being ended is listed as it is then, also after its first process has ended.
func TestToldNothingWhileItIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &telling{Engine: playing(func(p *sandboxtest.Proc) int {
			p.Sleep(time.Hour)
			return 0
		})}
		e.Way = sandbox.WayInit
		l := newLocal(e.Engine)
		l.Engine, l.StateDir = e, t.TempDir()
		defer l.Close()
		c := command()
		c.Timeout, c.StopGrace = time.Second, time.Second
		x, err := l.Start(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if r, _ := x.Wait(); r.Cause != sandbox.CauseWallTimeout || e.told.Load() > 0 || e.lists.Load() == 0 {
			t.Errorf("%+v, told %d times, listed %d times", r, e.told.Load(), e.lists.Load())
		}
	})
}
