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

// fileName is the configuration's in every folder that is searched.
const fileName = "sandbox.yaml"

const maxFile = 1 << 20

// systemDir is a variable for tests.
var systemDir = "/etc/belljar"

// found is the file to read. There may be none.
type found struct {
	path  string // absolute
	shown string // as messages name it
	data  []byte

	// stranger: it was found in the working directory, and may be of whoever
	// made that. Nobody named the file.
	stranger bool
}

// search reads the first file there is. One that was named must be there. Where
// it is a stranger's, own is the first of the operator's, if there is one.
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
		here := found{path: filepath.Join(o.Workdir, fileName), shown: fileName, stranger: !slices.Contains(dirs, o.Workdir)}
		if first, err = firstOf(here); err != nil || first.path != "" && !first.stranger {
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

// firstOf reads the first that is there.
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

func (f *found) read() error {
	info, err := os.Stat(f.path)
	if err == nil && !info.Mode().IsRegular() {
		return &Problem{Place: f.shown, Message: "not a regular file", Hint: "name a file"}
	}
	if err != nil {
		return unreadable(f.shown, err)
	}
	opened, err := os.Open(f.path)
	if err != nil {
		return unreadable(f.shown, err)
	}
	defer opened.Close()
	f.data, err = io.ReadAll(io.LimitReader(opened, maxFile+1))
	if err != nil {
		return unreadable(f.shown, err)
	}
	if len(f.data) > maxFile {
		return &Problem{Place: f.shown, Message: "over 1 MiB", Hint: "no configuration is that long: is it the right file?"}
	}
	return nil
}

func unreadable(shown string, err error) error {
	return fmt.Errorf("reading configuration %q: %w (name another with --config)", shown, err)
}

// userDir is the user's folder for belljar's configuration, or empty. A relative
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
