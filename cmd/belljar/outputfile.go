package main

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// outputFile is the file of --output-file. If writing fails, the command continues, and
// the end reports it. nil means no file.
type outputFile struct {
	file   *os.File
	made   bool // by us
	broken error
	stop   func() bool // stops waiting for ctx
}

// openOutput opens or makes it. Its content stays until begin. It waits for a FIFO's
// reader until ctx is done, and after that gives each write a little more time.
func openOutput(ctx context.Context, name string) (*outputFile, error) {
	f, err := openAny(name)
	for ; errors.Is(err, syscall.ENXIO) && isFIFO(name); f, err = openAny(name) {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(readerPause):
		}
	}
	if err != nil {
		return nil, err
	}
	f.stop = context.AfterFunc(ctx, func() { f.file.SetWriteDeadline(time.Now().Add(readerPatience)) })
	return f, nil
}

const (
	readerPause    = 20 * time.Millisecond // between two checks for a FIFO's reader
	readerPatience = 3 * time.Second       // for a reader that hangs, once the command is canceled
)

func isFIFO(name string) bool {
	about, err := os.Stat(name)
	return err == nil && about.Mode()&fs.ModeNamedPipe != 0
}

func openAny(name string) (*outputFile, error) {
	const flags = os.O_WRONLY | syscall.O_NONBLOCK | syscall.O_NOCTTY
	file, err := os.OpenFile(name, flags, 0)
	if !errors.Is(err, fs.ErrNotExist) {
		return &outputFile{file: file}, err
	}
	file, err = os.OpenFile(name, flags|os.O_CREATE|os.O_EXCL, 0o666)
	if !errors.Is(err, fs.ErrExist) {
		return &outputFile{file: file, made: true}, err
	}
	file, err = os.OpenFile(name, flags|os.O_CREATE, 0o666) // another process made it, or it is a link to a missing file
	return &outputFile{file: file}, err
}

// drop removes a file that openOutput made, for a command that never began.
func (f *outputFile) drop() {
	if f == nil {
		return
	}
	ours, err := f.file.Stat()
	now, gone := os.Lstat(f.file.Name())
	if f.made && err == nil && gone == nil && os.SameFile(ours, now) && now.Size() == 0 {
		os.Remove(f.file.Name())
	}
	f.stop()
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
	f.stop()
	return cmp.Or(f.broken, f.file.Close())
}
