package audit

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"belljar/internal/ownfile"
	"belljar/sandbox"

	"golang.org/x/sys/unix"
)

// The lock is on the first byte of the head. A process that wants it takes a ticket: a
// lock on a byte of its own, far beyond the file's end, where locks are allowed, too.
// It waits until the byte before is unlocked, so that all get the lock in the
// order in which they came; one that is killed or gives up leaves no gap. A process that
// only polled for the lock could be overtaken without end.
//
// Tickets only ensure fairness: if two processes disagree about the next,
// the lock still excludes one of them.
const (
	lockByte    = 0
	firstTicket = 1 << 32
	maxTicket   = 1 << 48
)

// ticketSize is the size of the next ticket's number, after the head itself.
const ticketSize = 21

// lock waits for the lock on the file, whose head f is. It polls: a thread that
// blocks in fcntl(2) cannot be interrupted at the deadline.
func lock(f *os.File, kind int16, file string, deadline time.Time) error {
	ticket, err := takeTicket(f, kind)
	if err != nil {
		return failed(err, "locking", file)
	}
	err = poll(file, deadline, func() error { return isFree(f, ticket-1) })
	if err == nil {
		err = poll(file, deadline, func() error { return ownfile.Lock(f, kind, lockByte) })
	}
	return err
}

// unlock releases the lock and the ticket. So does closing the file.
func unlock(f *os.File) {
	ownfile.Unlock(f)
}

func takeTicket(f *os.File, kind int16) (int64, error) {
	text := make([]byte, ticketSize)
	n, _ := f.ReadAt(text, headSize) // an unreadable or invalid number is 0
	next, _ := strconv.ParseInt(strings.TrimSpace(string(text[:n])), 10, 64)
	if next < 0 || next > maxTicket {
		next = 0
	}
	for ; ; next++ {
		switch err := ownfile.Lock(f, kind, firstTicket+next); {
		case err == nil:
			if kind == ownfile.Exclusive { // readers cannot write it; on a full disk it stays
				f.WriteAt(fmt.Appendf(nil, "%0*d\n", ticketSize-1, next+1), headSize)
			}
			return firstTicket + next, nil
		case !ownfile.IsTaken(err):
			return 0, err
		}
	}
}

// poll tries until the deadline.
func poll(file string, deadline time.Time, try func() error) error {
	for pause := 50 * time.Microsecond; ; pause = min(2*pause, time.Millisecond) {
		switch err := try(); {
		case err == nil:
			return nil
		case !ownfile.IsTaken(err):
			return failed(err, "locking", file)
		case time.Now().After(deadline):
			return &sandbox.Error{Cause: sandbox.CauseEngine, Message: fmt.Sprintf("the audit log %q was locked for %v", file, lockWait),
				Hint: "find out by which process: fuser -v " + headName(file)}
		}
		time.Sleep(pause)
	}
}

// isFree returns EAGAIN if another process has a lock on the byte.
func isFree(f *os.File, at int64) error {
	locked, err := ownfile.IsLocked(f, ownfile.Exclusive, at)
	if locked {
		return unix.EAGAIN
	}
	return err
}
