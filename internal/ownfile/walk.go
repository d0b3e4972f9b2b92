package ownfile

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxLinks is how many links a path may have, as in the kernel
// (path_resolution(7)).
const maxLinks = 40

// Walk resolves an absolute path as the kernel does, link by link, and returns
// the result. It visits each directory and link on the way, from / on, and
// the last part of the path: visit returns the file info. An error of visit ends
// the walk.
func Walk(name string, visit func(name string) (fs.FileInfo, error)) (string, error) {
	at, links := "/", 0
	if _, err := visit(at); err != nil {
		return "", err
	}
	for rest := strings.Split(name, "/"); len(rest) > 0; {
		next := filepath.Join(at, rest[0]) // a ".." in a link refers to the resolved path
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
