package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"belljar/internal/target"
	"belljar/sandbox"
)

// usagef is an error in the command line.
func usagef(format string, args ...any) error {
	return &sandbox.Error{Cause: sandbox.CauseInvalid, Message: fmt.Sprintf(format, args...), Hint: "see --help"}
}

// maxEnvFile bounds a file of variables.
const maxEnvFile = 1 << 20

// envs are the variables of the files, then those of the flags.
func envs(ctx context.Context, files, flags []string) ([]string, error) {
	var all []string
	for _, file := range files {
		text, err := readInput(ctx, file, maxEnvFile)
		if sandbox.CauseOf(err) == sandbox.CauseCanceled {
			return nil, err
		}
		if err != nil {
			return nil, usagef("--env-file %q: %v", file, bare(err))
		}
		lines, err := envLines(string(text))
		if err != nil {
			return nil, usagef("--env-file %q: %v", file, err)
		}
		all = append(all, lines...)
	}
	return append(all, flags...), nil
}

// bare is a file's error without the file name, which the message has.
func bare(err error) error {
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		return of.Err
	}
	return err
}

// envLines reads docker's format: one K=V or K per line, # for comments, no
// quoting. A byte order mark, as Windows' editors write it, is not part of a name.
func envLines(text string) ([]string, error) {
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return nil, errors.New("it is not UTF-8 text, or has NUL bytes")
	}
	var list []string
	number := 0
	for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		number++
		line = strings.TrimLeft(strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r"), " \t")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, _, has := strings.Cut(line, "=")
		if name == "" || strings.ContainsAny(name, " \t") || !has && strings.ContainsFunc(name, notInName) {
			return nil, fmt.Errorf("line %d is neither NAME=value nor NAME", number) // without its text: that may be a secret
		}
		list = append(list, line)
	}
	return list, nil
}

func notInName(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }

// mounts reads -v and --mount.
func mounts(volumes, specs []string) ([]sandbox.Mount, error) {
	var list []sandbox.Mount
	for _, v := range volumes {
		m, err := parseVolume(v)
		if err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	for _, s := range specs {
		m, err := parseMount(s)
		if err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, nil
}

func parseVolume(v string) (sandbox.Mount, error) {
	parts := strings.Split(v, ":")
	if len(parts) < 2 || len(parts) > 3 {
		return sandbox.Mount{}, usagef("-v %q: write SOURCE:TARGET or SOURCE:TARGET:ro", v)
	}
	m := sandbox.Mount{Source: parts[0], Target: parts[1], Writable: true}
	if len(parts) == 3 {
		switch parts[2] {
		case "ro":
			m.Writable = false
		case "rw":
		default:
			return m, usagef("-v %q: %q is not ro or rw", v, parts[2])
		}
	}
	return absolute(m)
}

// parseMount reads docker's comma-separated form. Without a type, the source says whether it is a bind mount or a volume's, as with -v.
func parseMount(s string) (sandbox.Mount, error) {
	fields, err := csv.NewReader(strings.NewReader(s)).Read()
	if err != nil {
		return sandbox.Mount{}, usagef("--mount %q: %v", s, err)
	}
	m, kind := sandbox.Mount{Writable: true}, ""
	for _, field := range fields {
		key, value, _ := strings.Cut(field, "=")
		switch key {
		case "type":
			if value != "bind" && value != "volume" {
				return m, usagef("--mount %q: type %q is not supported, only bind and volume", s, value)
			}
			kind = value
		case "source", "src":
			m.Source = value
		case "target", "dst", "destination":
			m.Target = value
		case "readonly", "ro":
			if value != "" && value != "true" && value != "false" {
				return m, usagef("--mount %q: %s must be true or false", s, key)
			}
			m.Writable = value == "false"
		default:
			return m, usagef("--mount %q: unknown key %q", s, key)
		}
	}
	switch {
	case kind == "bind" && target.Volume(m.Source):
		return m, usagef("mount source %q is not a path: write ./%[1]s for a directory, or type=volume", m.Source)
	case kind == "volume" && m.Source != "" && !target.Volume(m.Source):
		return m, usagef("mount source %q is not the name of a volume: write type=bind for a directory", m.Source)
	}
	return absolute(m)
}

// absolute resolves a source that is a path against the working directory. As with docker, a bare name
// is a volume of the engine's.
func absolute(m sandbox.Mount) (sandbox.Mount, error) {
	if m.Source == "" || m.Target == "" {
		return m, usagef("a mount needs a source and a target")
	}
	if target.Volume(m.Source) {
		return m, nil
	}
	if !filepath.IsAbs(m.Source) && !strings.HasPrefix(m.Source, ".") {
		return m, usagef("mount source %q is neither a path nor the name of a volume: write ./%[1]s for a directory", m.Source)
	}
	source, err := filepath.Abs(m.Source)
	m.Source = source
	return m, err
}
