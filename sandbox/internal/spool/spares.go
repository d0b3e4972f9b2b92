package spool

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"belljar/internal/ownfile"
	"belljar/internal/spare"
	"belljar/sandbox"
	"belljar/sandbox/internal/control"

	"golang.org/x/sys/unix"
)

// Spares are directories of spools that no command has yet, each with its note and, where
// asked for, the socket: to make these can take longer than all else that belljar adds to a short
// command.
type Spares struct {
	dir   string // the Store's
	stock *spare.Stock[blank]
}

// blank is one of them.
type blank struct {
	dir    string
	note   *os.File          // locked
	socket *net.UnixListener // nil where none was asked for
}

const (
	sparePrefix = ".spare-" // no ID begins with a dot
	spareCount  = 8
)

// NewSpares has none ready until Fill is called.
func NewSpares(s Store, socket bool) *Spares {
	create := func() (blank, error) { return newBlank(s.Dir, socket) }
	return &Spares{s.Dir, spare.New(spareCount, create, blank.discard)}
}

// Fill keeps some ready until ctx ends, and then removes those that are left.
func (s *Spares) Fill(ctx context.Context) {
	if s.dir != "" {
		s.stock.Fill(ctx)
	}
}

func newBlank(dir string, socket bool) (made blank, err error) {
	if err := ownfile.CheckDir(dir); err != nil {
		return made, err
	}
	made.dir = filepath.Join(dir, sparePrefix+rand.Text())
	if err := makeDir(made.dir); err != nil {
		return made, err
	}
	made.note, err = os.OpenFile(filepath.Join(made.dir, noteName), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = ownfile.Lock(made.note, ownfile.Exclusive, 0)
	}
	if err == nil && socket {
		made.socket, err = control.Bind(made.dir)
	}
	if err != nil {
		made.discard()
	}
	return made, err
}

func (p blank) discard() {
	p.note.Close()
	if p.socket != nil {
		p.socket.Close()
	}
	os.RemoveAll(p.dir)
}

// open makes dir of a spare. It is false where there is none, or it cannot become dir, which
// may be there already.
func (s *Spares) open(dir string, info sandbox.LogInfo) (*note, *net.UnixListener, bool) {
	if s == nil || filepath.Dir(dir) != s.dir {
		return nil, nil, false
	}
	p, ready := s.stock.Take()
	if !ready {
		return nil, nil, false
	}
	n := &note{file: p.note, info: bounded(info)}
	err := n.change(func(*sandbox.LogInfo) {}) // before anyone can find it
	if err == nil {
		err = unix.Renameat2(unix.AT_FDCWD, p.dir, unix.AT_FDCWD, dir, unix.RENAME_NOREPLACE)
	}
	if err != nil {
		p.discard()
		return nil, nil, false
	}
	return n, p.socket, true
}

// sweepSpares removes those whose process was killed.
func (s Store) sweepSpares() error {
	entries, err := os.ReadDir(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, entry := range entries {
		about, gone := entry.Info()
		if !strings.HasPrefix(entry.Name(), sparePrefix) || gone != nil || time.Since(about.ModTime()).Abs() < SweepPause {
			continue // it may be being made
		}
		if dir := s.Path(entry.Name()); IsSpool(dir) && isAbandoned(dir) {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}
	return err
}

// isAbandoned reports whether no process has the spare.
func isAbandoned(dir string) bool {
	note, err := os.Open(filepath.Join(dir, noteName))
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	defer note.Close()
	taken, err := ownfile.IsLocked(note, ownfile.Shared, 0)
	return err == nil && !taken
}
