package local

import (
	"archive/tar"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"belljar/internal/archive"
	"belljar/internal/names"
	"belljar/sandbox"
	"belljar/sandbox/internal/record"
)

// transfer moves files into or out of a session, or the container of one command. It takes
// no turn of the session: a command that runs does not delay it, nor it a command.
type transfer struct {
	local *Local
	id    string
	what  string // for messages
	at    sandbox.SessionPath
	path  filesPath
	kept  sandbox.Kept
	box   sandbox.Container
	store record.Store // without a Name, the container has one command and no record
	env   []string
	temp  string       // the name of what it makes in the container meanwhile
	from  io.Reader    // the caller's, may be nil
	said  string       // the first line of the last script's stderr
	moved atomic.Int64 // bytes
}

// ReadFile implements sandbox.Files.
func (l *Local) ReadFile(ctx context.Context, from sandbox.SessionPath, to io.Writer) error {
	return l.transfer(ctx, "ReadFile", from, func(t *transfer) error {
		return t.run(ctx, scriptReadFile, nil, func(out io.Reader) error {
			_, err := io.Copy(to, io.LimitReader(out, archive.MaxBytes))
			if n, _ := io.ReadFull(out, make([]byte, 1)); err == nil && n > 0 {
				err = sandbox.Invalid("copy it in parts", "more than %s", sandbox.FormatSize(archive.MaxBytes))
			}
			return err
		})
	})
}

// WriteFile implements sandbox.Files.
func (l *Local) WriteFile(ctx context.Context, to sandbox.SessionPath, mode fs.FileMode, size int64, from io.Reader) error {
	if size < 0 || size > archive.MaxBytes {
		return sandbox.Invalid("copy it in parts", "a file of %d bytes is too large: at most %s", size, sandbox.FormatSize(archive.MaxBytes))
	}
	return l.transfer(ctx, "WriteFile", to, func(t *transfer) error {
		t.env = append(t.env, "S="+strconv.FormatInt(size, 10), fmt.Sprintf("M=%o", mode.Perm()))
		return t.write(ctx, scriptWriteFile, from, func(in io.Writer, from io.Reader) error {
			n, err := io.CopyN(in, from, size)
			if errors.Is(err, io.EOF) {
				err = sandbox.Invalid("give the size that it has", "it has %d bytes instead of %d", n, size)
			}
			return err
		})
	})
}

// RemoveFile implements sandbox.Files.
func (l *Local) RemoveFile(ctx context.Context, path sandbox.SessionPath) error {
	return l.transfer(ctx, "RemoveFile", path, func(t *transfer) error { return t.run(ctx, scriptRemove, nil, discard) })
}

// ReadTar implements sandbox.Files.
func (l *Local) ReadTar(ctx context.Context, from sandbox.SessionPath, to io.Writer) error {
	return l.transfer(ctx, "ReadTar", from, func(t *transfer) error {
		return t.run(ctx, scriptReadTar, nil, func(out io.Reader) error {
			r, w := archive.NewReader(out), tar.NewWriter(to)
			entries, err := archive.Copy(w, r, t.path.name)
			if err == nil && entries == 0 {
				err = sandbox.Invalid("what packs files in the container does not work as tar does", "the archive is empty")
			}
			return errors.Join(err, flush(w, err))
		})
	})
}

// flush ends an archive, if it is complete.
func flush(w *tar.Writer, err error) error {
	if err != nil {
		return nil
	}
	return w.Close()
}

// WriteTar implements sandbox.Files.
func (l *Local) WriteTar(ctx context.Context, directory sandbox.SessionPath, from io.Reader) error {
	if directory.Path != "" {
		directory.Path += "/."
	}
	return l.transfer(ctx, "WriteTar", directory, func(t *transfer) error {
		return t.write(ctx, scriptWriteTar, from, func(in io.Writer, from io.Reader) error {
			r, w := archive.NewReader(from), tar.NewWriter(in)
			_, err := archive.Copy(w, r, "")
			if err == nil {
				err = archive.WriteFile(w, t.temp, 0o600, 0, nil) // the last one
			}
			return errors.Join(err, flush(w, err))
		})
	})
}

func discard(r io.Reader) error {
	_, err := io.Copy(io.Discard, r)
	return err
}

// write runs a script that writes. If it was not left to end by itself, what it made is
// removed.
func (t *transfer) write(ctx context.Context, script string, from io.Reader, produce func(to io.Writer, from io.Reader) error) error {
	t.from = from
	err := t.run(ctx, script, produce, discard)
	if err == nil || t.store.Name == "" || isClosed(t.box.Lost()) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), filesStart+killTimeout)
	defer cancel()
	t.from = nil
	if failed := t.run(ctx, scriptCleanup, nil, discard); failed != nil && !errors.Is(failed, fs.ErrNotExist) {
		t.local.upkeep.log.Warn("removing what a failed transfer left", "session", t.kept.Session, "file", t.temp, "error", failed)
	}
	return err
}

// transfer finds the session, and does something to a path in it. What may be refused is, before
// anything runs.
func (l *Local) transfer(ctx context.Context, action string, at sandbox.SessionPath, do func(t *transfer) error) error {
	l.open()
	t := &transfer{local: l, id: names.NewID(), at: at, temp: ".belljar-" + strings.ToLower(rand.Text())}
	if err := t.open(ctx); err != nil {
		return err
	}
	defer t.box.Close()
	if strings.HasSuffix(action, "File") && t.path.name == "." {
		return sandbox.Invalid("name a file in it", "%.512q is a directory", at.Path)
	}
	if at.Again && action == "ListFiles" {
		return do(t)
	}
	r := sandbox.AuditRecord{Type: "files", ID: t.id, Caller: at.Caller, Session: at.Session, Action: action, Path: t.path.whole()}
	if _, err := l.record(r, "files are not moved"); err != nil {
		return err
	}
	err := do(t)
	r.Type, r.Bytes = "files_end", t.moved.Load()
	if err != nil {
		r.Error = reason(err)
	}
	l.record(r, "")
	return err
}

// open opens the session's container.
func (t *transfer) open(ctx context.Context) error {
	l, name := t.local, t.at.Session
	if err := names.CheckSession(name); err != nil {
		return err
	}
	t.store = record.Store{Dir: l.sessionDir(), Name: name}
	r, err := t.store.Load(ctx)
	if err != nil {
		return err
	}
	workspace := r.Workdir
	if workspace == "" {
		p, err := l.profile("")
		if err != nil {
			return err
		}
		workspace = p.Workdir
	}
	if t.path, err = workspacePath(workspace, t.at.Path); err != nil {
		return err
	}
	t.what = fmt.Sprintf("%.512q of session %q", t.path.whole(), name)
	t.env = []string{"W=" + workspace, "D=" + t.path.dir, "N=" + t.path.name, "T=" + t.temp}
	kept, err := l.Engine.Sessions(ctx, name)
	switch {
	case err != nil:
		return err
	case r.Session == "" && len(kept) == 0:
		return sandbox.Invalid("start it: belljar run --session "+name+" COMMAND", "no session %q", name)
	case len(kept) == 0 || r.Lost != "":
		return sandbox.Invalid("start a new one: belljar run --session "+name+" COMMAND", "session %q was lost: %s", name, r.LostReason(time.Now()))
	}
	t.kept = kept[max(0, slices.IndexFunc(kept, func(k sandbox.Kept) bool { return k.ID == r.Container }))]
	t.box, err = l.adopt(ctx, t.kept)
	return err
}
