package local

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"belljar/internal/archive"
	"belljar/internal/target"
	"belljar/sandbox"
	"belljar/sandbox/internal/record"
)

// Bounds of the files of one command.
const (
	maxFiles     = 1000 // in, and out
	maxFileBytes = 16 << 20
	maxFileNames = 256 << 10 // bytes of all paths: the audit log has them, too
	maxFileDepth = 32        // elements of a path
)

func checkFiles(c sandbox.Command, workdir string) error {
	if _, err := placeFiles(c, workdir); err != nil {
		return err
	}
	_, err := parsePatterns(c.Collect)
	return err
}

// placedFiles are files of a command, by their names below a directory of the container.
type placedFiles map[string]sandbox.File

// placeFiles returns where a command's files go, by the directories that may have some.
func placeFiles(c sandbox.Command, workdir string) (map[string]placedFiles, error) {
	if len(c.Files) > maxFiles {
		return nil, sandbox.Invalid("pack them, and unpack them in the command", "%d files, over the limit of %d", len(c.Files), maxFiles)
	}
	roots, bytes, names := map[string]placedFiles{}, 0, 0
	for _, f := range c.Files {
		root, name, err := filePath(c, workdir, f.Path)
		if err != nil {
			return nil, err
		}
		if roots[root] == nil {
			roots[root] = placedFiles{}
		}
		if _, again := roots[root][name]; again {
			return nil, sandbox.Invalid("give each once", "file %.512q is given twice", f.Path)
		}
		roots[root][name] = f
		bytes, names = bytes+len(f.Content), names+len(f.Path)
	}
	switch {
	case bytes > maxFileBytes:
		return nil, sandbox.Invalid("mount them, or copy them into a session", "files of %d bytes, over the limit of %s", bytes, sandbox.FormatSize(maxFileBytes))
	case names > maxFileNames:
		return nil, sandbox.Invalid("pack them, and unpack them in the command", "paths of %d bytes, over the limit of %s", names, sandbox.FormatSize(maxFileNames))
	}
	for _, files := range roots {
		for _, dir := range files.dirs() {
			if f, is := files[dir]; is {
				return nil, sandbox.Invalid("rename one", "file %.512q is the directory of another", f.Path)
			}
		}
	}
	return roots, nil
}

// dirs are the directories of the files, each after the one that it is in.
func (files placedFiles) dirs() []string {
	dirs := map[string]bool{}
	for name := range files {
		for dir := path.Dir(name); dir != "." && !dirs[dir]; dir = path.Dir(dir) {
			dirs[dir] = true
		}
	}
	return slices.Sorted(maps.Keys(dirs))
}

// filePath returns the directory of the container that a file belongs to, and its name
// below that.
func filePath(c sandbox.Command, workdir, given string) (root, name string, err error) {
	root = workdir
	if path.IsAbs(given) {
		within := func(dir string) bool { return target.Within(path.Clean(dir), path.Clean(given)) }
		for _, dir := range slices.Concat([]string{"/tmp", "/work"}, c.Tmpfs) {
			if within(dir) && (len(dir) > len(root) || !within(root)) {
				root = path.Clean(dir)
			}
		}
	}
	p, err := workspacePath(root, given)
	elements := strings.Split(p.whole(), "/")
	switch {
	case err != nil:
		return "", "", err
	case given == "" || p.name == "." || strings.HasSuffix(given, "/"):
		return "", "", sandbox.Invalid("name a file in it", "file %.512q is a directory", given)
	case len(elements) > maxFileDepth:
		return "", "", sandbox.Invalid("use fewer", "file %.512q is in %d directories, over the limit of %d", given, len(elements)-1, maxFileDepth-1)
	case slices.ContainsFunc(elements, func(e string) bool { return len(e) > 255 }): // NAME_MAX
		return "", "", sandbox.Invalid("use at most 255 bytes between slashes", "a name in file %.512q is too long", given)
	}
	return root, p.whole(), nil
}

// fileNames are a command's files as the audit log and questions have them.
func fileNames(files []sandbox.File) (list []string) {
	for _, f := range files {
		list = append(list, fmt.Sprintf("%s:%d", f.Path, len(f.Content)))
	}
	return list
}

// writeFiles writes the command's files before it starts. After an error it does not start.
func (x *execution) writeFiles(ctx context.Context, at *base) error {
	if len(x.command.Files) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, createTimeout, errors.New("not finished within "+sandbox.FormatDuration(createTimeout)))
	defer cancel()
	roots, err := placeFiles(x.command, x.profile.Workdir)
	for _, root := range slices.Sorted(maps.Keys(roots)) {
		if err == nil {
			t := x.moving(at, root, "writing the command's files")
			err = t.write(ctx, scriptWriteTar, nil, func(in io.Writer, _ io.Reader) error { return roots[root].pack(in, t.temp) })
		}
	}
	if err != nil && at.gate != nil {
		at.gate.Close() // it has no command to wait for
	}
	return err
}

// moving is a transfer to or from a directory of the command's container.
func (x *execution) moving(at *base, root, what string) *transfer {
	t := &transfer{local: x.local, id: x.command.ID, what: what, box: at.box, temp: ".belljar-" + strings.ToLower(rand.Text())}
	t.kept = sandbox.Kept{Session: x.command.Session, Image: x.command.Image, User: at.command.User}
	if x.command.Session != "" {
		t.store = record.Store{Dir: x.local.sessionDir(), Name: x.command.Session}
	}
	t.env = []string{"W=" + root, "D=.", "N=.", "T=" + t.temp}
	return t
}

// change changes the session's record.
func (t *transfer) change(ctx context.Context, change func(r *record.Record) error) error {
	if t.store.Name == "" {
		return change(&record.Record{})
	}
	return t.store.Change(ctx, change)
}

// pack writes a tar archive in which the last file is an empty one of that name.
func (files placedFiles) pack(to io.Writer, last string) error {
	w, now := tar.NewWriter(to), time.Now()
	for _, dir := range files.dirs() {
		if err := (archive.Entry{Name: dir, Mode: 0o755 | fs.ModeDir, ModTime: now}).Write(w, nil); err != nil {
			return err
		}
	}
	for name, f := range files {
		e := archive.Entry{Name: name, Mode: cmp.Or(f.Mode.Perm(), 0o644), Size: int64(len(f.Content)), ModTime: now}
		if err := e.Write(w, bytes.NewReader(f.Content)); err != nil {
			return err
		}
	}
	return errors.Join(archive.WriteFile(w, last, 0o600, 0, nil), w.Close())
}
