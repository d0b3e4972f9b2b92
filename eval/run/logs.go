package run

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"belljar/sandbox"
)

// tailBytes is how much of an output is in a result.
const tailBytes = 2000

// name is a task's name as one of a directory. Different tasks have different ones.
func (k Key) name() string {
	var b strings.Builder
	for _, c := range []byte(k.Task) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-', c == '.' && b.Len() > 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02x", c)
		}
	}
	if b.Len() > 100 {
		return fmt.Sprintf("%.80s-%.16x", b.String(), sha256.Sum256([]byte(k.Task)))
	}
	return b.String()
}

// Log writes the log of a phase's stream, and returns what a result says about it. The numbers
// of a trial's phases begin with 1: with it, logs of an earlier attempt are removed.
func (d *Dir) Log(k Key, number int, name string, o sandbox.Output) (Output, error) {
	out := Output{Bytes: o.Total}
	kept := o.Bytes()
	if len(kept) == 0 {
		return out, nil
	}
	out.Tail = strings.ToValidUTF8(string(kept[max(0, len(kept)-tailBytes):]), "\uFFFD")
	out.SHA256 = fmt.Sprintf("%x", sha256.Sum256(kept)) // not o.SHA256: that is of what was dropped, too
	out.Log = path.Join(Logs, k.name(), fmt.Sprint(k.Trial), fmt.Sprintf("%02d-%s", number, name))
	file := filepath.Join(d.Path, filepath.FromSlash(out.Log))
	err := os.MkdirAll(filepath.Dir(file), 0o755)
	if err == nil {
		err = os.WriteFile(file, kept, 0o644)
	}
	if err != nil { // as on a full disk: no result names what is not whole
		os.Remove(file)
		out.Log, out.SHA256 = "", ""
	}
	return out, err
}

// Forget removes what an attempt that did not count left of a trial.
func (d *Dir) Forget(k Key) error {
	if err := os.Remove(d.ArtifactsFile(k)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.RemoveAll(filepath.Join(d.Path, Logs, k.name(), fmt.Sprint(k.Trial)))
}

// ArtifactsFile is the name of the archive of a trial's artifacts.
func (d *Dir) ArtifactsFile(k Key) string {
	return filepath.Join(d.Path, Artifacts, k.name(), fmt.Sprint(k.Trial)+".tar")
}

// Keep writes the archive of a trial's artifacts, for grading them again.
func (d *Dir) Keep(k Key, archive []byte) error {
	name := d.ArtifactsFile(k)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return writeSynced(name, archive)
}
