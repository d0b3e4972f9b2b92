package httpapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"belljar/cmd/internal/access"
	"belljar/cmd/internal/problem"
	"belljar/sandbox"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

const (
	// smallBody is what of a body is in memory while it comes. The rest is on the disk.
	smallBody = 256 << 10

	// largestInMemory and largestOnDisk are for how many bodies of the largest size there is
	// room. One caller has at most 2/3 of it.
	largestInMemory, largestOnDisk = 3, 24

	// roomWait is how long a large body that is there waits for room, and for its turn.
	roomWait = 10 * time.Second

	// slowest is how many bytes of a large body must arrive in a second: it takes room
	// from others.
	slowest = 64 << 10
)

// large is the room for large bodies.
type large struct {
	max     int64 // bytes of a body
	dir     string
	memory  room          // for what was read from one, until its execution has ended
	disk    room          // while it comes
	parsing chan struct{} // has one while one is parsed: that takes several times its size
}

func newLarge(max int64, dir string) *large {
	return &large{max: max, dir: dir, memory: newRoom(largestInMemory * max), disk: newRoom(largestOnDisk * max), parsing: make(chan struct{}, 1)}
}

// room is bytes that callers share.
type room struct {
	all int64

	mu      sync.Mutex
	used    int64
	by      map[string]int64 // caller
	changed chan struct{}
}

func newRoom(all int64) room {
	return room{all: all, by: map[string]int64{}, changed: make(chan struct{})}
}

// try takes n bytes. Where there are none, full is closed once there may be.
func (r *room) try(caller string, n int64) (full <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.used+n > r.all || r.by[caller]+n > r.all*2/3 {
		return r.changed
	}
	r.used += n
	r.by[caller] += n
	return nil
}

// take is try that waits. It is false if ctx ends first.
func (r *room) take(ctx context.Context, caller string, n int64) bool {
	for full := r.try(caller, n); full != nil; full = r.try(caller, n) {
		select {
		case <-full:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

func (r *room) give(caller string, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used -= n
	if r.by[caller] -= n; r.by[caller] == 0 {
		delete(r.by, caller)
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

// body is a request's body that is read before anyone sees the request: who sends it slowly
// keeps no one else waiting.
type body struct {
	*large
	caller string
	size   int64
	sum    hash.Hash
	data   []byte    // what is not in the file
	file   *os.File  // nil for a small one
	begun  time.Time // of the file

	request *http.Request
	writer  http.ResponseWriter

	onDisk, inMemory int64  // room that was taken
	kept             bool   // release is called later
	turn             func() // ends it
}

// wholeBody marks the operations whose requests have one.
const wholeBody = "whole body"

type (
	humaContext huma.Context // which has a method Context
	bodyKey     struct{}

	// bodied is a request with its body.
	bodied struct {
		humaContext
		ctx  context.Context
		body *body
	}
)

func (b bodied) Unwrap() huma.Context     { return b.humaContext }
func (b bodied) Context() context.Context { return b.ctx }
func (b bodied) BodyReader() io.Reader    { return b.body }

// wrap is a middleware.
func (l *large) wrap(c huma.Context, next func(huma.Context)) {
	if c.Operation().Metadata[wholeBody] == nil {
		next(c)
		return
	}
	request, writer := humago.Unwrap(c)
	b := &body{request: request, writer: writer, large: l, caller: access.FromContext(c.Context()).Name, sum: sha256.New(), turn: func() {}}
	defer b.close()
	if err := b.readAll(c.Context(), c.BodyReader()); err != nil {
		problem.Of(newError(http.StatusInternalServerError, unreadable, err)).Write(writer)
		return
	}
	next(bodied{c, context.WithValue(c.Context(), bodyKey{}, b), b})
}

// readAll reads it, and waits until it may be parsed.
func (b *body) readAll(ctx context.Context, from io.Reader) error {
	for {
		if len(b.data) == cap(b.data) {
			if err := b.makePlace(); err != nil {
				return err
			}
		}
		n, err := from.Read(b.data[len(b.data):cap(b.data)])
		b.data = b.data[:len(b.data)+n]
		b.sum.Write(b.data[len(b.data)-n:])
		b.size += int64(n)
		switch {
		case b.size > b.max:
			return &http.MaxBytesError{Limit: b.max}
		case err == io.EOF:
			return b.wait(ctx)
		case err != nil:
			return err
		case b.file != nil && time.Since(b.begun) > roomWait+time.Duration(b.size)*time.Second/slowest:
			return problem.New(problem.Timeout, "the request's body arrived too slowly", fmt.Sprintf("send a large one with at least %d KiB a second, or files through the session's files", slowest>>10))
		}
	}
}

// makePlace makes place for more in data.
func (b *body) makePlace() (err error) {
	if cap(b.data) < smallBody {
		b.data = append(make([]byte, 0, max(4<<10, 4*cap(b.data))), b.data...)
		return nil
	}
	if b.file == nil {
		if b.file, err = os.CreateTemp(b.dir, ".body-*"); err == nil {
			err = os.Remove(b.file.Name())
		}
		b.begun = time.Now()
	}
	if err == nil && b.disk.try(b.caller, smallBody) != nil {
		return errNoRoom
	}
	if err == nil {
		b.onDisk += smallBody
		_, err = b.file.Write(b.data)
		b.data = b.data[:0]
	}
	return stored(err)
}

// stored says that a body could not be.
func stored(err error) error {
	if err == nil {
		return nil
	}
	return problem.Of(&sandbox.Error{Cause: sandbox.CauseEngine, Message: "storing the request's body", Err: err, Hint: "free disk space, or make the state directory writable"})
}

var errNoRoom = problem.New(problem.Unavailable, "too many large requests at the same time", "send it again later, or send files through the session's files")

// wait waits for room in memory, and for the turn to be parsed.
func (b *body) wait(ctx context.Context) error {
	if b.file == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, roomWait)
	defer cancel()
	if !b.memory.take(ctx, b.caller, b.size) {
		return errNoRoom
	}
	b.inMemory = b.size
	select {
	case b.parsing <- struct{}{}:
		b.turn = sync.OnceFunc(func() { <-b.parsing })
		return nil
	case <-ctx.Done():
		return errNoRoom
	}
}

// Read implements io.Reader; WriteTo is called.
func (b *body) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// WriteTo implements io.WriterTo.
func (b *body) WriteTo(w io.Writer) (n int64, err error) {
	if b.file != nil {
		if to, ok := w.(*bytes.Buffer); ok {
			to.Grow(int(b.size) + bytes.MinRead) // else it doubles
		}
		n, err = io.Copy(w, io.NewSectionReader(b.file, 0, b.size-int64(len(b.data))))
	}
	if err != nil {
		return n, stored(err)
	}
	m, err := w.Write(b.data)
	return n + int64(m), err
}

// reader reads it again, until parsed.
func (b *body) reader() io.Reader {
	if b.file == nil {
		return bytes.NewReader(b.data)
	}
	return io.MultiReader(io.NewSectionReader(b.file, 0, b.size-int64(len(b.data))), bytes.NewReader(b.data))
}

// close ends it, but not what was read from it.
func (b *body) close() {
	b.turn()
	b.data = nil
	if b.file != nil {
		b.file.Close()
		b.disk.give(b.caller, b.onDisk)
	}
	if !b.kept {
		b.release()
	}
}

// release gives its room in memory to others.
func (b *body) release() {
	if b.inMemory > 0 {
		b.memory.give(b.caller, b.inMemory)
	}
}

// parsed lets the next large body be parsed. What was read from this one stays in memory until
// release is called.
func parsed(ctx context.Context) (sum []byte, release func()) {
	b, ok := ctx.Value(bodyKey{}).(*body)
	if !ok {
		return nil, func() {}
	}
	b.turn()
	b.data, b.kept = nil, true
	return b.sum.Sum(nil), sync.OnceFunc(b.release)
}
