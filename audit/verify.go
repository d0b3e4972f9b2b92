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

// Finding is something that is not as belljar would have left it.
type Finding struct {
	File string `json:"file"`
	Line int64  `json:"line"` // 0 is the file as a whole
	Seq  uint64 `json:"seq"`  // of the record it is about; 0 is none
	Text string `json:"finding"`

	// Warning: it is what a kill or a full disk leaves, and no record is
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

// Summary is what Verify found in all.
type Summary struct {
	Records  int64  `json:"records"`
	First    uint64 `json:"first_seq"`
	Last     uint64 `json:"last_seq"`
	Head     string `json:"head"` // SHA-256 of the last record, in hex
	Bad      int64  `json:"bad"`  // findings, without the warnings
	Warnings int64  `json:"warnings"`
}

// Verify reads the file and what it was rotated to, the oldest first, and
// reports whatever is not one chain that ends as the head says. A noted head, the
// SHA-256 of a record that is known to have been there, must be in it; "" is
// none. Records may be appended meanwhile. An error means that the files could
// not be read.
func Verify(file, noted string, report func(Finding)) (Summary, error) {
	v := &verifier{
		file: file, head: &head{}, chain: newChain(),
		noted: strings.ToLower(strings.TrimPrefix(noted, "sha256:")), report: report,
	}
	defer v.close()
	if err := v.open(); err != nil {
		return v.Summary, err
	}
	v.look()
	for i, f := range v.files {
		if err := v.walk(f, i == len(v.files)-1); err != nil {
			return v.Summary, failedToRead(err, f.Name())
		}
	}
	v.unsettled()
	v.end()
	v.Last, v.Head = v.chain.seq, v.chain.sum
	return v.Summary, nil
}

type verifier struct {
	Summary
	file   string
	head   *head // its file is nil where there is none
	known  bool  // it was written once
	files  []*os.File
	size   int64 // of the last of them
	noted  string
	seen   bool // a record with the noted hash
	met    bool // the record that the head is of
	chain  chain
	last   Finding // where the last record is
	torn   Finding // where what is no record begins
	offset int64   // of that
	report func(Finding)
}

func failedToRead(err error, name string) error {
	return &sandbox.Error{Cause: sandbox.CauseEngine, Message: fmt.Sprintf("reading the audit file %q", name), Err: err, Hint: "name one that is there, and that you may read"}
}

func (v *verifier) close() {
	for _, f := range v.files {
		f.Close()
	}
	if v.head.file != nil {
		v.head.file.Close()
	}
}

// open opens all files at one moment between two records. What happens to them
// afterwards is not looked at.
func (v *verifier) open() error {
	unlock, err := v.openHead()
	if err != nil {
		return err
	}
	defer unlock()
	old, err := rotations(v.file)
	if err != nil {
		return failedToRead(err, v.file)
	}
	slices.Reverse(old)
	names := make([]string, 0, len(old)+1)
	for _, n := range old {
		names = append(names, rotated(v.file, n))
	}
	for _, name := range append(names, v.file) {
		f, err := openRegular(name)
		if errors.Is(err, fs.ErrNotExist) && name == v.file && (len(old) > 0 || v.head.file != nil) {
			continue // rotated a moment ago, or the end is missing: the head knows
		}
		if err != nil {
			return failedToRead(err, name)
		}
		v.files = append(v.files, f)
		about, err := f.Stat()
		if err != nil {
			return failedToRead(err, name)
		}
		v.size = about.Size()
	}
	return nil
}

// openHead locks and reads the head, where there is one.
func (v *verifier) openHead() (unlock func(), err error) {
	f, err := openRegular(headName(v.file))
	if errors.Is(err, fs.ErrNotExist) {
		return func() {}, nil
	}
	if err != nil {
		return nil, failedToRead(err, headName(v.file))
	}
	v.head.file = f
	for deadline := time.Now().Add(lockWait); ; time.Sleep(time.Millisecond) {
		if err = lock(f, syscall.F_RDLCK); err == nil {
			break
		}
		if time.Now().After(deadline) {
			return nil, failedToRead(err, headName(v.file))
		}
	}
	known, err := v.head.read()
	if err != nil {
		v.bad(Finding{File: filepath.Base(headName(v.file)), Text: fmt.Sprintf("it is no head: %v", err)})
		v.head.ending, v.head.First = ending{}, 1<<63
	}
	v.known = known
	return func() { lock(f, syscall.F_UNLCK) }, nil
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
