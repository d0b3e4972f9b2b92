package images

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// decompress returns the plain tar of file: file itself, or what it holds
// written to target. Cancelling ctx ends it.
func decompress(ctx context.Context, file, target string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	buffered := bufio.NewReader(f)
	magic, _ := buffered.Peek(6) // shorter: not compressed
	var plain io.Reader
	switch {
	case strings.HasPrefix(string(magic), "\x1f\x8b"):
		plain, err = gzip.NewReader(buffered)
	case strings.HasPrefix(string(magic), "\x28\xb5\x2f\xfd"):
		decoder, zerr := zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1))
		if zerr == nil {
			defer decoder.Close()
		}
		plain, err = decoder, zerr
	case strings.HasPrefix(string(magic), "\xfd7zXZ\x00"):
		return "", errors.New("it is compressed with xz: unpack it first, with `unxz`")
	case strings.HasPrefix(string(magic), "BZh"):
		return "", errors.New("it is compressed with bzip2: unpack it first, with `bunzip2`")
	default:
		return file, nil
	}
	if err != nil {
		return "", err
	}
	defer context.AfterFunc(ctx, func() { f.Close() })()
	unpacked, err := os.Create(target)
	if err != nil {
		return "", err
	}
	return target, fill(unpacked, plain)
}

// fill writes a new file's content and closes it.
func fill(f *os.File, content io.Reader) error {
	_, err := io.Copy(f, content)
	return errors.Join(err, f.Close())
}

// contents says what of interest is in a tar.
type contents struct {
	manifest bool // of a docker archive
	layout   bool // of an OCI image
	shell    bool // as a root file system has
}

// scan reads a tar to its end, so that a damaged one is found out early.
func scan(file string) (contents, error) {
	var found contents
	err := eachMember(file, func(header *tar.Header, _ io.Reader) error {
		if climbs(header.Name) || header.Typeflag == tar.TypeLink && climbs(header.Linkname) {
			return fmt.Errorf("its member %.256q climbs out with \"..\"", header.Name)
		}
		switch memberName(header) {
		case "manifest.json":
			found.manifest = true
		case "index.json":
			found.layout = true
		case "bin/sh", "usr/bin/sh":
			found.shell = true
		}
		return nil
	})
	return found, err
}

func eachMember(file string, visit func(*tar.Header, io.Reader) error) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	for members := tar.NewReader(f); ; {
		header, err := members.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("it is no tar, or a damaged one: %w", err)
		}
		if err := visit(header, members); err != nil {
			return err
		}
	}
}

// memberName is a member's path without the "./" or "/" many tars begin with.
func memberName(header *tar.Header) string { return path.Clean("/" + header.Name)[1:] }

func climbs(name string) bool { return slices.Contains(strings.Split(name, "/"), "..") }

// layoutFile matches what an OCI layout consists of.
var layoutFile = regexp.MustCompile(`^(oci-layout|index\.json|blobs/[a-z0-9]+/[0-9a-f]+)$`)

// unpackLayout writes the OCI layout in a tar to dir, and nothing else of it.
func unpackLayout(file, dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return eachMember(file, func(header *tar.Header, content io.Reader) error {
		name := memberName(header)
		if header.Typeflag != tar.TypeReg || !layoutFile.MatchString(name) {
			return nil
		}
		if err := root.MkdirAll(path.Dir(name), 0o700); err != nil {
			return err
		}
		f, err := root.Create(name)
		if err != nil {
			return err
		}
		return fill(f, content)
	})
}
