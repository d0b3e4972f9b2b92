package images

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"belljar/internal/ownfile"
	"belljar/sandbox"
)

// sweep removes what no record needs: files and roots of removed images, and what
// killed processes left. While another process adds an image, it does nothing. It
// returns the bytes that it freed.
func (d *Disk) sweep(ctx context.Context) (int64, error) {
	unlock, err := d.tryLock(ownfile.Exclusive, lockWriting)
	if unlock == nil {
		return 0, err
	}
	defer unlock()
	needed, err := d.needed()
	if err != nil {
		return 0, err
	}
	freed, err := d.sweepRoots(ctx, needed)
	for _, dir := range []string{tmpDir, blobsDir} {
		entries, unread := os.ReadDir(d.path(dir))
		err = errors.Join(err, unread)
		for _, entry := range entries {
			if dir == blobsDir && needed[entry.Name()] {
				continue
			}
			if info, gone := entry.Info(); gone == nil && info.Mode().IsRegular() {
				freed += info.Size()
			}
			err = errors.Join(err, os.RemoveAll(d.path(dir, entry.Name())))
		}
	}
	return freed, storing(err)
}

// sweepRoots removes the roots of images that are not needed. No one can begin to use
// them any more, but containers may still.
func (d *Disk) sweepRoots(ctx context.Context, needed map[string]bool) (freed int64, err error) {
	entries, err := os.ReadDir(d.path(rootsDir))
	for _, entry := range entries {
		if needed[entry.Name()] {
			continue
		}
		size, removed := d.removeRoot(ctx, entry.Name())
		freed += size
		err = errors.Join(err, removed)
	}
	return freed, err
}

// removeRoot removes the root of an image without a record, unless it is used.
func (d *Disk) removeRoot(ctx context.Context, hex string) (freed int64, err error) {
	gone, err := os.MkdirTemp(d.path(tmpDir), "gone-")
	if err != nil {
		return 0, err
	}
	// Moved as a whole: a kill would otherwise leave a part of it in its place.
	freed, err = d.moveRoot(ctx, hex, filepath.Join(gone, hex))
	return freed, errors.Join(err, os.RemoveAll(gone))
}

func (d *Disk) moveRoot(ctx context.Context, hex, to string) (size int64, err error) {
	unlock, err := d.lock(ctx, ownfile.Exclusive, lockIndex) // no one begins to use it
	if err != nil {
		return 0, err
	}
	defer unlock()
	id := v1.Hash{Algorithm: "sha256", Hex: hex}
	records, err := d.records()
	if err != nil || slices.ContainsFunc(records, func(r record) bool { return r.id == id }) {
		return 0, err
	}
	if used, err := d.used(hex); err != nil || used {
		return 0, err
	}
	size, _ = d.rootSize(id) // only to be shown
	if err = os.Rename(d.path(rootsDir, hex), to); errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	return size, err
}

// used reports whether anyone uses a root.
func (d *Disk) used(hex string) (bool, error) {
	f, err := os.OpenFile(d.path(rootsDir, hex, inUse), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	return ownfile.IsLocked(f, ownfile.Exclusive, 0)
}

// needed are the names of the files and roots that records need. A damaged image
// needs at least its manifest; of one that cannot be read just now, no one knows.
func (d *Disk) needed() (map[string]bool, error) {
	records, err := d.records()
	if err != nil {
		return nil, err
	}
	needed := map[string]bool{}
	for _, r := range records {
		needed[r.manifest.Hex], needed[r.id.Hex] = true, true
		manifest, _, err := d.image(r)
		if sandbox.CauseOf(err) == sandbox.CauseImage {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, layer := range manifest.Layers {
			needed[layer.Digest.Hex] = true
		}
	}
	return needed, nil
}
