package local

import (
	"context"
	"fmt"
	"strings"
	"time"

	"belljar/sandbox"
)

// Touch implements sandbox.Execution.
func (x *execution) Touch() { x.output.activity.touch() }

const (
	// samples are how many times in an idle timeout the use of CPU and of disks and
	// networks is looked at, but neither more often nor less often than these.
	samples   = 8
	minSample = 20 * time.Millisecond
	maxSample = 10 * time.Second

	// busyShare is the part of one CPU that counts as activity: a shell that waits in a
	// loop uses less. busyBytes are the same for disks and networks, on which others
	// send a little to everyone.
	busyShare = 0.05
	busyBytes = 4 << 10
)

// watchWork restarts the idle timer while the command works, though it writes nothing. In
// a session, what else runs in its container counts, too.
func (x *execution) watchWork(ctx context.Context, place place) {
	pause := min(max(x.command.IdleTimeout/samples, minSample), maxSample)
	var last sandbox.Counters
	var at time.Time
	for {
		if now, err := place.Counters(ctx); err == nil {
			took := time.Since(at)
			if !at.IsZero() && isWork(x.command.Idle, now, last, took) {
				x.Touch()
			}
			last, at = now, time.Now()
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// isWork reports whether a command worked between two counts, which took that long.
func isWork(i sandbox.Idle, now, last sandbox.Counters, took time.Duration) bool {
	return i.CPU && now.CPUSeconds-last.CPUSeconds >= busyShare*took.Seconds() || i.IO && now.IOBytes-last.IOBytes >= busyBytes
}

// idleMessage says what there was none of, and why that may be.
func (x *execution) idleMessage(place place) string {
	c := x.command
	none := []string{"no output"}
	for _, also := range []struct {
		counts bool
		name   string
	}{{c.Idle.Stdin, "stdin"}, {c.Idle.CPU, "CPU use"}, {c.Idle.IO, "I/O"}} {
		if also.counts {
			none = append(none, also.name)
		}
	}
	last := len(none) - 1
	text := strings.Join(none[:max(last, 1)], ", ")
	if last > 0 {
		text += " or " + none[last]
	}
	text = fmt.Sprintf("%s for %s (idle timeout)", text, sandbox.FormatDuration(c.IdleTimeout))
	if own, err := place.Own(x.result.Lingering); err == nil && place.WaitsForInput(own) {
		text += "; the command waits for input on stdin"
		if c.Stdin == nil {
			text += ": pass it with -i"
		}
	}
	return text + partialKept
}
