package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"belljar/sandbox"
)

const (
	outputBytes   = 256 << 20
	outputSamples = 3
)

// benchOutput measures bytes. A pipe to a reader would measure the reader, too.
func benchOutput(ctx context.Context, b *bench) (benchRow, error) {
	script := fmt.Sprintf("head -c %d /dev/zero", outputBytes)
	own := append(slices.Clone(b.own), "--on-output-limit", "truncate", script)
	ours, theirs, err := alternate(ctx, outputSamples, wholeProcess(own), wholeProcess(b.peer.run(script)))
	ours.perSecond *= outputBytes
	theirs.perSecond *= outputBytes
	return newBenchRow("docker run", ours, theirs), err
}

// throughputRounds is how often each side has its turn.
const throughputRounds = 4

// benchThroughput measures callers that run one command after the other, each in
// a new container.
func benchThroughput(callers int) func(context.Context, *bench) (benchRow, error) {
	return func(ctx context.Context, b *bench) (benchRow, error) {
		l := b.local(sandbox.PoolSize{})
		defer l.Close()
		ours := func(ctx context.Context) (time.Duration, error) {
			return timedRun(ctx, l, sandbox.Command{Script: trivial}, nil)
		}
		theirs := wholeProcess(b.peer.run(trivial))
		total := max(2*b.count, 10*callers)
		each := (total + callers*throughputRounds - 1) / (callers * throughputRounds)
		a, t, err := rounds(ctx, callers, each, ours, theirs)
		return newBenchRow("docker run", a, t), err
	}
}

// rounds alternates in rounds of all callers at the same time. The first of
// each side, in which every caller runs one command, is not counted.
func rounds(ctx context.Context, callers, each int, ours, theirs side) (a, b measured, err error) {
	var took [2][]time.Duration
	var whole [2]time.Duration
	for i := range 2 * (throughputRounds + 1) {
		n := each
		if i < 2 {
			n = 1
		}
		d, elapsed, err := callAll(ctx, callers, times(n), [2]side{ours, theirs}[i%2])
		if err != nil {
			return a, b, err
		}
		if i >= 2 {
			took[i%2] = append(took[i%2], d...)
			whole[i%2] += elapsed
		}
	}
	return measured{took[0], float64(len(took[0])) / whole[0].Seconds()}, measured{took[1], float64(len(took[1])) / whole[1].Seconds()}, nil
}

const (
	// sustainedTurns is how many turns each side has, and sustainedEach how
	// long one turn takes, multiplied by -n.
	sustainedTurns = 2
	sustainedEach  = 1500 * time.Millisecond / sustainedTurns
)

// benchSustained measures callers that run commands without a pause for longer than
// a full pool lasts.
func benchSustained(callers int) func(context.Context, *bench) (benchRow, error) {
	return func(ctx context.Context, b *bench) (benchRow, error) {
		l := b.local(b.pool())
		defer l.Close()
		l.Warm()
		ours := func(ctx context.Context) (time.Duration, error) {
			return timedRun(ctx, l, sandbox.Command{Script: trivial}, nil)
		}
		rest := func() error { return b.rest(ctx, l, "") }
		a, t, err := sustained(ctx, callers, time.Duration(b.count)*sustainedEach, rest, ours, wholeProcess(b.peer.run(trivial)))
		return newBenchRow("docker run", a, t), err
	}
}

// sustained runs each side for that long, in turns, with a rest before each.
func sustained(ctx context.Context, callers int, long time.Duration, rest func() error, ours, theirs side) (a, b measured, err error) {
	var took [2][]time.Duration
	var whole [2]time.Duration
	for i := range 2 * sustainedTurns {
		if err := rest(); err != nil {
			return a, b, err
		}
		begun := time.Now()
		d, elapsed, err := callAll(ctx, callers, func(int) bool { return time.Since(begun) < long }, [2]side{ours, theirs}[i%2])
		if err != nil {
			return a, b, err
		}
		took[i%2] = append(took[i%2], d...)
		whole[i%2] += elapsed
	}
	return measured{took[0], float64(len(took[0])) / whole[0].Seconds()}, measured{took[1], float64(len(took[1])) / whole[1].Seconds()}, nil
}

// times limits each caller to n times.
func times(n int) func(done int) bool { return func(done int) bool { return done < n } }

// callAll runs a side by several callers, each for as long as more allows, given its
// count so far, and returns how long each time took, and all together. The first error
// ends everything.
func callAll(ctx context.Context, callers int, more func(done int) bool, do side) ([]time.Duration, time.Duration, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	took := make([][]time.Duration, callers)
	var all sync.WaitGroup
	begun := time.Now()
	for i := range callers {
		all.Go(func() {
			for done := 0; more(done); done++ {
				d, err := do(ctx)
				if err = errors.Join(context.Cause(ctx), err); err != nil {
					cancel(err)
					return
				}
				took[i] = append(took[i], d)
			}
		})
	}
	all.Wait()
	return slices.Concat(took...), time.Since(begun), context.Cause(ctx)
}
