package main

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	"belljar/sandbox"
)

// benchCreate measures one container for one command, with the processor time that all of
// the host uses for it: most of that is other processes', such as the engine's and its
// runtime's.
func benchCreate(ctx context.Context, b *bench) (benchRow, error) {
	l := b.local(sandbox.PoolSize{})
	defer l.Close()
	var used [2]cpuTime
	ours := used[0].around(func(ctx context.Context) (time.Duration, error) {
		var start time.Duration
		_, err := timedRun(ctx, l, sandbox.Command{Script: trivial}, func(r sandbox.Result) error {
			start = r.Timing.Start
			return nil
		})
		return start, err
	})
	name, beside := b.besideCreate()
	a, t, err := alternate(ctx, b.count, ours, used[1].around(beside))
	row := newBenchRow(name, a, t)
	if b.kubectl != nil || err != nil { // of a cluster's hosts it is not known
		return row, err
	}
	row.CPU, row.PeerCPU = used[0].each(), used[1].each()
	row.Memory, row.PeerMemory, err = b.memory(ctx)
	return row, err
}

// cpuTime is the host's processor time, of several turns after the first.
type cpuTime struct {
	turns int
	sum   time.Duration
}

// settle is how long what a turn leaves behind, such as a runtime's clean-up, may go on.
const settle = 100 * time.Millisecond

// around is that side, with its processor time.
func (c *cpuTime) around(do side) side {
	return func(ctx context.Context) (time.Duration, error) {
		before, err := hostCPU()
		if err != nil {
			return 0, err
		}
		took, err := do(ctx)
		if err == nil {
			err = pause(ctx, settle)
		}
		after, failed := hostCPU()
		if c.turns++; c.turns > 1 {
			c.sum += after - before
		}
		return took, errors.Join(err, failed)
	}
}

// each is milliseconds for one turn.
func (c *cpuTime) each() float64 {
	if c.turns < 2 {
		return 0
	}
	return c.sum.Seconds() * 1000 / float64(c.turns-1)
}

// hostCPU is the processor time that this host has used, of all its processes: of cgroup v2, of
// v1, or, less exact, as ps(1) knows it.
func hostCPU() (time.Duration, error) {
	if text, err := os.ReadFile("/sys/fs/cgroup/cpu.stat"); err == nil {
		for line := range strings.Lines(string(text)) {
			if us, is := strings.CutPrefix(line, "usage_usec "); is {
				return number(us, time.Microsecond)
			}
		}
	}
	if text, err := os.ReadFile("/sys/fs/cgroup/cpuacct/cpuacct.usage"); err == nil {
		return number(string(text), time.Nanosecond)
	}
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	var sum time.Duration
	for i, field := range strings.Fields(first) {
		if i == 0 || i == 4 || i == 5 || i > 8 { // its name, idle, iowait, and guests, who are in the others
			continue
		}
		d, err := number(field, 10*time.Millisecond)
		if err != nil {
			return 0, err
		}
		sum += d
	}
	return sum, nil
}

func number(text string, unit time.Duration) (time.Duration, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	return time.Duration(n) * unit, err
}
