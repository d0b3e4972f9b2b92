package executions

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"

	"belljar/cmd/internal/problem"
	"belljar/sandbox"
)

// claim makes x known, with its key, and begins it in a goroutine. If the request was made
// before, what it returns is the earlier one's, and first is false. The same key for another one is refused.
func (b *Book) claim(x *Execution, begin func(*starting)) (s *starting, first bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := x.Record
	key := [2]string{r.Owner, r.Key}
	if r.Key == "" {
		key = [2]string{"", r.ID}
	}
	s = b.starting[key]
	if s == nil && r.Key != "" {
		if old := b.known[b.keys[key]]; old != nil {
			s = &starting{x: old, done: closed}
		}
	}
	switch {
	case s != nil && (r.Key == "" || s.x.Request != r.Request):
		return nil, false, conflict(r)
	case s != nil:
		return s, false, nil
	case r.Key != "" && b.holdsAnother(r):
		return nil, false, conflict(r)
	case b.draining:
		return nil, false, errDraining
	case b.has(r.ID):
		return nil, false, conflict(Record{ID: r.ID})
	}
	s = &starting{key: key, x: x, done: make(chan struct{})}
	b.starting[key], b.known[x.ID], b.live[x.ID] = s, x, x
	if r.Key != "" {
		b.keys[key] = x.ID
	}
	b.all.Go(func() { begin(s) })
	return s, true, nil
}

// has reports whether there is an execution with that ID, or will be. b.mu is held.
func (b *Book) has(id string) bool {
	h := b.held[id]
	return b.known[id] != nil || h != nil && !h.taken
}

func conflict(r Record) error {
	if r.Key == "" {
		return problem.New(problem.Conflict, fmt.Sprintf("the id %s is taken", r.ID), "choose another id, or leave it out")
	}
	return problem.New(problem.Conflict, fmt.Sprintf("the Idempotency-Key %.80q was used for another request", r.Key), "use a new key for each request, and the same one only to repeat it")
}

var errDraining = problem.New(problem.Unavailable, "the sidecar is shutting down", "send the request to another one, or again later")

// begin writes the record and starts the command. ctx is the execution's.
func (b *Book) begin(ctx context.Context, x *Execution, c sandbox.Command, held sandbox.Prepared) error {
	file, err := b.create(x.Record)
	var run sandbox.Execution
	if err == nil {
		x.file = file.Name()
		x.log.open(file)
		run, err = b.run(ctx, c, held)
		runtime.Gosched() // it begins in another goroutine, and what follows has time until it has begun
	}
	if err != nil {
		b.refused(x, c, err)
		return err
	}
	if b.Started != nil {
		b.Started(c)
	}
	x.log.begins()
	x.begins(run)
	b.all.Go(func() {
		defer file.Close()
		x.pump()
	})
	return nil
}

// refused ends an execution that does not begin. One that waited for an approval is
// remembered: its callers may know of it.
func (b *Book) refused(x *Execution, c sandbox.Command, err error) {
	b.Log.Info("refused", "execution", x.ID, "owner", x.Owner, "cause", sandbox.CauseOf(err))
	if b.Refused != nil {
		b.Refused(c, err)
	}
	x.refuse(c, err)
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.live, x.ID)
	switch {
	case !x.waited():
		x.forget()
	case x.log.isStored():
		b.known[x.ID] = &Execution{Record: x.Record, book: b, file: x.file, refused: true}
	}
	x.log.close()
}

// connected is the command with the stdin and the terminal that clients have.
func (x *Execution) connected(c sandbox.Command) sandbox.Command {
	if x.input != nil {
		c.Stdin = x.input
	}
	if c.TTY != nil {
		if x.resize == nil {
			x.resize = make(chan sandbox.TerminalSize, 1)
		}
		c.Resize = x.resize
	}
	return c
}

// create begins the journal. It is there before the command begins: after a crash, the
// same key must not begin it again.
func (b *Book) create(r Record) (*os.File, error) {
	line, err := r.appendLine(make([]byte, 0, 512))
	if err != nil {
		return nil, err
	}
	file, ready := b.spares.Take()
	if !ready {
		file, err = b.newJournal()
	}
	if err == nil {
		if _, err = file.Write(line); err != nil {
			discard(file)
		}
	}
	if err != nil {
		return nil, &sandbox.Error{Cause: sandbox.CauseEngine, Message: "the execution cannot be recorded", Err: err, Hint: "free disk space, or make the state directory writable"}
	}
	return file, nil
}

// release lets the key go: by now the execution has it, or nothing began.
func (b *Book) release(s *starting) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.starting, s.key)
}

// ended forgets what only a running execution needs: who looks for it later reads the disk.
func (b *Book) ended(x *Execution) {
	r := x.result
	b.Log.Info("ended", "execution", x.ID, "owner", x.Owner, "session", x.Session, "status", r.Status, "cause", r.Cause, "exit_code", r.ExitCode, "seconds", r.Timing.Total.Seconds())
	if b.Ended != nil {
		b.Ended(r)
	}
	if err := x.log.failure(); err != nil {
		b.Log.Warn("an execution's events could not be recorded", "execution", x.ID, "error", err)
	}
	_, err := b.Logs.LogInfo(context.Background(), x.ID)
	if err == nil {
		x.count()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.live, x.ID)
	if err == nil { // else the result is only in memory, until the next Sweep
		b.known[x.ID] = &Execution{Record: x.Record, book: b, file: x.file}
	}
}

// countedSize is from where on a journal counts: for a small one, its output counts more than
// it has.
const countedSize = 4 << 10

// count makes the journal count as output.
func (x *Execution) count() {
	about, err := os.Stat(x.file)
	if err == nil && about.Size() < countedSize {
		return
	}
	if err == nil {
		err = x.book.Logs.CountLog(x.ID, x.file)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		x.book.Log.Warn("the size of an execution's record is not counted", "execution", x.ID, "error", err)
	}
}
