package userns

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"belljar/internal/ownfile"
	"belljar/sandbox"
)

// maxRanges bounds how many containers there are at once.
const maxRanges = 4096

// Pool hands out ranges of IDs.
type Pool struct {
	Dir   string // has the file that says which are taken: the same for all processes of this host
	Spans []Span // as HostSpans returns them
}

// Range is a container's IDs. It is taken until Close, and until all processes that inherited
// File have ended.
type Range struct {
	First int // the ID outside of user 0 and group 0; Size of them follow
	// Owner is the user whom the user namespace will belong to: First, unless the caller needs to be it. An owner has all
	// rights in a namespace, and is who the kernel counts all in it for, such as inotify(7) instances.
	Owner int

	held      *os.File
	namespace *os.File // nil until Namespace makes it
}

// Take takes the first range that is free, of those that begin at the preferred IDs, or else of all. An error is a
// *sandbox.Error of CauseBusy if there is none.
func (p Pool) Take(preferred ...int) (*Range, error) {
	file, err := p.open()
	if err != nil {
		return nil, err
	}
	all := p.ranges()
	for _, first := range append(slices.DeleteFunc(slices.Clone(preferred), func(first int) bool { return !slices.Contains(all, first) }), all...) {
		err := lock(file, first)
		if err == nil {
			return &Range{First: first, Owner: first, held: file}, nil
		}
		if !ownfile.IsTaken(err) {
			file.Close()
			return nil, fmt.Errorf("taking user IDs for a container: %w", err)
		}
	}
	file.Close()
	return nil, &sandbox.Error{
		Cause: sandbox.CauseBusy, Message: fmt.Sprintf("all user IDs are in use: there are enough for %d containers with a root user", len(all)),
		Hint: "wait for one to end, or give belljar more in /etc/subuid and /etc/subgid",
	}
}

// ranges are the first IDs of all.
func (p Pool) ranges() (firsts []int) {
	for _, span := range p.Spans {
		for first := span.First; first+Size <= span.end() && len(firsts) < maxRanges; first += Size {
			firsts = append(firsts, first)
		}
	}
	return firsts
}

// open opens the file, whose bytes are never written: they stand for IDs.
func (p Pool) open() (*os.File, error) {
	if err := ownfile.CheckDir(p.Dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(p.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("making a directory for user IDs: %w", err)
	}
	if err := ownfile.CheckDir(p.Dir); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(p.Dir, "user-ids"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("taking user IDs for a container: %w", err)
	}
	return file, nil
}

// lock locks the bytes that stand for a range's IDs, so that ranges of pools with other spans
// do not overlap either. The lock belongs to the open file, as ownfile.Lock's does.
func lock(file *os.File, first int) error {
	return unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Start: int64(first), Len: Size})
}

// File keeps the range taken where it is open. Pass it to what may outlive this process: the
// container, or what ends with it.
func (r *Range) File() *os.File { return r.held }

// Close gives the range back.
func (r *Range) Close() error {
	if r.namespace != nil {
		r.namespace.Close()
	}
	return r.held.Close()
}
