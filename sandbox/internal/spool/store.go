package spool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"belljar/internal/names"
	"belljar/internal/ownfile"
	"belljar/sandbox"
	"belljar/sandbox/internal/control"
)

// Expired reports whether an output's time is over.
func Expired(l sandbox.LogInfo) bool { return !l.Running && !time.Now().Before(l.Expires) }

const (
	// These bound a LogInfo's Command and Description, so that a note fits on a
	// page, also where each byte of them is escaped in JSON.
	maxCommand, maxCommandJSON         = 512, 2048
	maxDescription, maxDescriptionJSON = 256, 1024

	noteName  = "command.json"
	newNote   = "command.new"
	sweptName = ".swept" // no ID begins with a dot

	// SweepPause is how often spools are looked through: by all processes
	// together, since each command line would do it otherwise.
	SweepPause = time.Minute

	// minSize is what a spool counts for at least; its directory and note
	// take that much.
	minSize = 8 << 10
)

// ownNames are a spool's files, apart from segments.
var ownNames = []string{noteName, newNote, besideName}

// besideName is a file that someone else keeps for as long as the spool.
const besideName = "beside"

// note is a spool's note, which its writer holds locked: where no one does
// nothing more comes.
type note struct {
	file *os.File
	info sandbox.LogInfo
}

// bounded is an info whose note fits on a page.
func bounded(info sandbox.LogInfo) sandbox.LogInfo {
	info.Command = beginning(info.Command, maxCommand, maxCommandJSON)
	info.Description = beginning(info.Description, maxDescription, maxDescriptionJSON)
	return info
}

func createNote(dir string, info sandbox.LogInfo) (*note, error) {
	file, err := os.OpenFile(filepath.Join(dir, newNote), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	n := &note{file: file, info: bounded(info)}
	if err = ownfile.Lock(file, ownfile.Exclusive, 0); err == nil {
		err = n.change(func(*sandbox.LogInfo) {})
	}
	if err == nil { // who finds a note that is not locked takes its belljar for dead
		err = os.Rename(file.Name(), filepath.Join(dir, noteName))
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return n, nil
}

// beginning is that of a text that has at most so many bytes, and so many in JSON.
func beginning(text string, most, mostJSON int) string {
	for {
		text = string(WholeRunes([]byte(text[:min(len(text), most)])))
		escaped, err := json.Marshal(text)
		if err != nil || len(escaped) <= mostJSON {
			return text
		}
		most = len(text) * mostJSON / len(escaped)
	}
}

// change writes the note over; it only ever grows.
func (n *note) change(change func(*sandbox.LogInfo)) error {
	change(&n.info)
	text, err := json.Marshal(n.info)
	if err != nil {
		return err
	}
	_, err = n.file.WriteAt(append(text, '\n'), 0)
	return err
}

func (n *note) close() { n.file.Close() }

// readNote reads what is known of the spool in dir, and whether its writer has it still.
func readNote(dir string) (info sandbox.LogInfo, written bool, err error) {
	file, err := os.Open(filepath.Join(dir, noteName))
	if err != nil {
		return info, false, err
	}
	defer file.Close()
	// Asked first: who releases it has written it.
	if written, err = ownfile.IsLocked(file, ownfile.Shared, 0); err != nil {
		return info, written, err
	}
	text := make([]byte, ownfile.Page)
	n, err := file.ReadAt(text, 0)
	if n == 0 {
		return info, written, err
	}
	err = json.NewDecoder(bytes.NewReader(text[:n])).Decode(&info)
	info.Running = written && info.Ended.IsZero()
	return info, written, err
}

// Store is the directory of all spools, "" for none. A spool's name is its
// command's ID.
type Store struct {
	Dir string
	sandbox.Spooling
}

// Path is "" where there is no directory: the working directory is none.
func (s Store) Path(id string) string {
	if s.Dir == "" {
		return ""
	}
	return filepath.Join(s.Dir, id)
}

// Entry is a spool as it is found.
type Entry struct {
	sandbox.LogInfo
	size    int64
	written bool // by its belljar, which may have ended the command already
}

// All are the spools there are, the oldest first.
func (s Store) All() ([]Entry, error) {
	if err := ownfile.CheckDir(s.Dir); err != nil || s.Dir == "" {
		return nil, err
	}
	entries, err := os.ReadDir(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var list []Entry
	for _, entry := range entries {
		if entry.IsDir() && names.CheckID(entry.Name()) == nil && IsSpool(s.Path(entry.Name())) {
			list = append(list, s.Find(entry.Name()))
		}
	}
	slices.SortFunc(list, func(a, b Entry) int { return a.Started.Compare(b.Started) })
	return list, err
}

// IsSpool distinguishes a spool from another directory, which no one but its owner
// removes: all that is in it is named as in a spool.
func IsSpool(dir string) bool {
	files, err := os.ReadDir(dir)
	return err == nil && !slices.ContainsFunc(files, func(f fs.DirEntry) bool {
		if f.Name() == control.SocketName {
			return f.Type() != fs.ModeSocket
		}
		stream, _, _ := strings.Cut(f.Name(), ".")
		return !slices.Contains(ownNames, f.Name()) && stream != string(sandbox.Stdout) && stream != string(sandbox.Stderr) || !f.Type().IsRegular()
	})
}

// Has reports whether there is a spool of that command, in a directory that is the user's alone. Most
// commands ask before theirs is there, which takes one look.
func (s Store) Has(id string) bool {
	_, err := os.Lstat(s.Path(id))
	return err == nil && ownfile.CheckDir(s.Dir) == nil && IsSpool(s.Path(id))
}

// Find is the spool of that command, as far as it can be read.
func (s Store) Find(id string) Entry {
	size, changed := s.measure(id)
	info, written, err := readNote(s.Path(id))
	if err != nil || info.ID != id { // it is being made, or its belljar was killed then
		info = sandbox.LogInfo{ID: id, Started: changed, Running: time.Since(changed) < SweepPause}
		written = info.Running
	}
	if info.Ended.IsZero() && !info.Running {
		info.Ended, info.Expires = changed, changed.Add(time.Duration(info.Keep)*time.Second)
	}
	return Entry{info, size, written}
}

// measure returns how large a spool is, and when it was written to.
func (s Store) measure(id string) (size int64, changed time.Time) {
	files, _ := os.ReadDir(s.Path(id)) // one that goes meanwhile has none
	for _, f := range files {
		if about, err := f.Info(); err == nil {
			size += about.Size()
			if about.ModTime().After(changed) {
				changed = about.ModTime()
			}
		}
	}
	if about, err := os.Stat(s.Path(id)); err == nil && changed.IsZero() { // else files that go change it, too
		changed = about.ModTime()
	}
	return max(size, minSize), changed
}

// Beside makes a file count as a part of the spool: it is linked into it.
func (s Store) Beside(id, file string) error {
	return os.Link(file, filepath.Join(s.Path(id), besideName))
}

// sweep removes what is too old and, where all together are too large, what ended
// first. What a belljar still writes or reads for its result stays.
func (s Store) sweep(ctx context.Context) error {
	list, err := s.All()
	if err != nil {
		return err
	}
	slices.SortStableFunc(list, func(a, b Entry) int { return a.Ended.Compare(b.Ended) })
	total := int64(0)
	for _, spool := range list {
		total += spool.size
	}
	errs := []error{s.sweepSpares()}
	for _, spool := range list {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if spool.written {
			continue
		}
		os.Remove(filepath.Join(s.Path(spool.ID), control.SocketName)) // of a belljar that was killed
		if !Expired(spool.LogInfo) && total <= s.Total {
			continue
		}
		if err := os.RemoveAll(s.Path(spool.ID)); err != nil {
			errs = append(errs, err)
			continue
		}
		total -= spool.size
	}
	return errors.Join(errs...)
}

// SweepSeldom sweeps, unless some process did a moment ago.
func (s Store) SweepSeldom(ctx context.Context) error {
	if err := ownfile.CheckDir(s.Dir); err != nil || s.Dir == "" {
		return err
	}
	name := s.Path(sweptName)
	if about, err := os.Stat(name); err == nil && time.Since(about.ModTime()).Abs() < SweepPause {
		return nil
	}
	return s.sweepNow(ctx)
}

func (s Store) sweepNow(ctx context.Context) error {
	if err := os.WriteFile(s.Path(sweptName), nil, 0o600); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // there are no spools
		}
		return err
	}
	now := time.Now()
	os.Chtimes(s.Path(sweptName), now, now)
	return s.sweep(ctx)
}

// countUnit is what a byte of the file counts for that says what was added since the last sweep.
const countUnit = 64 << 10

// Added accounts for a spool that ended, and sweeps where all processes together
// have added much since the last time.
func (s Store) Added(ctx context.Context, size int64) error {
	count, err := os.OpenFile(s.Path(sweptName), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer count.Close()
	if _, err := count.Write(make([]byte, 1+size/countUnit)); err != nil {
		return err
	}
	about, err := count.Stat()
	if err != nil || about.Size() < max(1, s.Total/8/countUnit) {
		return err
	}
	return s.sweepNow(ctx)
}
