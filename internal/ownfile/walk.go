package ownfile

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxLinks is how many links a path may lead through, as in the kernel
// (path_resolution(7)).
const maxLinks = 40

// Walk goes to an absolute path as the kernel does, link by link, and returns
// where that leads. It visits each directory and link on the way, from / on, and
// what the path is at last: visit says what is there now. An error of visit ends
// the walk.
func Walk(name string, visit func(name string) (fs.FileInfo, error)) (string, error) {
	at, links := "/", 0
	if _, err := visit(at); err != nil {
		return "", err
	}
	for rest := strings.Split(name, "/"); len(rest) > 0; {
		next := filepath.Join(at, rest[0]) // a ".." in a link is of what is resolved
		rest = rest[1:]
		if next == at {
			continue
		}
		about, err := visit(next)
		if err != nil {
			return "", err
		}
		if about.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		target, err := os.Readlink(next)
		if links++; err == nil && links > maxLinks {
			err = &fs.PathError{Op: "following", Path: next, Err: syscall.ELOOP}
		}
		if err != nil {
			return "", err
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return at, nil
}
