package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/listing"
	"belljar/sandbox/local"
)

func benchCold(ctx context.Context, b *bench) (benchRow, error) {
	ours, theirs, err := alternate(ctx, b.count, wholeProcess(append(slices.Clone(b.own), trivial)), wholeProcess(b.peer.run(trivial)))
	return newBenchRow("docker run", ours, theirs), err
}

// benchWarm measures a pool at rest.
func benchWarm(ctx context.Context, b *bench) (benchRow, error) {
	l := b.local(b.pool())
	defer l.Close()
	l.Warm()
	name, beside := b.beside()
	var last string
	ours := func(ctx context.Context) (time.Duration, error) {
		if err := b.rest(ctx, l, last); err != nil {
			return 0, err
		}
		took, _, err := inWarm(ctx, l, &last)
		return took, err
	}
	theirs := func(ctx context.Context) (time.Duration, error) {
		if err := b.rest(ctx, l, last); err != nil {
			return 0, err
		}
		return beside(ctx)
	}
	a, t, err := alternate(ctx, b.count, ours, theirs)
	return newBenchRow(name, a, t), err
}

// inWarm runs a command in a container of a pool at rest, which last is from then on. start is until the command started in it.
func inWarm(ctx context.Context, l *local.Local, last *string) (took, start time.Duration, err error) {
	took, err = timedRun(ctx, l, sandbox.Command{Script: trivial}, func(r sandbox.Result) error {
		if *last, start = r.Container.ID, r.Timing.Start; !r.Container.Warm {
			return errors.New("the pool was at rest, and yet the command got no warm container")
		}
		return nil
	})
	return took, start, err
}

const (
	restTimeout = time.Minute            // for a pool to come to rest
	restPoll    = 5 * time.Millisecond   // between two checks
	restCalm    = 10 * time.Millisecond  // for the host to calm down then
	gatePause   = 100 * time.Millisecond // for a session to open its next gate
)

// rest waits until the pool is idle and the last container it gave out is
// gone: making and removing containers would slow down what is measured next.
func (b *bench) rest(ctx context.Context, l sandbox.Pools, last string) error {
	for begun := time.Now(); ; {
		pools, err := l.Pools(ctx)
		if err != nil {
			return err
		}
		s := pools[0]
		if s.Error != "" {
			return fmt.Errorf("filling the pool: %s", s.Error)
		}
		if s.Ready >= s.Target && s.Making == 0 {
			list, err := b.host.Engine.List(ctx)
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(list, func(m listing.Container) bool { return m.ID == last }) {
				return pause(ctx, restCalm)
			}
		}
		if time.Since(begun) > restTimeout {
			return fmt.Errorf("the pool did not come to rest within %v: %d of %d containers are ready", restTimeout, s.Ready, s.Target)
		}
		if err := pause(ctx, restPoll); err != nil {
			return err
		}
	}
}

// pool is the configured one, but never empty or too short-lived to be measured.
func (b *bench) pool() sandbox.PoolSize {
	pool := b.config.Profiles[sandbox.DefaultProfile].Pool
	pool.Min = max(1, pool.Min)
	pool.Max = max(pool.Min, pool.Max)
	pool.MaxAge = max(time.Hour, pool.MaxAge)
	return pool
}

// benchSession measures a session at rest: its next gate is open.
func benchSession(ctx context.Context, b *bench) (benchRow, error) {
	return b.inContainer(ctx, func(ours, theirs side) (measured, measured, error) {
		rested := func(do side) side {
			return func(ctx context.Context) (time.Duration, error) {
				if err := pause(ctx, gatePause); err != nil {
					return 0, err
				}
				return do(ctx)
			}
		}
		return alternate(ctx, b.count, rested(ours), rested(theirs))
	})
}

// benchSessionBurst measures commands in a row without a pause.
func benchSessionBurst(ctx context.Context, b *bench) (benchRow, error) {
	return b.inContainer(ctx, func(ours, theirs side) (measured, measured, error) {
		return rounds(ctx, 1, (b.count+throughputRounds-1)/throughputRounds, ours, theirs)
	})
}

// inContainer measures both sides in an existing container each.
func (b *bench) inContainer(ctx context.Context, measure func(ours, theirs side) (measured, measured, error)) (row benchRow, err error) {
	l := b.local(sandbox.PoolSize{})
	defer l.Close()
	l.Warm() // otherwise no gate is opened in advance
	c := sandbox.Command{Script: trivial, Session: fmt.Sprintf("bench-%d-%d", os.Getpid(), time.Now().UnixNano())}
	name, theirs, clear, err := b.besideSession(ctx)
	defer func() { err = errors.Join(err, removeSession(ctx, l, c.Session), clear(ctx)) }()
	if err != nil {
		return row, err
	}
	if _, err := timedRun(ctx, l, c, nil); err != nil {
		return row, err
	}
	ours := func(ctx context.Context) (time.Duration, error) {
		return timedRun(ctx, l, c, func(r sandbox.Result) error {
			if !r.Container.Reused {
				return fmt.Errorf("the session was lost: %s", r.SessionLost)
			}
			return nil
		})
	}
	a, t, err := measure(ours, theirs)
	return newBenchRow(name, a, t), err
}

func removeSession(ctx context.Context, l sandbox.Sessions, name string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	err := l.RemoveSession(ctx, name)
	if sandbox.CauseOf(err) == sandbox.CauseInvalid {
		return nil // it was never created
	}
	return err
}
