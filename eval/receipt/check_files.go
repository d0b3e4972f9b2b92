package receipt

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"belljar/eval/run"
	"belljar/sandbox"
)

// The bounds of an archive of artifacts, which anyone may have written.
const (
	maxArchive = 4 << 30
	maxMembers = 100_000
)

// files compares the artifacts and the logs on the disk.
func (c *checker) files() error {
	lines, err := lastLines(c.dir)
	if err != nil {
		return err
	}
	signed := map[string]string{} // by test and path, of which no one can say where one ends: a task's name may have any character
	for _, r := range c.signed.Subject {
		if what, name := kind(r.Name); what == "artifact" {
			signed[name] = r.SHA256()
		}
	}
	for _, l := range lines {
		c.artifacts(l, signed)
		c.logs(l)
	}
	for _, name := range slices.Sorted(maps.Keys(signed)) { // which are in no archive
		c.same("artifact", name, signed[name], "")
	}
	return nil
}

// artifacts compares a trial's archive with the receipt, member by member, and with the result, which has their modes.
func (c *checker) artifacts(l line, signed map[string]string) {
	is, err := archived(c.dir, l.Key())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.add(Differs, "artifacts", l.test(), "reading their archive: %v", err)
		for _, a := range l.Artifacts {
			delete(signed, l.test()+":"+a.Path)
		}
		return
	}
	modes := map[string]run.Artifact{}
	for _, a := range l.Artifacts {
		modes[a.Path] = a
	}
	for _, path := range slices.Sorted(maps.Keys(is)) {
		name, now := l.test()+":"+path, is[path]
		sum, has := signed[name]
		delete(signed, name)
		switch was := modes[path]; {
		case !has:
			c.add(Differs, "artifact", name, "the receipt does not have it")
		case sum == now.SHA256 && was != now:
			c.add(Differs, "artifact", name, "it has mode %s and %d bytes; the result has %q and %d", now.Mode, now.Size, was.Mode, was.Size)
		default:
			c.same("artifact", name, sum, now.SHA256)
		}
	}
}

// archived are the members of a trial's archive, by path.
func archived(d *run.Dir, key run.Key) (map[string]run.Artifact, error) {
	name, err := filepath.Rel(d.Path, d.ArtifactsFile(key))
	if err != nil {
		return nil, err
	}
	f, err := d.Open(filepath.ToSlash(name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	is := map[string]run.Artifact{}
	size := int64(0)
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return is, nil
		}
		if err != nil {
			return nil, err
		}
		if h.Typeflag != tar.TypeReg {
			return nil, fmt.Errorf("%.200q is not a regular file", h.Name)
		}
		// A sparse file may have more than the whole archive.
		if size += h.Size; h.Size > maxArchive || size > maxArchive || len(is) == maxMembers {
			return nil, fmt.Errorf("it has over %s or %d files", sandbox.FormatSize(maxArchive), maxMembers)
		}
		path := "/" + strings.TrimPrefix(h.Name, "/")
		if _, again := is[path]; again {
			return nil, fmt.Errorf("it has %.200q twice", h.Name)
		}
		hash := sha256.New()
		if _, err := io.Copy(hash, r); err != nil {
			return nil, err
		}
		is[path] = run.Artifact{Path: path, Size: h.Size, Mode: fmt.Sprintf("%04o", h.Mode), SHA256: hex.EncodeToString(hash.Sum(nil))}
	}
}

// logs compares what was kept of the commands' output.
func (c *checker) logs(l line) {
	for _, p := range l.Phases {
		for _, o := range []run.Output{p.Stdout, p.Stderr} {
			if o.Log == "" {
				continue
			}
			is, err := sumOf(c.dir, o.Log)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				c.add(Differs, "log", o.Log, "%v", err)
				continue
			}
			c.same("log", o.Log, digest(o.SHA256)["sha256"], is)
		}
	}
}
