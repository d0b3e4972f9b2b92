package run

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"belljar/sandbox"
)

// The bounds of a run's files. Anyone may have written what is read.
const (
	maxRun     = 64 << 20 // run.json
	maxLine    = 16 << 20 // a line of results.jsonl
	maxLines   = 1 << 20
	maxResults = 1 << 30 // results.jsonl
	maxTrials  = 1 << 19 // of all tasks together; a trial that is tried again has more than one line
)

// fits refuses what Open does: a run that is made is one that can be read.
func (r Run) fits(size int) error {
	const hint = "run the suite in parts, with --filter or --shard"
	if size > maxRun {
		return sandbox.Invalid(hint, "%s is over %s", RunFile, sandbox.FormatSize(maxRun))
	}
	if r.Trials < 1 || r.Trials > maxTrials/max(1, len(r.Tasks)) {
		return sandbox.Invalid(hint, "%d trials of each of %d tasks are none, or over %d", r.Trials, len(r.Tasks), maxTrials)
	}
	if len(r.ID) > 64 || strings.Trim(r.ID, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return sandbox.Invalid("use letters and digits", "the run's ID is %.100q", r.ID)
	}
	return nil
}

// Open reads a run's directory, and changes nothing.
func Open(path string) (*Dir, error) {
	d := &Dir{Path: path}
	name := filepath.Join(path, RunFile)
	f, err := d.Open(RunFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, sandbox.Invalid("name the directory that --out named", "directory %q has no %s: it is not a run's", path, RunFile)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxRun+1))
	if err == nil && len(text) > maxRun {
		err = notOurs("%s is over %s", name, sandbox.FormatSize(maxRun))
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &d.Run); err != nil {
		return nil, notOurs("reading %s: %v", name, err)
	}
	if d.Run.Version != Version {
		return nil, sandbox.Invalid("use the belljar that made it", "%s has version %d, and this belljar reads version %d", name, d.Run.Version, Version)
	}
	if err := d.Run.fits(len(text)); err != nil {
		return nil, notOurs("reading %s: %v", name, err)
	}
	return d, nil
}

func notOurs(format string, args ...any) error {
	return sandbox.Invalid("it is not one that belljar wrote", format, args...)
}

// Open opens a file below the run's directory to read it. It follows no link that leads
// out of the directory, and none as the file itself; it does not wait for a FIFO, and
// opens nothing but a regular file.
func (d *Dir) Open(name string) (*os.File, error) {
	root, err := os.OpenRoot(d.Path)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	name = filepath.FromSlash(name)
	found, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err != nil {
		return nil, notOurs("finding %q in %q: %v", name, d.Path, err)
	}
	if !found.Mode().IsRegular() { // a Root follows links in itself, whatever the flags of OpenFile
		return nil, notOurs("%q in %q is not a regular file", name, d.Path)
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, notOurs("opening %q in %q: %v", name, d.Path, err)
	}
	if about, err := f.Stat(); err != nil || !os.SameFile(about, found) {
		f.Close()
		return nil, notOurs("%q in %q was replaced while it was opened", name, d.Path)
	}
	return f, nil
}

// Results are how the trials ended, in the order of their first lines. A last line that is
// not whole does not count.
func (d *Dir) Results() (list []Result, err error) {
	at := map[Key]int{}
	_, err = d.Lines(func(_ []byte, r Result) error {
		i, again := at[r.Key()]
		if again {
			list[i] = r
			return nil
		}
		at[r.Key()] = len(list)
		list = append(list, r)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// Lines gives each whole line of results.jsonl to visit, without its end, until visit
// returns an error. It returns the length of what it read.
func (d *Dir) Lines(visit func(line []byte, r Result) error) (whole int64, err error) {
	name := filepath.Join(d.Path, ResultsFile)
	f, err := d.Open(ResultsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	lines := bufio.NewReaderSize(io.LimitReader(f, maxResults+1), 64<<10)
	for n := 1; ; n++ {
		line, err := readLine(lines)
		if errors.Is(err, io.EOF) && whole+int64(len(line)) <= maxResults {
			return whole, nil
		}
		if errors.Is(err, io.EOF) || n > maxLines {
			return whole, notOurs("%s is over %s or %d lines", name, sandbox.FormatSize(maxResults), maxLines)
		}
		if err != nil {
			return whole, fmt.Errorf("reading line %d of %s: %w", n, name, err)
		}
		var r Result
		if err := json.Unmarshal(line, &r); err != nil {
			return whole, notOurs("reading line %d of %s: %v", n, name, err)
		}
		if err := visit(line[:len(line)-1], r); err != nil {
			return whole, err
		}
		whole += int64(len(line))
	}
}

// readLine reads a whole line; io.EOF is also the end within one.
func readLine(r *bufio.Reader) (line []byte, err error) {
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxLine {
			return line, notOurs("it is over %s", sandbox.FormatSize(maxLine))
		}
		if err == nil || !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}
