package images

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"

	"belljar/internal/ownfile"
)

// inUse is the file beside a root that its users lock. It has the root's size.
const inUse = "in-use"

// Root returns the directory of an image, given its ID, unpacked and shared by all that
// use it: mount it read-only, nosuid and nodev. It has no device nodes, setuid files or
// extended attributes, and the mount points in its place that every container needs.
//
// The directory stays until held is closed, also in other processes that
// inherited it: pass it to a process that outlives this one.
func (d *Disk) Root(ctx context.Context, id string) (dir string, held *os.File, err error) {
	hash, err := v1.NewHash(id)
	if err != nil {
		return "", nil, refuse(err, "`belljar images ls` lists the images", "parsing image ID %.256q", id)
	}
	dir, held, err = d.hold(ctx, hash)
	if !errors.Is(err, fs.ErrNotExist) {
		return dir, held, err
	}
	if err := d.unpackAgain(ctx, hash); err != nil {
		return "", nil, err
	}
	return d.hold(ctx, hash)
}

func (d *Disk) rootDir(id v1.Hash) string { return d.path(rootsDir, id.Hex) }

// hold is fs.ErrNotExist if the image is not unpacked.
func (d *Disk) hold(ctx context.Context, id v1.Hash) (dir string, held *os.File, err error) {
	unlock, err := d.lock(ctx, ownfile.Shared, lockIndex) // no one removes it meanwhile
	if err != nil {
		return "", nil, err
	}
	defer unlock()
	if _, err := d.byID(id); err != nil {
		return "", nil, err
	}
	held, err = os.Open(filepath.Join(d.rootDir(id), inUse))
	if err != nil {
		return "", nil, storing(err)
	}
	if err := ownfile.Lock(held, ownfile.Shared, 0); err != nil {
		held.Close()
		return "", nil, storing(err)
	}
	return filepath.Join(d.rootDir(id), "root"), held, nil
}

func (d *Disk) byID(id v1.Hash) (record, error) {
	records, err := d.records()
	if err != nil {
		return record{}, err
	}
	i := slices.IndexFunc(records, func(r record) bool { return r.id == id })
	if i < 0 {
		return record{}, refuse(nil, "`belljar images ls` lists the images; pull, build or import it again", "image %s is not present any more", id)
	}
	return records[i], nil
}

// unpackAgain unpacks an image whose root is missing.
func (d *Disk) unpackAgain(ctx context.Context, id v1.Hash) error {
	done, err := d.adding(ctx)
	if err != nil {
		return err
	}
	defer done()
	r, err := d.byID(id)
	if err != nil {
		return err
	}
	manifest, config, err := d.image(r)
	if err != nil {
		return err
	}
	err = d.limits().timed(ctx, func(ctx context.Context) error {
		_, err := d.unpack(ctx, newUnpacker(d.limits()), r, manifest, config)
		return err
	})
	return refused(ctx, err, "remove it with `belljar images rm "+r.shown()+"`, then pull, build or import it again", "unpacking image %q", r.shown())
}

// unpack unpacks an image, unless it is, and returns the bytes of its files. The root
// gets its place when it is complete.
func (d *Disk) unpack(ctx context.Context, u *unpacker, r record, manifest *v1.Manifest, config []byte) (int64, error) {
	unlock, err := d.lock(ctx, ownfile.Exclusive, stripe(lockUnpack, r.id.Hex))
	if err != nil {
		return 0, err
	}
	defer unlock()
	if size, err := d.rootSize(r.id); !errors.Is(err, fs.ErrNotExist) {
		return size, err
	}
	dir, err := os.MkdirTemp(d.path(tmpDir), "root-")
	if err != nil {
		return 0, err
	}
	size, err := d.unpackIn(ctx, u, dir, manifest, config)
	if err == nil {
		err = os.Rename(dir, d.rootDir(r.id))
	}
	if err != nil {
		return 0, errors.Join(err, os.RemoveAll(dir))
	}
	return size, nil
}

func (d *Disk) unpackIn(ctx context.Context, u *unpacker, dir string, manifest *v1.Manifest, config []byte) (int64, error) {
	var said struct {
		RootFS v1.RootFS `json:"rootfs"`
	}
	if err := json.Unmarshal(config, &said); err != nil {
		return 0, fmt.Errorf("reading its configuration: %w", err)
	}
	if len(said.RootFS.DiffIDs) != len(manifest.Layers) {
		return 0, fmt.Errorf("it has %d layers, but its configuration lists %d", len(manifest.Layers), len(said.RootFS.DiffIDs))
	}
	if err := u.begin(filepath.Join(dir, "root")); err != nil {
		return 0, err
	}
	files := make([]string, len(manifest.Layers))
	for i, layer := range manifest.Layers {
		files[i] = d.path(blobsDir, layer.Digest.Hex)
	}
	if err := u.applyAll(ctx, files, said.RootFS.DiffIDs); err != nil {
		return 0, err
	}
	if err := makeMountPoints(u.root); err != nil {
		return 0, err
	}
	u.report(shown(d.Progress))
	if err := os.WriteFile(filepath.Join(dir, inUse), strconv.AppendInt(nil, u.size(), 10), 0o600); err != nil {
		return 0, err
	}
	return u.size(), syncDisk(dir)
}

// rootSize is the size of an image's root.
func (d *Disk) rootSize(id v1.Hash) (int64, error) {
	content, err := os.ReadFile(filepath.Join(d.rootDir(id), inUse))
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64)
}

func syncfs(fd int) error { return os.NewSyscallError("syncfs", unix.Syncfs(fd)) }
