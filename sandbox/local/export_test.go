package local

import (
	"context"

	"belljar/sandbox"
	"belljar/sandbox/internal/record"
)

// ExpireSession is ExpireSessions for one that was there when the names were read.
func (l *Local) ExpireSession(ctx context.Context, name string) (bool, error) {
	return l.expireSession(ctx, record.Store{Dir: l.sessionDir(), Name: name})
}

// LiveSessions is how many sessions l remembers in memory.
func (l *Local) LiveSessions() int {
	l.sessions.mu.Lock()
	defer l.sessions.mu.Unlock()
	return len(l.sessions.live)
}

var ProfileDefaults = profileDefaults

// CallAs has somebody else be who runs this process, until the function it returns is
// called.
func CallAs(uid, gid int) (undo func()) {
	before := callerIDs
	callerIDs = func() (int, int) { return uid, gid }
	return func() { callerIDs = before }
}

// TraceAll makes the spans of one command, for a benchmark.
func TraceAll(ctx context.Context, r *sandbox.Result) {
	ctx, span := traced(ctx)
	named(ctx, sandbox.Command{ID: "x"})
	for _, name := range []string{spanPolicy, spanImage, spanPlace, spanRun, spanList, spanKill, spanLeave} {
		_, span := step(ctx, name)
		endStep(span, nil)
	}
	endTraced(span, r, nil)
}
