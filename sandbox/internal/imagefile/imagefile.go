// Package imagefile asks for several files of an image, and says which one failed.
package imagefile

import (
	"io/fs"

	"belljar/sandbox"
	"belljar/sandbox/internal/failure"
)

// Read reads files of an image.
func Read(image sandbox.Image, names []string, read func(name string) ([]byte, error)) (files [][]byte, err error) {
	for _, name := range names {
		text, err := read(name)
		if err != nil {
			return nil, failure.New(err, "reading %s of image %q", name, image.Reference).OfImage("write UID:GID in numbers")
		}
		files = append(files, text)
	}
	return files, nil
}

// Modes are the modes of files of an image.
func Modes(image sandbox.Image, names []string, mode func(name string) (fs.FileMode, error)) (modes []fs.FileMode, err error) {
	for _, name := range names {
		m, err := mode(name)
		if err != nil {
			return nil, failure.New(err, "looking for %q in image %q", name, image.Reference).OfImage("see: belljar doctor")
		}
		modes = append(modes, m)
	}
	return modes, nil
}
