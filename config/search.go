package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// fileName is the configuration's name in every directory of the search.
const fileName = "sandbox.yaml"

const maxFile = 1 << 20

// systemDir is a variable for tests.
var systemDir = "/etc/belljar"

// found is the file to read, if there is one.
type found struct {
	path  string // absolute
	shown string // as messages name it
	data  []byte

	// untrusted: it was found in the working directory, which may be
	// anyone's, and no option named it.
	untrusted bool
}

// search reads the first file that exists. A file that an option names must exist. If
// the first is untrusted, own is the first of the operator's, if there is one.
func search(o Options, env map[string]string) (first, own found, err error) {
	for _, named := range []string{o.Path, env["BELLJAR_CONFIG"]} {
		if named != "" {
			f := found{path: absolute(named, o.Workdir), shown: named}
			err := f.read()
			return f, found{}, err
		}
	}
	dirs := []string{userDir(env), systemDir}
	var candidates []found
	if !o.NoWorkdir {
		here := found{path: filepath.Join(o.Workdir, fileName), shown: fileName, untrusted: !slices.Contains(dirs, o.Workdir)}
		if first, err = firstOf(here); err != nil || first.path != "" && !first.untrusted {
			return first, found{}, err
		}
	}
	for _, dir := range dirs {
		if dir != "" {
			p := filepath.Join(dir, fileName)
			candidates = append(candidates, found{path: p, shown: p})
		}
	}
	own, err = firstOf(candidates...)
	if first.path == "" {
		return own, found{}, err
	}
	return first, own, err
}

// firstOf reads the first that exists.
func firstOf(candidates ...found) (found, error) {
	for _, f := range candidates {
		err := f.read()
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			continue
		}
		return f, err
	}
	return found{}, nil
}

// read reads a regular file, and never blocks: to open a FIFO would.
func (f *found) read() error {
	opened, err := f.open()
	if err != nil {
		return err
	}
	defer opened.Close()
	info, err := opened.Stat()
	if err != nil {
		return unreadable(f.shown, err)
	}
	if !info.Mode().IsRegular() {
		return &Problem{Place: f.shown, Message: "not a regular file", Hint: "name a file"}
	}
	f.data, err = io.ReadAll(io.LimitReader(opened, maxFile+1))
	if err != nil {
		return unreadable(f.shown, err)
	}
	if len(f.data) > maxFile {
		return &Problem{Place: f.shown, Message: "larger than 1 MiB", Hint: "check that it is the right file"}
	}
	return nil
}

// open opens it. An untrusted file is opened within its directory: a link out of that
// would let it read another file, and show parts of that in messages.
func (f *found) open() (opened *os.File, err error) {
	const flags = os.O_RDONLY | syscall.O_NONBLOCK | syscall.O_NOCTTY
	if !f.untrusted {
		if opened, err = os.OpenFile(f.path, flags, 0); err != nil {
			return nil, unreadable(f.shown, err)
		}
		return opened, nil
	}
	root, err := os.OpenRoot(filepath.Dir(f.path))
	if err != nil {
		return nil, unreadable(f.shown, err)
	}
	defer root.Close()
	if opened, err = root.OpenFile(filepath.Base(f.path), flags, 0); err == nil {
		return opened, nil
	}
	about, lstatErr := root.Lstat(filepath.Base(f.path))
	if lstatErr == nil && about.Mode()&fs.ModeSymlink != 0 {
		return nil, &Problem{Place: f.shown, Message: "is a link to a file outside the working directory, or to no file",
			Hint: "name the file itself with --config or BELLJAR_CONFIG, or remove the link"}
	}
	return nil, unreadable(f.shown, err)
}

func unreadable(shown string, err error) error {
	return fmt.Errorf("reading configuration %q: %w (name another with --config)", shown, err)
}

// userDir is the user's directory for belljar's configuration, or empty. A relative
// XDG_CONFIG_HOME is to be ignored (XDG Base Directory Specification).
func userDir(env map[string]string) string {
	return xdgDir(env, "XDG_CONFIG_HOME", ".config")
}

func xdgDir(env map[string]string, variable, below string) string {
	if dir := env[variable]; filepath.IsAbs(dir) {
		return filepath.Join(dir, "belljar")
	}
	if home := env["HOME"]; filepath.IsAbs(home) {
		return filepath.Join(home, below, "belljar")
	}
	return ""
}

func absolute(p, dir string) string {
	if filepath.IsAbs(p) {
		return filepath.Clean(p)
	}
	return filepath.Join(dir, p)
}
