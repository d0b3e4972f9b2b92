package audit

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"belljar/sandbox"
)

// Finding is a difference from what belljar would have written.
type Finding struct {
	File string `json:"file"`
	Line int64  `json:"line"` // 0 is the file as a whole
	Seq  uint64 `json:"seq"`  // of its record; 0 is none
	Text string `json:"finding"`

	// Warning: a killed process or a full disk leaves this, and no record is
	// missing or changed.
	Warning bool `json:"warning"`
}

func (f Finding) String() string {
	at := f.File
	if f.Line > 0 {
		at = fmt.Sprintf("%s:%d", at, f.Line)
	}
	if f.Seq > 0 {
		at = fmt.Sprintf("%s: seq %d", at, f.Seq)
	}
	return at + ": " + f.Text
}

// Summary is the result of Verify.
type Summary struct {
	Records  int64  `json:"records"`
	First    uint64 `json:"first_seq"`
	Last     uint64 `json:"last_seq"`
	Head     string `json:"head"` // SHA-256 of the last record, in hex
	Bad      int64  `json:"bad"`  // findings, without the warnings
	Warnings int64  `json:"warnings"`
}

// Verify reads the file and its rotated predecessors, the oldest first, and
// reports everything that is not one chain that ends as the head says. A noted head, the
// SHA-256 of a record that is known to have existed, must be in it; "" is
// none. Records may be appended concurrently. An error means that the files could
// not be read.
func Verify(file, noted string, report func(Finding)) (Summary, error) {
	v := newVerifier(file, noted, report)
	defer v.close()
	if err := v.open(); err != nil {
		return v.Summary, err
	}
	return v.verify()
}

func newVerifier(file, noted string, report func(Finding)) *verifier {
	return &verifier{
		file: file, head: &head{}, chain: newChain(),
		noted: strings.ToLower(strings.TrimPrefix(noted, "sha256:")), report: report,
	}
}

// verify reads the files that open found.
func (v *verifier) verify() (Summary, error) {
	v.matchTargets()
	if err := v.walkAll(); err != nil {
		return v.Summary, err
	}
	v.reportUnmarked()
	v.end()
	v.Last, v.Head = v.chain.seq, v.chain.sum
	return v.Summary, nil
}

type verifier struct {
	Summary
	file   string
	head   *head // its file is nil if there is none
	known  bool  // it was written at least once
	files  []part
	last   *os.File // the one file that may grow
	name   string   // its name
	size   int64    // its size
	floor  uint64   // if files were removed by rotation in the meantime, the oldest record left
	noted  string
	seen   bool // the record with the noted hash was found
	met    bool // the record in the head was found
	chain  chain
	at     Finding // the position of the last record
	torn   Finding // where the lines that are no record begin
	offset int64   // their offset
	report func(Finding)
}

func failedToRead(err error, name string) error {
	return &sandbox.Error{Cause: sandbox.CauseEngine, Message: fmt.Sprintf("reading the audit log %q", name), Err: err, Hint: "name a file that exists and that you can read"}
}

func (v *verifier) close() {
	for _, f := range []*os.File{v.last, v.head.file} {
		if f != nil {
			f.Close()
		}
	}
}

// part is a file of the chain.
type part struct {
	n     int // its number; 0 is the file itself
	about fs.FileInfo
}

func (v *verifier) path(n int) string {
	if n == 0 {
		return v.file
	}
	return rotated(v.file, n)
}

// open finds all files at one moment between two records, and opens the last,
// which others append to. Later changes are ignored.
func (v *verifier) open() error {
	if err := v.openHead(); err != nil {
		return err
	}
	if v.head.file != nil {
		defer unlock(v.head.file)
	}
	old, err := rotations(v.file)
	if err != nil {
		return failedToRead(err, v.file)
	}
	for _, n := range append([]int{0}, old...) {
		about, err := os.Stat(v.path(n))
		if errors.Is(err, fs.ErrNotExist) && n == 0 && (len(old) > 0 || v.head.file != nil) {
			continue // rotated a moment ago, or the end is missing: the head tells which
		}
		if err != nil {
			return failedToRead(err, v.path(n))
		}
		v.files = append(v.files, part{n, about})
	}
	slices.Reverse(v.files)
	if len(v.files) == 0 {
		return nil
	}
	p := v.files[len(v.files)-1]
	name := v.path(p.n)
	if v.last, err = openRegular(name); err != nil {
		return failedToRead(err, name)
	}
	v.name, v.size = filepath.Base(name), p.about.Size()
	return nil
}

// walkAll opens one file after the other: there may be more files than a
// process may have open.
func (v *verifier) walkAll() error {
	moved := 0 // how often they were rotated in the meantime
	for i, p := range v.files {
		if i == len(v.files)-1 {
			if err := v.walk(v.last, v.size); err != nil {
				return failedToRead(err, v.last.Name())
			}
			return nil
		}
		f, n, err := v.find(p, p.n+moved)
		if err != nil {
			return err
		}
		if f == nil {
			continue
		}
		moved = n - p.n
		err = v.walk(f, p.about.Size())
		f.Close()
		if err != nil {
			return failedToRead(err, f.Name())
		}
	}
	return nil
}

// find opens a file that may have been rotated further, from that number on. It
// returns nil if the file was removed by rotation.
func (v *verifier) find(p part, from int) (*os.File, int, error) {
	if f, err := v.openSame(p, from); f != nil || err != nil {
		return f, from, err
	}
	if v.head.file != nil {
		if err := lock(v.head.file, syscall.F_RDLCK, v.file, time.Now().Add(lockWait)); err != nil {
			return nil, 0, err
		}
		defer unlock(v.head.file)
	}
	old, err := rotations(v.file)
	if err != nil {
		return nil, 0, failedToRead(err, v.file)
	}
	for _, n := range old {
		if n <= p.n { // rotation only increases a file's number
			continue
		}
		if f, err := v.openSame(p, n); f != nil || err != nil {
			return f, n, err
		}
	}
	now := head{file: v.head.file}
	if now.file != nil {
		if known, err := now.read(); known && err == nil {
			v.floor = now.First
		}
	}
	return nil, 0, nil
}

// openSame opens the file of that number if it is the one that was found. The
// same inode is not enough: a new file gets that of a removed one.
func (v *verifier) openSame(p part, n int) (*os.File, error) {
	f, err := openRegular(v.path(n))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, failedToRead(err, v.path(n))
	}
	about, err := f.Stat()
	if err == nil && os.SameFile(about, p.about) && about.Size() == p.about.Size() && about.ModTime().Equal(p.about.ModTime()) {
		return f, nil
	}
	f.Close()
	if err != nil {
		return nil, failedToRead(err, v.path(n))
	}
	return nil, nil
}

// openHead locks and reads the head, if it exists.
func (v *verifier) openHead() error {
	f, err := openRegular(headName(v.file))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return failedToRead(err, headName(v.file))
	}
	v.head.file = f
	if err := lock(f, syscall.F_RDLCK, v.file, time.Now().Add(lockWait)); err != nil {
		return err
	}
	known, err := v.head.read()
	if err != nil {
		v.bad(Finding{File: filepath.Base(headName(v.file)), Text: fmt.Sprintf("it is not a valid head: %v", err)})
		v.head.ending, v.head.First = ending{}, 1<<63
	}
	v.known = known
	return nil
}

func openRegular(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if about, err := f.Stat(); err != nil || !about.Mode().IsRegular() {
		f.Close()
		return nil, cmp.Or(err, errors.New("it is not a regular file"))
	}
	return f, nil
}
