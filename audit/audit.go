// Package audit keeps a log of decisions about commands and of how commands ended,
// in which changed, removed or reordered records can be detected.
//
// The one rule: when Record returns, the record is in the file, whole and
// chained to the one before it. If the file does not fit the chain, Record fails, and
// Verify says where.
//
//	log := &audit.Log{File: "/var/lib/belljar/audit/audit.jsonl"}
//	runner.Auditor = log // a local.Local
//	summary, err := audit.Verify(log.File, "", func(f audit.Finding) { fmt.Println(f) })
//
// # Design
//
// Each line is a JSON object with its number and the SHA-256 of the line before
// it, without its end. A small second file, the head, has the number and hash
// of the last line and the file's length, so that appending reads only one line,
// and a missing end is detected. The head is also the lock, since several processes
// append. It is written after the line; if a process is killed
// between the two, the next process adopts the line.
//
// Nothing is synced to the disk: that would cost more than a warm command. What
// a power cut removes is reported as missing, and a record says how much it was.
//
// The hashes have no key, so anyone who can write all the files can create a new
// chain. Only a head that was noted elsewhere reveals that.
//
// Rotation is implemented here: lumberjack rotates for one
// process, and cannot keep a chain across several.
package audit

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"belljar/sandbox"
)

// Defaults of a Log.
const (
	DefaultMaxSize = 64 << 20
	DefaultKeep    = 8
)

// Log is a sandbox.Auditor that appends to a file, to which other processes append, too. Its
// fields are set before its first use.
type Log struct {
	File    string // absolute; its directory is created with mode 0700, and others must not be able to write it
	Script  bool   // keep the script's text, not only its hash
	MaxSize int64  // bytes of the file, past which it is rotated; 0 is DefaultMaxSize
	Keep    int    // rotated files to keep, FILE.1 being the newest; 0 is DefaultKeep

	mu sync.Mutex // among the goroutines of this process: they need not poll
}

// Record appends a record. An error means that the file does not have it: it is
// a *sandbox.Error with the next step.
func (l *Log) Record(r sandbox.AuditRecord) error {
	if !l.Script {
		r.Script = ""
	}
	text, err := encode(r) // before the lock, which others wait for
	if err != nil {
		return failed(err, "encoding a record for", l.File)
	}
	return l.alone(func(h *head) error { return l.append(h, h.next().line(text)) })
}

// Check does the checks of Record, but appends nothing. It returns the number of
// records since the chain began.
func (l *Log) Check() (records uint64, err error) {
	records, _, err = l.Head()
	return records, err
}

// Head is Check that also returns the last record's SHA-256 in hex, which Verify can be
// given later.
func (l *Log) Head() (records uint64, sha256 string, err error) {
	err = l.alone(func(h *head) error {
		records, sha256 = h.Seq, h.SHA256
		return nil
	})
	return records, sha256, err
}

// alone runs a function at the end of the chain, holding the lock.
func (l *Log) alone(do func(h *head) error) error {
	deadline := time.Now().Add(lockWait)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := makeDir(l.File); err != nil {
		return err
	}
	h, err := lockHead(l.File, deadline)
	if err != nil {
		return err
	}
	defer h.close()
	if err := l.open(h); err != nil {
		return err
	}
	return do(h)
}

// append writes a line, or leaves the file as it was. No later record could be
// appended to a line that is too long to be read.
func (l *Log) append(h *head, line []byte) error {
	if len(line) > maxLine {
		return failed(fmt.Errorf("a record has %d bytes, and %d are possible", len(line), maxLine), "appending to", l.File)
	}
	line = append(line, '\n')
	if h.Length > 0 && h.Length+int64(len(line)) > cmp.Or(l.MaxSize, DefaultMaxSize) {
		if err := l.rotate(h); err != nil {
			return err
		}
	}
	before := h.ending
	_, err := h.log.Write(line)
	if err == nil {
		h.ending = ending{Seq: h.Seq, SHA256: h.SHA256, Length: h.Length + int64(len(line)), Line: int64(len(line))}
		h.Seq, h.SHA256 = seqOf(line), digest(line[:len(line)-1])
		err = h.write()
	}
	if err != nil {
		h.ending = before
		return &sandbox.Error{Cause: sandbox.CauseEngine, Message: fmt.Sprintf("writing the audit log %q", l.File), Err: errors.Join(err, h.log.Truncate(before.Length)),
			Hint: "free space there, or choose another file: audit.file in sandbox.yaml"}
	}
	return nil
}

// broken is the error for files in a state that belljar does not leave.
func broken(file, format string, args ...any) error {
	return &sandbox.Error{Cause: sandbox.CauseEngine, Message: fmt.Sprintf("the audit log %q was changed by something other than belljar: ", file) + fmt.Sprintf(format, args...),
		Hint: "check it with: belljar audit verify; then start a new log: move " + file + "* to another directory"}
}

// failed is the error of a system call on a file.
func failed(err error, doing, file string) error {
	return &sandbox.Error{Cause: sandbox.CauseEngine, Message: fmt.Sprintf("%s the audit log %q", doing, file), Err: err,
		Hint: "make it readable and writable for this user, or choose another file: audit.file in sandbox.yaml"}
}

// rotated is the name of the file after n rotations.
func rotated(file string, n int) string { return fmt.Sprintf("%s.%d", file, n) }

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}
