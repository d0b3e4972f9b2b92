package local

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"belljar/internal/names"
	"belljar/sandbox"
)

// recipient is a command that can be sent signals while it runs.
type recipient struct {
	mu    sync.Mutex      // held while one is sent
	place place           // nil: the command has not started
	life  context.Context // until it has ended
	end   context.CancelFunc
}

func newRecipient() *recipient {
	life, end := context.WithCancel(context.Background())
	return &recipient{life: life, end: end}
}

// begin lets signals through to the command in that place.
func (r *recipient) begin(p place) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.place = p
}

// close cancels a signal that is being sent, and lets no more through.
func (r *recipient) close() {
	r.end()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.place = nil
}

// Signal implements sandbox.Execution.
func (x *execution) Signal(ctx context.Context, signal sandbox.Signal) error {
	if err := names.CheckSignal(signal); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	r := x.recipient
	defer context.AfterFunc(r.life, cancel)()
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.life.Err() != nil:
		return sandbox.Invalid("see how it ended: belljar logs "+x.command.ID, "command %s has ended", x.command.ID)
	case r.place == nil:
		return sandbox.Invalid("try again once it has started; to end it, cancel it", "command %s has not started yet", x.command.ID)
	}
	if err := sendSignal(ctx, r.place, signal); err != nil && r.life.Err() == nil {
		return &sandbox.Error{Cause: sandbox.CauseEngine, Message: fmt.Sprintf("some processes of command %s may not have got %s", x.command.ID, signal), Err: err, Hint: "try again"}
	}
	return nil
}

// sendSignal sends a signal to all processes of the place's command. Those that are
// listed get it, also where others may be missing.
func sendSignal(ctx context.Context, p place, signal sandbox.Signal) error {
	list, missed := p.Processes(ctx)
	own, err := p.Own(list)
	if err != nil {
		return err
	}
	return errors.Join(missed, p.Signal(ctx, own, signal))
}
