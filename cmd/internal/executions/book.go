package executions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"belljar/internal/names"
	"belljar/internal/ownfile"
	"belljar/internal/spare"
	"belljar/sandbox"

	"go.opentelemetry.io/otel/trace"
)

// Logs are the outputs and the results that a Runner keeps.
type Logs interface {
	sandbox.Logs
	// Await waits for an execution's end. One whose belljar died has CauseEngineLost.
	Await(ctx context.Context, id string) (sandbox.Result, []string, error)
	// CountLog makes a file count as a part of what is kept of an execution.
	CountLog(id, file string) error
}

// Config is what a Book needs.
type Config struct {
	Runner sandbox.Runner
	Logs   Logs
	Dir    string        // for the journals; one server at a time has it
	Keep   time.Duration // how long what has no output is remembered; outputs have their own time
	NewID  func() string // of an execution whose caller chooses none; nil: as everywhere
	Log    *slog.Logger

	Started func(sandbox.Command)        // may be nil, as the others
	Ended   func(sandbox.Result)         // each execution's result
	Refused func(sandbox.Command, error) // each command that did not begin
}

// Book is the executions of a server.
type Book struct {
	Config
	lock   *os.File
	spares *spare.Stock[*os.File]
	filled chan struct{}   // closed once no more spares are made
	ctx    context.Context // of all executions
	stop   context.CancelCauseFunc
	all    sync.WaitGroup

	mu       sync.Mutex
	draining bool
	known    map[string]*Execution // by ID, those that ended, too
	live     map[string]*Execution
	starting map[[2]string]*starting // by owner and key
	keys     map[[2]string]string    // owner and key to ID
	held     map[string]*Held
}

// starting is a request with a key that is not decided yet.
type starting struct {
	key  [2]string
	x    *Execution
	done chan struct{}
	err  error // why x did not begin
}

// Open reads what earlier servers left in the directory.
func Open(c Config) (*Book, error) {
	if err := makeDir(c.Dir); err != nil {
		return nil, fmt.Errorf("opening the directory of executions: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(c.Dir, ".lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the directory of executions: %w", err)
	}
	if err := ownfile.LockSoon(lock, ownfile.Exclusive, 0); err != nil {
		lock.Close()
		if ownfile.IsTaken(err) {
			return nil, &sandbox.Error{Cause: sandbox.CauseEngine, Message: "another belljar serve has the state directory", Hint: "stop it, or set XDG_STATE_HOME to another directory"}
		}
		return nil, fmt.Errorf("locking the directory of executions: %w", err)
	}
	b := &Book{Config: c, lock: lock, known: map[string]*Execution{}, live: map[string]*Execution{}, starting: map[[2]string]*starting{}, keys: map[[2]string]string{}, held: map[string]*Held{}}
	b.ctx, b.stop = context.WithCancelCause(context.Background())
	if err := b.load(); err != nil {
		lock.Close()
		return nil, err
	}
	b.spares, b.filled = spare.New(spareCount, b.newJournal, discard), make(chan struct{})
	go func() {
		defer close(b.filled)
		b.spares.Fill(b.ctx)
	}()
	return b, nil
}

// makeDir makes it and the state directory that it is in: on a new machine there is none.
func makeDir(dir string) error {
	if err := ownfile.CheckDir(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	return ownfile.MakeDir(dir)
}

// Request is who asks for an execution.
type Request struct {
	Owner string
	Key   string // of the caller's choice; the same one is the same execution. "" for none
	Body  []byte // what was asked with that key, or a digest of it
	Input *Input // the command's stdin, if clients send it later; Start closes it where it does not use it

	Release func() // is called once the execution has ended, or is refused; may be nil

	Detached           bool          // Start does not wait for an approval
	Patience           time.Duration // how long Start waits; 0: until it is clear whether the execution begins
	CancelWithCaller   bool          // cancel it if the caller leaves before it began
	CancelWithTerminal bool          // cancel it when the last terminal that callers have of it closes

	held *Held // instead of a command to start
}

// Start begins an execution, or finds the one that the same request began. Cancelling ctx
// gives up the wait for it only.
func (b *Book) Start(ctx context.Context, c sandbox.Command, r Request) (*Execution, error) {
	x, prepared := r.held.execution()
	if x == nil {
		chosen := c.ID
		c.ID = cmp.Or(c.ID, b.ChooseID())
		x = b.newExecution(c, r)
		if err := b.checkID(chosen); err != nil {
			x.refuse(c, err)
			return nil, err
		}
		c = x.connected(c)
	}
	s, first, err := b.claim(x, func(s *starting) {
		defer close(s.done)
		s.err = b.begin(trace.ContextWithSpan(x.ctx, trace.SpanFromContext(ctx)), x, c, prepared)
		b.release(s)
	})
	if !first { // what is typed goes to the earlier one
		x.refuse(c, errRepeated)
	}
	if err != nil {
		return nil, err
	}
	return s.wait(ctx, r)
}

// ChooseID is an ID for an execution.
func (b *Book) ChooseID() string {
	if b.NewID != nil {
		return b.NewID()
	}
	return names.NewID()
}

// checkID refuses an ID that a caller chose, if it is none, or one that another server or a
// command line on the same spool has.
func (b *Book) checkID(chosen string) error {
	if chosen == "" {
		return nil
	}
	if err := names.CheckID(chosen); err != nil {
		return err
	}
	if b.get(chosen) != nil {
		return nil // claim sees whether it is the same request
	}
	if _, err := b.Logs.LogInfo(context.Background(), chosen); err == nil {
		return conflict(Record{ID: chosen})
	}
	return nil
}

// errRepeated ends what a request would have begun that was made before.
var errRepeated = errors.New("the request was repeated")

// wait waits until it is clear whether the execution begins.
func (s *starting) wait(ctx context.Context, r Request) (*Execution, error) {
	var waits chan struct{}
	var enough <-chan time.Time
	if r.Detached && s.x.early != nil {
		waits = s.x.waits
	}
	if r.Patience > 0 && s.x.early != nil {
		timer := time.NewTimer(r.Patience)
		defer timer.Stop()
		enough = timer.C
	}
	select {
	case <-waits:
		return s.x, nil
	case <-enough:
		s.x.tell()
		return s.x, nil
	case <-s.done:
		err := s.err
		if err == nil && !r.Detached {
			err = s.x.refusedWith()
		}
		if err != nil {
			return nil, err
		}
		return s.x, nil
	case <-ctx.Done():
	}
	if r.CancelWithCaller {
		s.x.Cancel(nil, false)
	}
	return nil, ctx.Err()
}
