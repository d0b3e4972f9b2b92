package executions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"belljar/cmd/internal/problem"
	"belljar/sandbox"
)

// load reads the records of earlier servers. Executions that ran when one of them died
// get the rest of their events.
func (b *Book) load() error {
	files, err := filepath.Glob(filepath.Join(b.Dir, "*"+journalSuffix))
	if err != nil {
		return err
	}
	for _, name := range files {
		if about, err := os.Stat(name); err == nil && about.Size() == 0 {
			os.Remove(name) // a spare
			continue
		}
		j, err := openJournal(name)
		if err != nil {
			b.Log.Warn("an execution's record cannot be read", "error", err)
			if errors.Is(err, errNoRecord) { // nothing began before it was whole
				os.Remove(name)
			}
			continue
		}
		j.Close()
		x := &Execution{Record: j.Record, book: b, file: name}
		lost := (j.waited || j.began) && !x.hasLog()
		if !isWhole(name) {
			if err := x.complete(lost); err != nil {
				b.Log.Warn("completing an execution's events failed", "execution", x.ID, "error", err)
			}
			if !lost {
				x.count()
			}
		}
		if lost {
			_, err := x.lastEvent()
			x.refused, x.unkept = err == nil, j.began
		}
		b.known[x.ID] = x
		if x.Key != "" {
			b.keys[[2]string{x.Owner, x.Key}] = x.ID
		}
	}
	b.Sweep()
	return nil
}

// complete ends the journal of an execution whose server died: with the output that is
// kept and has no event yet. One that left no log gets a result: see lost.
func (x *Execution) complete(lost bool) error {
	name := x.file
	j, err := openJournal(name)
	if err != nil {
		return err
	}
	defer j.Close()
	for err == nil {
		_, _, err = j.Next()
	}
	if !errors.Is(err, io.EOF) {
		return err
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	whole := strings.LastIndexByte(string(text), '\n') + 1 // a line may be there in part
	var rest []byte
	switch {
	case lost:
		if rest, err = x.lost(j); err != nil {
			return err
		}
	case j.Record.Cut:
		return nil // see unrecorded
	default:
		for _, t := range []sandbox.EventType{sandbox.EventStdout, sandbox.EventStderr} {
			if rest, err = x.unsent(rest, t, j.at[string(t)]); err != nil {
				return err
			}
		}
	}
	file, err := os.OpenFile(name, os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := file.Truncate(int64(whole)); err != nil {
		return err
	}
	_, err = file.WriteAt(append(rest, endLine...), int64(whole))
	return err
}

// unsent appends the lines of a stream's output from an offset on.
func (x *Execution) unsent(lines []byte, t sandbox.EventType, offset int64) ([]byte, error) {
	ctx := context.Background()
	r, err := x.book.Logs.ReadLog(ctx, x.ID, sandbox.Stream(t), offset)
	if err != nil {
		if sandbox.CauseOf(err) == sandbox.CauseInvalid {
			return lines, nil // nothing is kept of it
		}
		return lines, err
	}
	defer r.Close()
	for {
		c, err := r.Ready(ctx)
		if errors.Is(err, io.EOF) {
			return lines, nil
		}
		if err != nil {
			return lines, err
		}
		if lines, err = appendLine(lines, sandbox.Event{Type: t, Size: int(c.Missed) + len(c.Data), Time: time.Now()}); err != nil {
			return lines, err
		}
	}
}

const (
	// maxInMemory is how many results are kept in memory that could not be written, as on a full disk.
	maxInMemory = 100

	// maxRefused is how many of a caller's executions are kept that never began: they cost it nothing.
	maxRefused = 1000
)

// Sweep forgets the executions whose output and result are no longer kept. What has none on
// the disk is kept as long, the newest of it.
func (b *Book) Sweep() {
	ctx, inMemory, refused := context.Background(), 0, map[string]int{}
	for _, x := range b.List(func(x *Execution) bool { return x.State() == Ended }) {
		if _, err := b.Logs.LogInfo(ctx, x.ID); sandbox.CauseOf(err) != sandbox.CauseInvalid {
			continue
		}
		if x.log != nil {
			inMemory++
		}
		if x.refused {
			refused[x.Owner]++
		}
		if (x.refused && refused[x.Owner] <= maxRefused || x.log != nil && inMemory <= maxInMemory) && time.Since(x.ended(ctx)) < b.Keep {
			continue
		}
		b.mu.Lock()
		x.forget()
		b.mu.Unlock()
	}
}

// forget removes what is known of an execution that is no longer kept. b.mu is held.
func (x *Execution) forget() {
	b := x.book
	delete(b.known, x.ID)
	if key := [2]string{x.Owner, x.Key}; b.keys[key] == x.ID {
		delete(b.keys, key)
	}
	if x.file == "" {
		return
	}
	if err := os.Remove(x.file); err != nil {
		b.Log.Warn("removing an execution's record failed", "execution", x.ID, "error", err)
	}
}

// Find is an execution by its ID.
func (b *Book) Find(id string) (*Execution, error) {
	if x := b.get(id); x != nil {
		return x, nil
	}
	return nil, NotFound(id)
}

// get is nil where there is none.
func (b *Book) get(id string) *Execution {
	b.mu.Lock()
	defer b.mu.Unlock()
	if x := b.known[id]; x != nil {
		return x
	}
	if h := b.held[id]; h != nil {
		return h.x
	}
	return nil
}

// NotFound is the refusal of an ID that is unknown, or another's.
func NotFound(id string) error {
	return problem.New(problem.NotFound, fmt.Sprintf("no execution %.80q", id), "ask for one of your own; results expire (spool.age, spool.total)")
}

// List is those that fit, the newest first.
func (b *Book) List(fits func(*Execution) bool) (list []*Execution) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, x := range b.known {
		if fits(x) {
			list = append(list, x)
		}
	}
	for id, h := range b.held {
		if b.known[id] == nil && fits(h.x) {
			list = append(list, h.x)
		}
	}
	slices.SortFunc(list, func(a, b *Execution) int { return b.Started.Compare(a.Started) })
	return list
}

// Keys are the owners and the idempotency keys of all that is known, or held.
func (b *Book) Keys() (all [][2]string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all = slices.Collect(maps.Keys(b.keys))
	for _, h := range b.held {
		if of := [2]string{h.Owner, h.key}; h.key != "" && b.keys[of] == "" {
			all = append(all, of)
		}
	}
	return all
}

// KnowsKey reports whether the owner's request with that key is known, or held.
func (b *Book) KnowsKey(owner, key string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	of := [2]string{owner, key}
	return b.starting[of] != nil || b.known[b.keys[of]] != nil || b.heldAs(of) != nil
}

// Uses reports whether an execution uses that session, or is about to.
func (b *Book) Uses(session string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, x := range b.live {
		if x.Session == session {
			return true
		}
	}
	for _, h := range b.held {
		if h.x.Session == session {
			return true
		}
	}
	return false
}

// Drain begins nothing more and waits until every execution has ended. When ctx ends they
// are canceled; their results say that the server is shutting down.
func (b *Book) Drain(ctx context.Context) {
	b.mu.Lock()
	b.draining = true
	b.mu.Unlock()
	defer context.AfterFunc(ctx, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, x := range b.live {
			x.Cancel(errShutdown, false)
		}
		b.stop(errShutdown)
	})()
	b.all.Wait()
}

// Draining says whether it begins nothing more.
func (b *Book) Draining() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.draining
}

var errShutdown = &sandbox.Error{Cause: sandbox.CauseCanceled, Message: "canceled: the sidecar is shutting down", Err: sandbox.ErrShutdown}

// Close ends the book. Drain comes first.
func (b *Book) Close() error {
	b.stop(errShutdown)
	b.all.Wait()
	<-b.filled
	return b.lock.Close()
}
