package httpapi

import (
	"context"
	"sync"

	"belljar/cmd/internal/access"
	"belljar/cmd/internal/executions"
	"belljar/cmd/internal/problem"
	"belljar/sandbox"
)

const (
	// smallResult is how much output a result has that needs no room.
	smallResult = 64 << 10

	// resultsInMemory is the room for the results that are being answered: a caller that asks again and
	// again, and does not read, must not fill the memory. One has at most 2/3 of it.
	resultsInMemory = 256 << 20

	// resultWeight is what a result takes while it is read from the disk, for each byte of its output.
	resultWeight = 4
)

// errNoResultRoom is temporary: a caller that reads its answers gives room to others.
var errNoResultRoom = problem.New(problem.Unavailable, "too many large results are being sent at the same time", "read them, and ask again later, or read the output instead")

// roomFor waits for room for a result with so much output. give gives it back.
func (s *Server) roomFor(ctx context.Context, output int64) (give func(), err error) {
	if output <= smallResult {
		return func() {}, nil
	}
	caller, size := access.FromContext(ctx).Name, min(output, resultsInMemory)*resultWeight
	size = min(size, resultsInMemory*2/3)
	ctx, cancel := context.WithTimeout(ctx, roomWait)
	defer cancel()
	if !s.results.take(ctx, caller, size) {
		return nil, errNoResultRoom
	}
	return sync.OnceFunc(func() { s.results.give(caller, size) }), nil
}

// roomForStored is roomFor for the result of an execution that has ended: it is on the disk. give
// is nil for one that has not.
func (s *Server) roomForStored(ctx context.Context, x *executions.Execution) (give func(), err error) {
	if x.State() != executions.Ended {
		return nil, nil
	}
	info, err := s.Book.Logs.LogInfo(ctx, x.ID)
	if err != nil || info.LogEnd == nil {
		return func() {}, nil //nolint:nilerr // it has no output, or is gone: who reads it says so
	}
	return s.roomFor(ctx, info.Stdout.Bytes+info.Stderr.Bytes)
}

// roomForEnd is roomFor for a result that just came, unless has is true: then there is room for it.
func (s *Server) roomForEnd(ctx context.Context, r *sandbox.Result, has bool) (give func(), err error) {
	if r == nil || has {
		return func() {}, nil
	}
	return s.roomFor(ctx, int64(len(r.Stdout.Head)+len(r.Stdout.Tail)+len(r.Stderr.Head)+len(r.Stderr.Tail)))
}

// giveBack is for what roomForStored returned.
func giveBack(give func()) {
	if give != nil {
		give()
	}
}
