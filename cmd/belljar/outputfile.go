package main

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
)

// outputFile is --output-file's. One that cannot be written any more costs nobody
// but itself, and is told of at the end. A nil outputFile is none.
type outputFile struct {
	file   *os.File
	made   bool // by us
	broken error
}

// openOutput opens or makes it. What is in it stays until begin.
func openOutput(name string) (*outputFile, error) {
	file, err := os.OpenFile(name, os.O_WRONLY, 0)
	if !errors.Is(err, fs.ErrNotExist) {
		return &outputFile{file: file}, err
	}
	file, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if !errors.Is(err, fs.ErrExist) {
		return &outputFile{file: file, made: true}, err
	}
	file, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o666) // another's, or where a link leads
	return &outputFile{file: file}, err
}

// drop takes back what openOutput made, for a command that never began.
func (f *outputFile) drop() {
	if f == nil {
		return
	}
	ours, err := f.file.Stat()
	now, gone := os.Lstat(f.file.Name())
	if f.made && err == nil && gone == nil && os.SameFile(ours, now) && now.Size() == 0 {
		os.Remove(f.file.Name())
	}
	f.file.Close()
}

// begin empties it.
func (f *outputFile) begin() {
	if f == nil {
		return
	}
	if about, err := f.file.Stat(); err == nil && about.Mode().IsRegular() {
		f.broken = f.file.Truncate(0)
	}
}

func (f *outputFile) write(p []byte) {
	if f != nil && f.broken == nil {
		_, f.broken = f.file.Write(p)
	}
}

func (f *outputFile) close() error {
	if f == nil {
		return nil
	}
	return cmp.Or(f.broken, f.file.Close())
}
