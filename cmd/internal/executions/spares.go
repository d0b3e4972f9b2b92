package executions

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"time"
)

// spares are journals that no execution has yet: to make a file takes longer than all
// else that a server adds to a short command.
type spares struct {
	dir   string
	ready chan *os.File
}

const (
	spareCount = 8
	sparePause = time.Second // after one could not be made
)

const journalSuffix = ".journal"

// fill makes spares until ctx ends, and then removes those that are left.
func (s spares) fill(ctx context.Context) {
	for ctx.Err() == nil {
		file, err := s.create()
		if err != nil { // take tells who needs one
			select {
			case <-time.After(sparePause):
			case <-ctx.Done():
			}
			continue
		}
		select {
		case s.ready <- file:
		case <-ctx.Done():
			discard(file)
		}
	}
	for len(s.ready) > 0 {
		discard(<-s.ready)
	}
}

// take is a new journal.
func (s spares) take() (*os.File, error) {
	select {
	case file := <-s.ready:
		return file, nil
	default:
		return s.create()
	}
}

func (s spares) create() (*os.File, error) {
	return os.OpenFile(filepath.Join(s.dir, rand.Text()+journalSuffix), os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
}

func discard(file *os.File) error { return errors.Join(file.Close(), os.Remove(file.Name())) }
