// Package executions is what a server remembers of the executions that it started: who
// asked for them, with which idempotency key, and their events, so that a client that
// lost its connection continues where it was.
//
// The one rule: a client's connection decides nothing. An execution runs on without one,
// its events are the same for all who read them, also after a restart of the server, and
// a request that is repeated with the same key runs nothing twice.
//
//	book, err := executions.Open(executions.Config{Runner: runner, Logs: runner, Dir: dir})
//	x, err := book.Start(ctx, command, executions.Request{Owner: "ci", Key: "build-7"})
//	for f := x.Follow(0, true); ; {
//		event, err := f.Next(ctx)
//		…
//	}
//
// # Design
//
// Output is on disk once, in the Runner's spool. The journal of an execution says how its
// events divide it: one short line for each event, written before any client gets the
// event. So an event's number means the same bytes for every reader, forever. The last
// events are also in memory, for those who follow closely.
package executions
