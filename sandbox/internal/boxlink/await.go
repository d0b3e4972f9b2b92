package boxlink

import (
	"context"
	"errors"
	"time"
)

// silence is the time between two looks for a process whose end is not told.
const silence = 5 * time.Second

// ErrSilent is of a process that has ended, and whose init does not answer.
var ErrSilent = errors.New("the container's init does not answer, and the command has ended since")

// AwaitExit waits until Exited is closed or the link broke. It is ErrSilent where gone says that the process has
// ended, and the init does not answer: how it ended, only the init knows.
func (p *Process) AwaitExit(ctx context.Context, gone func() bool) error {
	for {
		select {
		case <-p.exited:
			return nil
		case <-p.link.done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(silence):
		}
		if !gone() || p.initAnswers() {
			continue
		}
		select {
		case <-p.exited:
		case <-p.link.done: // which is why there was no answer
		default:
			p.markCut("the container's init does not answer")
			return ErrSilent
		}
	}
}

// initAnswers reports whether the init answers. What it said before has been read then.
func (p *Process) initAnswers() bool {
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	return p.link.Answers(ctx)
}
