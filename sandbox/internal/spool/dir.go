package spool

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"belljar/internal/ownfile"
	"belljar/sandbox"
)

// Open makes the spool's directory, at dir or, where nothing can be kept there,
// in one of the system's for temporary files; the error says why not at dir.
// Where both fail nothing is kept.
func (s *Spool) Open(dir string, info sandbox.LogInfo) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if dir == "" {
		s.failed = s.openTemporary(info)
		return nil
	}
	err := ownfile.CheckDir(filepath.Dir(dir))
	if err == nil {
		var ready bool
		if s.note, s.Socket, ready = s.Spares.open(dir, info); ready {
			s.Dir = dir
			return nil
		}
		err = makeDir(dir)
	}
	if err == nil {
		s.Dir = dir
		if s.note, err = createNote(dir, info); err == nil {
			return nil
		}
		os.RemoveAll(dir)
	}
	s.failed = s.openTemporary(info)
	return err
}

// openTemporary makes it in a directory of this user's own among others' temporary
// ones. What a belljar left there that was killed goes first.
func (s *Spool) openTemporary(info sandbox.LogInfo) (err error) {
	root := filepath.Join(os.TempDir(), fmt.Sprintf("belljar-%d", os.Getuid()))
	if err := ownfile.MakeDir(root); err != nil {
		return err
	}
	all := Store{Dir: root}
	if err := errors.Join(all.sweep(context.Background()), makeDir(all.Path(info.ID))); err != nil {
		return err
	}
	s.Dir, s.Temporary = all.Path(info.ID), true
	s.note, err = createNote(s.Dir, info)
	return err
}

// makeDir makes dir again where an earlier command had the same ID.
func makeDir(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
			return err
		}
		return os.Mkdir(dir, 0o700)
	}
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if _, written, errNote := readNote(dir); errNote != nil || written { // also one that ended, whose result is not stored yet
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.Mkdir(dir, 0o700)
}
