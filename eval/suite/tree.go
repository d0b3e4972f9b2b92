package suite

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"belljar/sandbox"
)

// readTree reads a file, or a directory's files, below a root. Their paths are relative to it,
// below dir. A link is refused: it could lead anywhere on this host.
func readTree(root *os.Root, name, dir string) (list []sandbox.File, err error) {
	size := int64(0)
	err = fs.WalkDir(root.FS(), name, func(at string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if !entry.Type().IsRegular() {
			return notRegular(at)
		}
		f, err := root.Open(at)
		if err != nil {
			return err
		}
		defer f.Close()
		about, err := f.Stat()
		if err != nil {
			return err
		}
		if size += about.Size(); size > MaxContent || len(list) == MaxFiles {
			return sandbox.Invalid("put large data into the image", "%q has more than %d files or %s", name, MaxFiles, sandbox.FormatSize(MaxContent))
		}
		content, err := io.ReadAll(io.LimitReader(f, MaxContent))
		short := strings.TrimPrefix(strings.TrimPrefix(at, name), "/")
		list = append(list, sandbox.File{Path: path.Join(dir, short), Content: content, Mode: 0o644 | about.Mode().Perm()&0o111})
		return err
	})
	return list, err
}

func notRegular(name string) error {
	return sandbox.Invalid("copy the file to where the link is", "%q is not a regular file", name)
}

// digestOf is a digest of files, which are in the order of their paths.
func digestOf(files []sandbox.File) string {
	sum := sha256.New()
	for _, f := range files {
		fmt.Fprintf(sum, "%q %o %x\n", f.Path, f.Mode, sha256.Sum256(f.Content))
	}
	return hex.EncodeToString(sum.Sum(nil))
}
