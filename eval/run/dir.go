package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"belljar/internal/ownfile"
	"belljar/sandbox"
)

// Dir is a run's directory.
type Dir struct {
	Path string
	Run  Run

	results *os.File // locked, if the run is ours to continue
}

// Create begins a run in a directory that does not exist yet, or is empty.
func Create(path string, r Run) (*Dir, error) {
	d, err := claim(path, r)
	if err != nil {
		return nil, err
	}
	if err := d.begin(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// claim locks a directory for a run that does not begin before begin.
func claim(path string, r Run) (*Dir, error) {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, err
	}
	if err := isNew(path); err != nil {
		return nil, err
	}
	d := &Dir{Path: path, Run: r}
	if err := d.lock(); err != nil {
		return nil, err
	}
	if err := isNew(path); err != nil { // another had the lock in between
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// begin writes run.json, without which a directory is no run's.
func (d *Dir) begin() error {
	text, err := d.Run.text()
	if err != nil {
		return err
	}
	return writeSynced(filepath.Join(d.Path, RunFile), text)
}

// text is what run.json has.
func (r Run) text() ([]byte, error) {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(text, '\n'), r.fits(len(text) + 1)
}

// isNew refuses a directory that has more than what Create leaves if it is killed.
func isNew(path string) error {
	list, err := os.ReadDir(path)
	for _, entry := range list {
		about, err := entry.Info()
		empty := err == nil && entry.Name() == ResultsFile && about.Mode().IsRegular() && about.Size() == 0
		if !empty && entry.Name() != RunFile+".new" {
			hint := "name a new one; a run that it has is continued by: belljar eval resume " + path
			if _, err := os.Lstat(filepath.Join(path, RunFile)); err != nil {
				hint = "name a new one; if a merge that was cut off left it, remove it"
			}
			return sandbox.Invalid(hint, "directory %q is not empty", path)
		}
	}
	return err
}

// Continue opens a run to add results to it. A line that a crash cut off is removed.
func Continue(path string) (*Dir, error) {
	d, err := Open(path)
	if err != nil {
		return nil, err
	}
	if err := d.lock(); err != nil {
		return nil, err
	}
	whole, err := d.Lines(func([]byte, Result) error { return nil })
	if err == nil {
		err = d.results.Truncate(whole)
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// lock opens the results for one process at a time.
func (d *Dir) lock() error {
	f, err := os.OpenFile(filepath.Join(d.Path, ResultsFile), os.O_RDWR|os.O_CREATE|os.O_APPEND|syscall.O_NOFOLLOW, 0o644)
	if err != nil {
		return err
	}
	if err := ownfile.LockSoon(f, ownfile.Exclusive, 0); err != nil {
		f.Close()
		if !ownfile.IsTaken(err) {
			return err
		}
		return &sandbox.Error{Cause: sandbox.CauseBusy, Message: fmt.Sprintf("run %q is being written by another belljar", d.Path), Hint: "wait for it, or end it"}
	}
	d.results = f
	return nil
}

// Add appends a result, and returns once it is on the disk. It may be called concurrently
// only by callers that exclude each other.
func (d *Dir) Add(r Result) error {
	about, err := d.results.Stat()
	if err != nil {
		return err
	}
	text, err := readable(r, about.Size())
	if err != nil {
		return err
	}
	if _, err := d.results.Write(append(text, '\n')); err != nil { // as on a full disk: the next line must not continue this one
		return errors.Join(err, d.results.Truncate(about.Size()))
	}
	return d.results.Sync()
}

// usualLine is how long a line may be once half of what results.jsonl can have is there.
const usualLine = 64 << 10

// readable is a result as a line that Lines reads, of a file of that size. What a solution makes long is left out.
func readable(r Result, size int64) (text []byte, err error) {
	most := maxLine - 1
	if size > maxResults/2 {
		most = usualLine
	}
	for _, shorten := range []func(){
		func() {},
		func() {
			r.Phases, r.Lingering, r.Refused, r.Message = nil, nil, nil, fmt.Sprintf("%.1000s", r.Message)
			r.Notices = []string{"phases, notices, what lingered and what was refused are left out: the result was over " + sandbox.FormatSize(int64(most))}
		},
		func() {
			if r.Verdict != Error {
				r.Verdict, r.Side, r.Message = Failed, BySolution, "what it made cannot be listed: its names are over "+sandbox.FormatSize(int64(most))
			}
			r.Artifacts, r.Steps, r.Controls, r.Rewards = nil, nil, nil, nil
		},
	} {
		shorten()
		if text, err = sandbox.JSON(r); err != nil || len(text) <= most {
			break
		}
	}
	if err == nil && size+int64(len(text)) >= maxResults {
		err = sandbox.Invalid("run the suite in parts: --shard", "the results are over %s", sandbox.FormatSize(maxResults))
	}
	return text, err
}

// Close lets others continue the run.
func (d *Dir) Close() error {
	if d.results == nil {
		return nil
	}
	return d.results.Close()
}

// writeSynced writes a file that is there whole or not at all, also after a crash.
func writeSynced(name string, text []byte) error {
	temp := name + ".new"
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		os.Remove(temp)
		return err
	}
	if err := os.Rename(temp, name); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(name))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
