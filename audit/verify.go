package audit

import (
	"cmp"
	"errors"
	"fmt"
	"io"
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

func (v *verifier) bad(f Finding) {
	v.Bad++
	v.report(f)
}

func (v *verifier) warn(f Finding) {
	f.Warning = true
	v.Warnings++
	v.report(f)
}

func (v *verifier) walk(f *os.File, current bool) error {
	from := io.Reader(f)
	if current {
		from = io.LimitReader(f, v.size) // more may come meanwhile
	}
	in := newLines(from)
	at := Finding{File: filepath.Base(f.Name())}
	for offset := int64(0); ; offset += in.size {
		err := in.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		at.Line++
		v.take(in, at, offset)
	}
}

// take takes one line.
func (v *verifier) take(in *lines, at Finding, offset int64) {
	m, ok := parse(in.line)
	if !ok || in.long || !in.ended {
		if !v.chain.torn.any() {
			v.torn, v.offset = at, offset
		}
		v.chain.torn.add(in.line)
		return
	}
	at.Seq = m.Seq
	if v.Records == 0 {
		v.begin(m, at)
	}
	if !v.chain.follows(m, in.line) {
		v.unsettled()
		if !v.chain.follows(m, in.line) {
			v.explain(m, in.line, at)
			v.chain.seq, v.chain.sum = m.Seq, digest(in.line)
		}
	} else if m.TornBytes > 0 {
		at := v.torn
		v.warn(Finding{File: at.File, Line: at.Line, Text: fmt.Sprintf("%d bytes of a record that was not written whole; seq %d says so", m.TornBytes, m.Seq)})
	}
	if m.Lost > 0 {
		v.bad(Finding{File: at.File, Line: at.Line, Seq: at.Seq, Text: fmt.Sprintf("the %d records before it are missing: the machine stopped before they were on its disk, or they were removed", m.Lost)})
	}
	v.Records++
	v.last = at
	v.look()
}

// look sees whether the record is one that is looked for.
func (v *verifier) look() {
	v.seen = v.seen || v.chain.sum == v.noted
	v.met = v.met || v.chain.sum == v.head.SHA256
}

// begin takes the first record as it is, unless it should be another one.
func (v *verifier) begin(m mark, at Finding) {
	torn := v.chain.torn
	v.chain = m.before()
	v.chain.torn = torn
	v.First = v.chain.seq + 1
	if v.chain.seq == 0 {
		v.chain.sum = none
	}
	if v.known && v.First > v.head.First {
		at.Text = missing(v.head.First, v.chain.seq) + " before it"
		v.bad(at)
	}
}

func missing(from, to uint64) string {
	if from == to {
		return fmt.Sprintf("record %d is missing", from)
	}
	return fmt.Sprintf("records %d to %d are missing", from, to)
}

// explain says why a record does not follow the one before it.
func (v *verifier) explain(m mark, line []byte, at Finding) {
	switch last := v.chain.seq; {
	case m.Seq == last+1 && v.last.Line > 0:
		at = v.last
		at.Text = fmt.Sprintf("it was changed: its SHA-256 is not the one that record %d has of it", m.Seq)
	case m.Seq == last+1:
		at.Text = "it was changed: it names a record before it, and is the first"
	case m.Seq > last+1:
		at.Text = missing(last+1, m.Seq-1) + " before it"
	case digest(line) == v.chain.sum:
		at.Text = "it is there twice"
	default:
		at.Text = fmt.Sprintf("it is out of order: it comes after record %d", last)
	}
	v.bad(at)
}

// unsettled reports lines that are no records, and that no mark tells of.
func (v *verifier) unsettled() {
	if !v.chain.torn.any() {
		return
	}
	at := v.torn
	end := filepath.Base(v.files[len(v.files)-1].Name())
	if v.met && v.chain.seq == v.head.Seq && at.File == end && v.offset+v.chain.torn.bytes == v.size { // it lacks its end
		at.Text = "a record that was not written whole; the next one will say so"
		v.warn(at)
	} else {
		at.Text = "it is no record"
		v.bad(at)
	}
	v.chain.torn = torn{}
}

// end compares the end of the chain with the head.
func (v *verifier) end() {
	at := v.last
	at.File = cmp.Or(at.File, filepath.Base(v.file))
	last := v.chain.seq
	switch h := v.head; {
	case !v.known && h.file != nil && v.Records == 0: // its maker was killed
	case !v.known && v.noted != "" && v.chain.sum == v.noted:
	case !v.known:
		v.bad(Finding{File: filepath.Base(headName(v.file)), Text: "it is missing, so whether the last records are there cannot be told"})
	case h.SHA256 == "": // told already
	case h.Seq == last && h.SHA256 == v.chain.sum:
	case h.Seq == last:
		at.Text = "it was changed: its SHA-256 is not the one that the head has"
		v.bad(at)
	case h.Seq > last:
		at.Seq = 0
		at.Text = missing(last+1, h.Seq) + " after it"
		v.bad(at)
	case v.met && (last == h.Seq+1 || h.rebooted()):
		at.Text = "the head does not have it yet: its belljar was killed"
		v.warn(at)
	default:
		at.Text = fmt.Sprintf("it was not written by belljar: the head says that record %d is the last", h.Seq)
		v.bad(at)
	}
	if v.noted != "" && !v.seen {
		v.bad(Finding{File: filepath.Base(v.file), Text: fmt.Sprintf("no record has the SHA-256 %s: the record was changed, removed or rotated away, or it is another chain", v.noted)})
	}
}
