package sandbox

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
	"syscall"
	"time"
)

// LogInfo is what is known of a command whose output is kept.
type LogInfo struct {
	ID      string    `json:"id"`
	Command string    `json:"command"` // its beginning
	Profile string    `json:"profile"`
	Session string    `json:"session,omitempty"`
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"`   // zero while it runs; where its belljar died, of the last output
	Expires time.Time `json:"expires,omitzero"` // when it may be removed
	Keep    int64     `json:"keep_seconds"`     // from its end until then
	Running bool      `json:"running"`
	*LogEnd           // nil while it runs, and where its belljar died: its fate is not known then
}

func expired(l LogInfo) bool { return !l.Running && !time.Now().Before(l.Expires) }

// LogEnd is how a command ended, and what it wrote until then.
type LogEnd struct {
	Status   Status    `json:"status"`
	ExitCode int       `json:"exit_code"`
	Stdout   LogStream `json:"stdout"`
	Stderr   LogStream `json:"stderr"`
}

// LogStream is what a command wrote to one stream, kept or not.
type LogStream struct {
	Bytes  int64  `json:"bytes"`
	Lines  int64  `json:"lines"`
	SHA256 string `json:"sha256"`
}

const (
	// maxLogCommand bounds LogInfo.Command, so that a note fits on a page.
	maxLogCommand = 512

	spoolNoteName = "command.json"
	sweptName     = ".swept" // no ID begins with a dot

	// spoolSweepPause is how often spools are looked through: by all processes
	// together, since each command line would do it otherwise.
	spoolSweepPause = time.Minute

	// spoolLeast is what a spool counts for at least; its directory and note
	// take that much.
	spoolLeast = 8 << 10
)

// spoolNote is a spool's note, which its writer holds locked: where nobody does
// nothing more comes.
type spoolNote struct {
	file *os.File
	info LogInfo
}

func newSpoolNote(dir string, info LogInfo) (*spoolNote, error) {
	info.Command = string(wholeRunes([]byte(info.Command[:min(len(info.Command), maxLogCommand)])))
	file, err := os.OpenFile(filepath.Join(dir, spoolNoteName), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	n := &spoolNote{file: file, info: info}
	lock := syscall.Flock_t{Type: syscall.F_WRLCK, Len: 1}
	if err = syscall.FcntlFlock(file.Fd(), ofdSetLock, &lock); err == nil {
		err = n.change(func(*LogInfo) {})
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return n, nil
}

// change writes the note over; it only ever grows.
func (n *spoolNote) change(change func(*LogInfo)) error {
	change(&n.info)
	text, err := json.Marshal(n.info)
	if err != nil {
		return err
	}
	_, err = n.file.WriteAt(append(text, '\n'), 0)
	return err
}

func (n *spoolNote) close() { n.file.Close() }

// ofdGetLock is F_OFD_GETLK (fcntl(2)).
const ofdGetLock = 36

// readSpoolNote reads what is known of the spool in dir.
func readSpoolNote(dir string) (LogInfo, error) {
	var info LogInfo
	file, err := os.Open(filepath.Join(dir, spoolNoteName))
	if err != nil {
		return info, err
	}
	defer file.Close()
	// Asked first: who lets go of it has written it.
	lock := syscall.Flock_t{Type: syscall.F_RDLCK, Len: 1}
	if err := syscall.FcntlFlock(file.Fd(), ofdGetLock, &lock); err != nil {
		return info, err
	}
	text := make([]byte, page)
	n, err := file.ReadAt(text, 0)
	if n == 0 {
		return info, err
	}
	err = json.NewDecoder(bytes.NewReader(text[:n])).Decode(&info)
	info.Running = lock.Type != syscall.F_UNLCK && info.Ended.IsZero()
	return info, err
}

// spools are the directory of all spools, "" for none. A spool's name is its
// command's ID.
type spools struct {
	dir string
	Spooling
}

// path is "" where there is no directory: the working directory is none.
func (s spools) path(id string) string {
	if s.dir == "" {
		return ""
	}
	return filepath.Join(s.dir, id)
}

// spooled is a spool as it is found.
type spooled struct {
	LogInfo
	size int64
}

// all are the spools there are, the oldest first.
func (s spools) all() ([]spooled, error) {
	if err := checkStateDir(s.dir); err != nil || s.dir == "" {
		return nil, err
	}
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var list []spooled
	for _, entry := range entries {
		if entry.IsDir() && CheckID(entry.Name()) == nil && isSpool(s.path(entry.Name())) {
			list = append(list, s.find(entry.Name()))
		}
	}
	slices.SortFunc(list, func(a, b spooled) int { return a.Started.Compare(b.Started) })
	return list, err
}

// isSpool tells a spool from another directory, which nobody but its owner
// removes: all that is in it is named as in a spool.
func isSpool(dir string) bool {
	files, err := os.ReadDir(dir)
	return err == nil && !slices.ContainsFunc(files, func(f fs.DirEntry) bool {
		stream, _, _ := strings.Cut(f.Name(), ".")
		return f.Name() != spoolNoteName && stream != string(Stdout) && stream != string(Stderr) || !f.Type().IsRegular()
	})
}

func (s spools) find(id string) spooled {
	size, changed := s.measure(id)
	info, err := readSpoolNote(s.path(id))
	if err != nil || info.ID != id { // it is being made, or its belljar was killed then
		info = LogInfo{ID: id, Started: changed, Running: time.Since(changed) < spoolSweepPause}
	}
	if info.Ended.IsZero() && !info.Running {
		info.Ended, info.Expires = changed, changed.Add(time.Duration(info.Keep)*time.Second)
	}
	return spooled{info, size}
}

// measure tells how large a spool is, and when it was written to.
func (s spools) measure(id string) (size int64, changed time.Time) {
	if about, err := os.Stat(s.path(id)); err == nil {
		changed = about.ModTime()
	}
	files, _ := os.ReadDir(s.path(id)) // one that goes meanwhile has none
	for _, f := range files {
		if about, err := f.Info(); err == nil {
			size += about.Size()
			if about.ModTime().After(changed) {
				changed = about.ModTime()
			}
		}
	}
	return max(size, spoolLeast), changed
}

// sweep removes what is too old, and the oldest where all together are too
// large. What a running command writes stays.
func (s spools) sweep(ctx context.Context) error {
	list, err := s.all()
	if err != nil {
		return err
	}
	total := int64(0)
	for _, spool := range list {
		total += spool.size
	}
	var errs []error
	for _, spool := range list {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if spool.Running || !expired(spool.LogInfo) && total <= s.Total {
			continue
		}
		if err := os.RemoveAll(s.path(spool.ID)); err != nil {
			errs = append(errs, err)
			continue
		}
		total -= spool.size
	}
	return errors.Join(errs...)
}

// sweepSeldom sweeps, unless some process did a moment ago.
func (s spools) sweepSeldom(ctx context.Context) error {
	if err := checkStateDir(s.dir); err != nil || s.dir == "" {
		return err
	}
	name := s.path(sweptName)
	if about, err := os.Stat(name); err == nil && time.Since(about.ModTime()).Abs() < spoolSweepPause {
		return nil
	}
	return s.sweepNow(ctx)
}

func (s spools) sweepNow(ctx context.Context) error {
	if err := os.WriteFile(s.path(sweptName), nil, 0o600); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // there are no spools
		}
		return err
	}
	now := time.Now()
	os.Chtimes(s.path(sweptName), now, now)
	return s.sweep(ctx)
}

// spoolUnit is what a byte of the file counts for that says what was added since
// the last sweep.
const spoolUnit = 64 << 10

// added accounts for a spool that ended, and sweeps where all processes together
// have added much since the last time.
func (s spools) added(ctx context.Context, size int64) error {
	count, err := os.OpenFile(s.path(sweptName), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer count.Close()
	if _, err := count.Write(make([]byte, 1+size/spoolUnit)); err != nil {
		return err
	}
	about, err := count.Stat()
	if err != nil || about.Size() < max(1, s.Total/8/spoolUnit) {
		return err
	}
	return s.sweepNow(ctx)
}
