package images

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"belljar/sandbox"
)

// bounds limit how much of an import is read. A zip bomb is small; its
// content fills the engine's disk or this one.
type bounds struct {
	bytes   int64 // of all layers together, unpacked, and of the archive, unpacked
	entries int   // of all layers together, with the directories that they imply, and of the archive
	ratio   int64 // bytes unpacked for each byte of the file, beyond the grace
	grace   int64 // bytes that the ratio does not apply to

	// Of unpacking, in the store on disk:
	names int64         // bytes of all names, which are kept meanwhile
	time  time.Duration // of all images of an import; links that lead to links cost nothing else
}

// defaultBounds allow the largest images in use, such as CUDA's and Jupyter's.
// Debian's packages shrink to a third; zeros with gzip to a thousandth.
var defaultBounds = bounds{bytes: 16 << 30, entries: 500_000, ratio: 100, grace: 64 << 20, names: 128 << 20, time: 30 * time.Minute}

const (
	maxMembers  = 10_000  // of an image archive: a few for each layer
	maxLayers   = 127     // of an image: the engine's storage drivers stack no more
	maxNames    = 256     // of an import's images together
	maxMetadata = 4 << 20 // bytes of a manifest or a configuration
	maxPath     = 4096    // bytes, the limit of Linux (PATH_MAX)
	maxPathPart = 255     // bytes (NAME_MAX)
	maxPAX      = 128 << 10
	maxID       = 1<<32 - 2 // the last user; -1 is none
)

// timed ends do after the time that unpacking may take.
func (b bounds) timed(ctx context.Context, do func(context.Context) error) error {
	return within(ctx, b.time, errBeyond{fmt.Errorf("it is not unpacked after %v", b.time)}, do)
}

// within ends do after a time, with that error.
func within(ctx context.Context, time time.Duration, late error, do func(context.Context) error) error {
	limited, cancel := context.WithTimeoutCause(ctx, time, late)
	defer cancel()
	err := do(limited)
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		return context.Cause(limited)
	}
	return err
}

// errBeyond says that an import exceeds its bounds.
type errBeyond struct{ error }

var errTooMany = errBeyond{errors.New("it has more members than belljar imports")}

// damaged is the error of an unreadable tar, unless its reader reached a bound.
func damaged(err error) error {
	if _, ok := errors.AsType[errBeyond](err); ok {
		return err
	}
	return fmt.Errorf("it is not a tar, or a damaged one: %w", err)
}

// meter counts the bytes read from a file and the bytes unpacked from them.
type meter struct {
	bounds
	source int64 // the file's size, which is all that counts as read; 0 is unknown
	in     int64
}

// input counts the bytes read from the file, and ends with ctx.
func (m *meter) input(ctx context.Context, r io.Reader) io.Reader {
	return readerFunc(func(p []byte) (int, error) {
		n, err := until(ctx, r).Read(p)
		m.in += int64(n)
		return n, err
	})
}

// output fails if r returns more than the bounds allow. Several
// readers may share a count.
func (m *meter) output(count *int64, r io.Reader) io.Reader {
	return readerFunc(func(p []byte) (int, error) {
		n, err := r.Read(p)
		*count += int64(n)
		if beyond := m.check(*count); beyond != nil {
			return n, beyond
		}
		return n, err
	})
}

// written fails if more is written than the bounds allow.
func (m *meter) written(count *int64, w io.Writer) io.Writer {
	return writerFunc(func(p []byte) (int, error) {
		*count += int64(len(p))
		if beyond := m.check(*count); beyond != nil {
			return 0, beyond
		}
		return w.Write(p)
	})
}

func (m *meter) check(out int64) error {
	in := m.in
	if m.source > 0 {
		in = min(in, m.source) // an archive in an archive is unpacked from unpacked bytes
	}
	switch {
	case out > m.bytes:
		return errBeyond{fmt.Errorf("it unpacks to more than %s, the most that belljar imports", sandbox.FormatSize(m.bytes))}
	case out-m.grace > m.ratio*in:
		return errBeyond{fmt.Errorf("it unpacks to more than %d times its size, as a decompression bomb does", m.ratio)}
	}
	return nil
}

// until reads r until ctx is done.
func until(ctx context.Context, r io.Reader) io.Reader {
	return readerFunc(func(p []byte) (int, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return r.Read(p)
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
