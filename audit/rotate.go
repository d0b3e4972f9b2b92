package audit

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// rotate renames FILE to FILE.1, which becomes FILE.2, and so on, and creates a new FILE.
// The chain continues there. If it is killed in between, the next process can continue
// with the files it leaves.
func (l *Log) rotate(h *head) error {
	keep := cmp.Or(l.Keep, DefaultKeep)
	old, err := rotations(l.File)
	if err != nil {
		return failed(err, "rotating", l.File)
	}
	free := 1 // the number that all lower ones move up to
	for slices.Contains(old, free) {
		free++
	}
	free = min(free, keep)
	if err := l.drop(h, old, free, keep); err != nil {
		return err
	}
	for n := free; n > 1; n-- {
		if err := os.Rename(rotated(l.File, n-1), rotated(l.File, n)); err != nil {
			return failed(err, "rotating", l.File)
		}
	}
	if err := os.Rename(l.File, rotated(l.File, 1)); err != nil {
		return failed(err, "rotating", l.File)
	}
	h.log.Close()
	if h.log, _, err = openOwn(l.File, os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_EXCL); err != nil {
		return err
	}
	h.Length, h.Line = 0, 0
	return nil
}

// drop removes the oldest files: those with too high a number, and the one whose number
// is needed. The oldest remaining record is written to the head before.
func (l *Log) drop(h *head, old []int, free, keep int) error {
	var gone []int
	oldest := l.File
	for _, n := range old {
		if n > keep || n == free {
			gone = append(gone, n)
		} else {
			oldest = rotated(l.File, n)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	file, _, err := openOwn(oldest, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return failed(err, "rotating", l.File)
	} else if err != nil {
		return err
	}
	defer file.Close()
	before, err := firstOf(file)
	if err != nil {
		return broken(l.File, "%q: %v", oldest, err)
	}
	h.First = before.seq + 1
	if err := h.write(); err != nil {
		return failed(err, "writing the head of", l.File)
	}
	for _, n := range gone {
		if err := os.Remove(rotated(l.File, n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return failed(err, "rotating", l.File)
		}
	}
	return nil
}

// rotations are the numbers of the rotated files, the newest first.
func rotations(file string) (list []int, err error) {
	entries, err := os.ReadDir(filepath.Dir(file))
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		suffix, is := strings.CutPrefix(entry.Name(), filepath.Base(file)+".")
		if n, err := strconv.Atoi(suffix); is && err == nil && n > 0 && suffix == strconv.Itoa(n) {
			list = append(list, n)
		}
	}
	slices.Sort(list)
	return list, nil
}
