package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"belljar/internal/archive"
	"belljar/sandbox"
)

// moved are the flags about files that go in and out with a command.
type moved struct {
	file      string // gets the output
	files     []string
	collect   []string
	collectTo string
}

func (f *runFlags) checkMoved() error {
	switch {
	case f.template != "" && len(f.files)+len(f.collect) > 0:
		return usagef("--file and --collect are for one command: leave out --template")
	case f.collectTo != "" && len(f.collect) == 0:
		return usagef("--collect-to needs a pattern: add --collect, such as --collect '**'")
	case f.collectTo != "" && f.detach:
		return usagef("--collect-to writes when the command ends: leave out -d, or --collect-to (belljar wait --format json has the files)")
	case len(f.collect) > 0 && f.collectTo == "" && !f.detach && f.format != "json" && f.format != "ndjson":
		return usagef("--collect needs a place for the files: add --collect-to DIR, or --format json")
	}
	return nil
}

// maxSent bounds each file that is sent. The library bounds all of them.
const maxSent = 16 << 20

// readFiles reads the local files of --file.
func readFiles(ctx context.Context, specs []string) (list []sandbox.File, err error) {
	for _, spec := range specs {
		source, to := spec, filepath.Base(spec)
		if i := strings.LastIndex(spec, ":"); i >= 0 {
			source, to = spec[:i], spec[i+1:]
		}
		if source == "" || to == "" {
			return nil, usagef("--file %q: write SRC or SRC:PATH", spec)
		}
		about, err := os.Stat(source)
		if err == nil && about.IsDir() {
			return nil, usagef("--file %q is a directory: name files, mount it with -v, or copy it into a session", source)
		}
		var content []byte
		if err == nil {
			content, err = readInput(ctx, source, maxSent)
		}
		if sandbox.CauseOf(err) == sandbox.CauseCanceled {
			return nil, err
		}
		if err != nil {
			return nil, usagef("--file %q: %v", source, bare(err))
		}
		list = append(list, sandbox.File{Path: to, Content: content, Mode: about.Mode().Perm()})
	}
	return list, nil
}

// saveCollected writes collected files below a directory, and says which are missing or cut.
// Nothing is in its place before all are written. It writes over no link.
func saveCollected(dir string, r *sandbox.Result, say func(string)) error {
	if e := r.Evidence.CollectError; e != "" {
		say(e)
	}
	if err := os.Mkdir(dir, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	temp, remove, err := archive.Stage(root)
	if err != nil {
		return err
	}
	defer remove()
	if err := root.Mkdir(temp+"/files", 0o777); err != nil {
		return err
	}
	for _, f := range r.Files {
		switch {
		case f.Error != "":
			say(fmt.Sprintf("not collected: %q: %s", f.Path, f.Error))
			continue
		case f.Truncated:
			say(fmt.Sprintf("collected only the beginning of %q: %d of %d bytes (raise limits.result)", f.Path, len(f.Content), f.Size))
		}
		switch err := save(root, temp+"/files", f); {
		case impossible(err): // which must not cost the others
			say(fmt.Sprintf("not saved: %q: %v", f.Path, bare(err)))
		case err != nil:
			return err
		}
	}
	return archive.Place(root, temp+"/files", ".")
}

// errOutside is a name that leads out of the directory.
var errOutside = errors.New("it is outside the directory")

// impossible reports whether no file can have that name here, because of its characters or of the
// other files. The command chose the names, and two that were masked can be the same.
func impossible(err error) bool {
	return slices.ContainsFunc([]error{errOutside, fs.ErrExist, syscall.ENOTDIR, syscall.EISDIR, syscall.ENAMETOOLONG, syscall.EINVAL, syscall.EILSEQ},
		func(kind error) bool { return errors.Is(err, kind) })
}

func save(root *os.Root, below string, f sandbox.CollectedFile) error {
	if !filepath.IsLocal(f.Path) {
		return errOutside
	}
	name := path.Join(below, f.Path)
	if err := root.MkdirAll(path.Dir(name), 0o777); err != nil {
		return err
	}
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, f.Mode.Perm()|0o200)
	if err != nil {
		return err
	}
	_, err = file.Write(f.Content)
	return errors.Join(err, file.Close())
}
