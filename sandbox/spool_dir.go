package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// open makes the spool's directory, at dir or, where nothing can be kept there,
// in one of the system's for temporary files; the error says why not at dir.
// Where both fail nothing is kept.
func (s *spool) open(dir string, info LogInfo) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if dir == "" {
		s.failed = s.openTemporary(info)
		return nil
	}
	err := checkStateDir(filepath.Dir(dir))
	if err == nil {
		err = makeSpoolDir(dir)
	}
	if err == nil {
		s.dir = dir
		if s.note, err = newSpoolNote(dir, info); err == nil {
			return nil
		}
		os.RemoveAll(dir)
	}
	s.failed = s.openTemporary(info)
	return err
}

// openTemporary makes it in a directory of this user's own among others' temporary
// ones. What a belljar left there that was killed goes first.
func (s *spool) openTemporary(info LogInfo) (err error) {
	root := filepath.Join(os.TempDir(), fmt.Sprintf("belljar-%d", os.Getuid()))
	if err := makeOwnDir(root); err != nil {
		return err
	}
	all := spools{dir: root}
	if err := errors.Join(all.sweep(context.Background()), makeSpoolDir(all.path(info.ID))); err != nil {
		return err
	}
	s.dir, s.temporary = all.path(info.ID), true
	s.note, err = newSpoolNote(s.dir, info)
	return err
}

// makeOwnDir makes a directory that nobody else can look into, or refuses one that
// is not so.
func makeOwnDir(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if err == nil || !errors.Is(err, fs.ErrExist) {
		return err
	}
	about, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	owner, ok := about.Sys().(*syscall.Stat_t)
	if !ok || !about.IsDir() || about.Mode().Perm() != 0o700 || int(owner.Uid) != os.Getuid() {
		return fmt.Errorf("%s is not a directory of this user's alone", dir)
	}
	return nil
}

// makeSpoolDir makes dir anew where an earlier command had the same ID.
func makeSpoolDir(dir string) error {
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
	if info, errNote := readSpoolNote(dir); errNote != nil || info.Running {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.Mkdir(dir, 0o700)
}
