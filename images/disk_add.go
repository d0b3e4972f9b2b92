package images

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"belljar/internal/ownfile"
	"belljar/sandbox"
)

// adding locks out sweep, so that nothing is removed before it has a name. What
// killed processes left is removed first.
func (d *Disk) adding(ctx context.Context) (done func(), err error) {
	if err := d.create(); err != nil {
		return nil, err
	}
	if _, err := d.sweep(ctx); err != nil {
		return nil, err
	}
	return d.lock(ctx, ownfile.Shared, lockWriting)
}

// load stores images and pins them.
func (d *Disk) load(ctx context.Context, source string, images tagged) ([]sandbox.Image, error) {
	done, err := d.adding(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	var added []record
	err = d.limits().timed(ctx, func(ctx context.Context) error {
		u := newUnpacker(d.limits()) // layers that images share are unpacked for each
		for tag, image := range images {
			ref, err := parse(tag.String())
			if err != nil {
				return err
			}
			r, err := d.add(ctx, u, image)
			if err != nil {
				return err
			}
			r.name = ref.String()
			added = append(added, r)
		}
		return nil
	})
	if err != nil {
		return nil, refused(ctx, err, "the file may be damaged: download or save it again", "storing %q", source)
	}
	if err := d.change(ctx, func(all []record) ([]record, error) { return withNames(all, added), nil }); err != nil {
		return nil, err
	}
	return pinAll(ctx, d, images)
}

// add stores an image's files and unpacks it. The record has no name yet.
func (d *Disk) add(ctx context.Context, u *unpacker, image v1.Image) (record, error) {
	layers, err := image.Layers()
	if err != nil {
		return record{}, err
	}
	id, err := image.ConfigName()
	if err != nil {
		return record{}, err
	}
	has := d.hasFor(ctx, id)
	for _, layer := range layers {
		digest, err := layer.Digest()
		if err != nil {
			return record{}, err
		}
		size, err := layer.Size()
		if err != nil {
			return record{}, err
		}
		if has(digest, size) {
			continue
		}
		if err := d.put(ctx, digest, size, layer.Compressed); err != nil {
			return record{}, err
		}
	}
	config, err := image.RawConfigFile()
	if err != nil {
		return record{}, err
	}
	return d.addManifest(ctx, u, image, config)
}

// addManifest adds an image whose layers are stored.
func (d *Disk) addManifest(ctx context.Context, u *unpacker, image v1.Image, config []byte) (record, error) {
	content, err := image.RawManifest()
	if err != nil {
		return record{}, err
	}
	manifest, err := v1.ParseManifest(bytes.NewReader(content))
	if err != nil {
		return record{}, err
	}
	kind, err := image.MediaType()
	if err != nil {
		return record{}, err
	}
	digest, size, err := v1.SHA256(bytes.NewReader(content))
	if err != nil {
		return record{}, err
	}
	if err := d.putBytes(ctx, manifest.Config.Digest, config); err != nil {
		return record{}, err
	}
	if err := d.putBytes(ctx, digest, content); err != nil {
		return record{}, err
	}
	r := record{id: manifest.Config.Digest, manifest: digest, about: v1.Descriptor{MediaType: kind, Digest: digest, Size: size}}
	r.size, err = d.unpack(ctx, u, r, manifest, config)
	return r, err
}

func (d *Disk) putBytes(ctx context.Context, digest v1.Hash, content []byte) error {
	if d.isWhole(ctx, digest) {
		return nil
	}
	return d.put(ctx, digest, int64(len(content)), func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	})
}

// hasFor reports whether a file of an image is here. If the image is to be unpacked, a damaged
// one is not: only that it is fetched again repairs the images that share it.
func (d *Disk) hasFor(ctx context.Context, id v1.Hash) func(digest v1.Hash, size int64) bool {
	_, err := d.rootSize(id)
	return func(digest v1.Hash, size int64) bool {
		info, missing := os.Stat(d.path(blobsDir, digest.Hex))
		return missing == nil && info.Size() == size && (err == nil || d.isWhole(ctx, digest))
	}
}

// isWhole reports whether a file is here, and has its digest.
func (d *Disk) isWhole(ctx context.Context, digest v1.Hash) bool {
	f, err := os.Open(d.path(blobsDir, digest.Hex))
	if err != nil {
		return false
	}
	defer f.Close()
	hash := sha256.New()
	_, err = io.Copy(hash, until(ctx, f))
	return err == nil && sum(hash) == digest
}

// put stores a file under its digest, which must be its own.
func (d *Disk) put(ctx context.Context, digest v1.Hash, size int64, open func() (io.ReadCloser, error)) error {
	if digest.Algorithm != "sha256" {
		return fmt.Errorf("its digest %s is not of sha256", digest)
	}
	r, err := open()
	if err != nil {
		return err
	}
	defer r.Close()
	f, err := os.CreateTemp(d.path(tmpDir), "blob-")
	if err != nil {
		return err
	}
	hash := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, hash), io.LimitReader(until(ctx, r), size+1))
	switch {
	case err != nil:
	case n != size:
		err = fmt.Errorf("its file %s has not the size of %d bytes", digest, size)
	case sum(hash) != digest:
		err = fmt.Errorf("its file %s has the digest %s", digest, sum(hash))
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), d.path(blobsDir, digest.Hex))
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// syncDisk writes a directory's file system to its disk: a root without its files'
// content, after the machine has crashed, would look complete.
func syncDisk(dir string) error {
	f, err := os.Open(filepath.Clean(dir))
	if err != nil {
		return err
	}
	defer f.Close()
	return syncfs(int(f.Fd()))
}
