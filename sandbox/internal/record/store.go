package record

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"belljar/internal/ownfile"
	"belljar/sandbox"
)

// Store keeps one session's record, in a directory that may be "" for none:
// then nothing is stored. All sessions share one lock file: each
// session has two bytes of it, at an offset derived from its name.
type Store struct {
	Dir, Name string

	// Turn is what LockTurn returned to the caller, if it did. Then Change locks the record by
	// it, which takes a fifth of the time, but excludes no one who has the same Turn.
	Turn *os.File
}

func (s Store) file() string { return filepath.Join(s.Dir, s.Name+".json") }

// Change reads the record, and writes the changed one, excluding all other
// processes. A removed record is one without a session.
func (s Store) Change(ctx context.Context, change func(r *Record) error) error {
	unlock, err := s.lockRecord(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	r, before, err := s.read()
	if err != nil {
		return err
	}
	if err := change(r); err != nil {
		return err
	}
	after, err := encode(r)
	if err != nil || bytes.Equal(after, before) {
		return err
	}
	return s.write(r, after)
}

// lockRecord excludes all others who change the record.
func (s Store) lockRecord(ctx context.Context) (unlock func() error, err error) {
	if s.Turn == nil {
		lock, err := s.lock(ctx, recordLock, true)
		if err != nil {
			return nil, err
		}
		return lock.Close, nil
	}
	if err := s.wait(ctx, s.Turn, recordLock, true); err != nil {
		return nil, err
	}
	return func() error { return ownfile.UnlockAt(s.Turn, s.offset(recordLock)) }, nil
}

// Load reads the record while no one writes it.
func (s Store) Load(ctx context.Context) (*Record, error) {
	if s.Dir == "" {
		return &Record{}, nil
	}
	lock, err := s.lock(ctx, recordLock, false)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	return s.Read()
}

// Read reads the record, for a caller that has its lock, or to whom it does not matter that it is about to change.
func (s Store) Read() (*Record, error) {
	r, _, err := s.read()
	return r, err
}

// read is Read, with the record's text.
func (s Store) read() (r *Record, text []byte, err error) {
	r = &Record{}
	text, err = os.ReadFile(s.file())
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(text) == 0 {
		return r, nil, nil
	}
	if err == nil { // the bytes after the first value are the rest of a longer one
		err = json.NewDecoder(bytes.NewReader(text)).Decode(r)
	}
	if err != nil {
		return nil, nil, &sandbox.Error{Cause: sandbox.CauseEngine, Message: fmt.Sprintf("reading the record of session %q", s.Name), Err: err, Hint: "remove it: belljar session rm " + s.Name}
	}
	return r, text, nil
}

// encode is a record's text.
func encode(r *Record) ([]byte, error) {
	text, err := json.Marshal(r)
	return append(text, '\n'), err
}

// Write replaces the record as a whole, so that a killed writer leaves the old one
// or the new. A small one overwrites the old in place: renaming a new file costs
// more than the rest of a command.
func (s Store) Write(r *Record) error {
	text, err := encode(r)
	if err != nil {
		return err
	}
	return s.write(r, text)
}

func (s Store) write(r *Record, text []byte) error {
	err := s.put(r, text)
	if err == nil {
		return nil
	}
	return &sandbox.Error{Cause: sandbox.CauseEngine, Message: fmt.Sprintf("writing the record of session %q", s.Name), Err: err,
		Hint: fmt.Sprintf("make room in %s, and let this user write to it", s.Dir)}
}

func (s Store) put(r *Record, text []byte) error {
	if r.Session == "" {
		if err := os.Remove(s.file()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if len(text) <= ownfile.Page {
		return ownfile.Overwrite(s.file(), text)
	}
	if err := os.WriteFile(s.file()+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(s.file()+".new", s.file())
}

// The locks of a session, by their byte.
const (
	turnLock   = 0
	recordLock = 1
)

// Lock waits until no one else reads or writes the record.
func (s Store) Lock(ctx context.Context) (*os.File, error) { return s.lock(ctx, recordLock, true) }

// LockTurn waits for the session's turn: exclusive, or shared with others.
func (s Store) LockTurn(ctx context.Context, alone bool) (*os.File, error) {
	return s.lock(ctx, turnLock, alone)
}

func (s Store) lock(ctx context.Context, at int64, alone bool) (*os.File, error) {
	if s.Dir == "" {
		return nil, sandbox.Invalid("set HOME or XDG_STATE_HOME", "session %q: there is no state directory", s.Name)
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, &sandbox.Error{Cause: sandbox.CauseEngine, Message: "creating the sessions directory", Err: err, Hint: "set XDG_STATE_HOME to a writable directory"}
	}
	if err := ownfile.CheckDir(s.Dir); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(s.Dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, &sandbox.Error{Cause: sandbox.CauseEngine, Message: "opening the sessions lock", Err: err, Hint: "set XDG_STATE_HOME to a writable directory"}
	}
	if err := s.wait(ctx, file, at, alone); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// wait waits for one of the session's locks.
func (s Store) wait(ctx context.Context, file *os.File, at int64, alone bool) error {
	kind := int16(ownfile.Shared)
	if alone {
		kind = ownfile.Exclusive
	}
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		err := ownfile.Lock(file, kind, s.offset(at))
		if err == nil {
			return nil
		}
		if !ownfile.IsTaken(err) {
			return &sandbox.Error{Cause: sandbox.CauseEngine, Message: "locking the session", Err: err}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// offset is where one of the session's locks is in the lock file.
func (s Store) offset(at int64) int64 {
	hash := fnv.New32a()
	hash.Write([]byte(s.Name))
	return 2*int64(hash.Sum32()) + at
}

// Names are the names of all stored sessions.
func Names(dir string) ([]string, error) {
	if err := ownfile.CheckDir(dir); err != nil || dir == "" {
		return nil, err
	}
	files, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, f := range files {
		if name, ok := strings.CutSuffix(f.Name(), ".json"); ok {
			names = append(names, name)
		}
	}
	return names, err
}
