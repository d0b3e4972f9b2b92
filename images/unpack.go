package images

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/containerd/containerd/v2/pkg/archive"
	scoped "github.com/containerd/continuity/fs"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// unpacker unpacks images, each of layers that lie one over the other. Its bounds are for
// all of them together.
type unpacker struct {
	root string
	in   string // the directory in it that the last member was in, if it still is there
	meter
	cleaner
	unpacked int64 // bytes of the layers' tars
	written  int64 // bytes of their files
	before   int64 // those of other images
	named    int64 // bytes of their names
}

func newUnpacker(b bounds) *unpacker {
	return &unpacker{meter: meter{bounds: b}, cleaner: cleaner{entries: b.entries}}
}

// begin creates the root of the next image.
func (u *unpacker) begin(root string) error {
	u.root, u.in, u.before, u.dropped = root, "", u.written, nil
	if err := os.Mkdir(root, 0o755); err != nil {
		return err
	}
	return os.Chmod(root, 0o755) // whatever the umask is
}

// size is the bytes of the files in the root.
func (u *unpacker) size() int64 { return u.written - u.before }

// applyAll unpacks layers, given as files and the digests of what is in them.
func (u *unpacker) applyAll(ctx context.Context, files []string, diffIDs []v1.Hash) error {
	for i, file := range files {
		if err := u.applyFile(ctx, file, diffIDs[i]); err != nil {
			return err
		}
	}
	return nil
}

func (u *unpacker) applyFile(ctx context.Context, name string, diffID v1.Hash) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := u.apply(ctx, f, diffID); err != nil {
		return fmt.Errorf("unpacking its layer %s: %w", filepath.Base(name), err)
	}
	return nil
}

// apply unpacks a layer, which must have that digest when it is not compressed.
func (u *unpacker) apply(ctx context.Context, layer io.Reader, diffID v1.Hash) error {
	plain, _, err := decompress(u.input(ctx, layer))
	if err != nil {
		return err
	}
	defer plain.Close()
	hash := sha256.New()
	stream := io.TeeReader(u.output(&u.unpacked, plain), hash)
	options := []archive.ApplyOpt{archive.WithFilter(u.filter)}
	if os.Geteuid() != 0 {
		options = append(options, archive.WithNoSameOwner())
	}
	if _, err := archive.Apply(ctx, u.root, stream, options...); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, stream); err != nil { // the bytes after its end
		return err
	}
	if got := sum(hash); got != diffID {
		return fmt.Errorf("it has the digest %s, but the configuration says %s", got, diffID)
	}
	return nil
}

// filter decides on a member before it is unpacked, and changes it to what the root
// may have.
func (u *unpacker) filter(h *tar.Header) (bool, error) {
	if u.entries--; u.entries < 0 {
		return false, errTooMany
	}
	if u.named += int64(len(h.Name) + len(h.Linkname)); u.named > u.names {
		return false, errBeyond{fmt.Errorf("the names of its files are longer than %d MiB", u.names>>20)}
	}
	if err := checkMember(h); err != nil {
		return false, err
	}
	kept, _, err := u.keep(h)
	if err != nil || kept == nil {
		return false, err
	}
	if err := u.countParents(h); err != nil {
		return false, err
	}
	if kept.Typeflag == tar.TypeReg { // a sparse file is larger than its data
		u.written += kept.Size
	}
	*h = *kept
	if h.Typeflag == tar.TypeDir && os.Geteuid() != 0 {
		h.Mode |= 0o700 // what is in it is unpacked, and removed, by its owner
	}
	return true, u.check(max(u.written, u.unpacked))
}

// countParents counts the directories that are made for a member: of a few members, there
// are more than any disk has room for. Links may lead to them.
func (u *unpacker) countParents(h *tar.Header) error {
	parent := filepath.Dir(filepath.Clean(h.Name))
	was := u.in
	if u.in = parent; h.Typeflag == tar.TypeLink || h.Typeflag == tar.TypeSymlink || strings.HasPrefix(filepath.Base(h.Name), ".wh.") {
		u.in = "" // this may remove it, or lead the next elsewhere
	}
	if parent == was {
		return nil // the usual case
	}
	at, err := scoped.RootPath(u.root, parent)
	if err != nil {
		return err
	}
	for ; at != u.root; at = filepath.Dir(at) {
		if _, err := os.Lstat(at); !errors.Is(err, fs.ErrNotExist) {
			break // it may be no directory, which is an error soon
		}
		if u.entries--; u.entries < 0 {
			return errTooMany
		}
	}
	return nil
}

// mountPoints are what every container gets, which an engine cannot create in a shared
// root. Docker creates them, too.
var mountPoints = []struct {
	name string
	mode fs.FileMode
}{
	{"dev", fs.ModeDir | 0o755},
	{"etc", fs.ModeDir | 0o755},
	{"proc", fs.ModeDir | 0o755},
	{"sys", fs.ModeDir | 0o755},
	{"tmp", fs.ModeDir | fs.ModeSticky | 0o777},
	{"work", fs.ModeDir | fs.ModeSticky | 0o777},
	{"etc/hostname", 0o644},
	{"etc/hosts", 0o644},
	{"etc/resolv.conf", 0o644},
}

// makeMountPoints creates the mount points that an image lacks. Its links are
// followed as they are in a container, so that none leads out of the root.
func makeMountPoints(root string) error {
	for _, point := range mountPoints {
		target, err := scoped.RootPath(root, point.name)
		if err != nil {
			return fmt.Errorf("its /%s cannot be mounted on: %w", point.name, err)
		}
		if err := makeMountPoint(target, point.mode); err != nil {
			return fmt.Errorf("its /%s cannot be mounted on: %w", point.name, err)
		}
	}
	return nil
}

func makeMountPoint(target string, mode fs.FileMode) error {
	info, err := os.Lstat(target)
	switch {
	case err == nil && info.Mode().Type() == mode.Type():
		return nil
	case err == nil && mode.IsDir():
		return errors.New("it is not a directory")
	case err == nil:
		return errors.New("it is not a file")
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	if mode.IsDir() {
		err = os.Mkdir(target, 0o755)
	} else {
		err = os.WriteFile(target, nil, 0o644)
	}
	if err != nil {
		return err
	}
	return os.Chmod(target, mode) // whatever the umask is
}
