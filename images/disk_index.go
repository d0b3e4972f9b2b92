package images

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"

	"github.com/distribution/reference"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"belljar/internal/ownfile"
)

const (
	indexFile = "index.json"

	// spareFile takes the room that a shorter index.json needs on a full disk: without it,
	// no image could be removed there.
	spareFile = "spare"
	spareSize = 64 << 10
)

// reserve keeps room for the next removal. A full disk has none to keep.
func (d *Disk) reserve() {
	if info, err := os.Stat(d.path(spareFile)); err != nil || info.Size() < spareSize {
		_ = os.WriteFile(d.path(spareFile), make([]byte, spareSize), 0o600)
	}
}

// The annotations of an entry in index.json. The first is the OCI layout's own.
const (
	annotationName   = "org.opencontainers.image.ref.name"
	annotationSource = "dev.belljar.image.source"
	annotationID     = "dev.belljar.image.id"
	annotationSize   = "dev.belljar.image.size"
)

// record is an entry in index.json: one name of an image, or an image without one.
type record struct {
	name     string  // "docker.io/library/alpine:3", or with a digest; "" has moved to another image
	source   string  // "docker.io/library/alpine@sha256:…": where it was pulled, or ""
	id       v1.Hash // its configuration's digest
	manifest v1.Hash
	about    v1.Descriptor // of the manifest
	size     int64         // bytes of its root
}

// is reports whether a reference means the record's image.
func (r record) is(ref reference.Reference) bool {
	named, ok := ref.(reference.Named)
	if !ok {
		return r.id.String() == ref.String()
	}
	if digested, ok := ref.(reference.Digested); ok {
		return r.source == digestRef(named, digested.Digest().String())
	}
	return r.name == ref.String()
}

func digestRef(named reference.Named, digest string) string { return named.Name() + "@" + digest }

// shown is the record's name as people write it.
func (r record) shown() string {
	if r.name == "" {
		return noName
	}
	ref, err := parse(r.name)
	if err != nil {
		return r.name
	}
	return familiar(ref)
}

func (r record) descriptor() v1.Descriptor {
	about := r.about
	about.Annotations = map[string]string{annotationID: r.id.String(), annotationSize: strconv.FormatInt(r.size, 10)}
	if r.name != "" {
		about.Annotations[annotationName] = r.name
	}
	if r.source != "" {
		about.Annotations[annotationSource] = r.source
	}
	return about
}

func recordOf(about v1.Descriptor) (record, error) {
	id, err := v1.NewHash(about.Annotations[annotationID])
	if err != nil {
		return record{}, fmt.Errorf("reading %s of %s: %w", annotationID, about.Digest, err)
	}
	size, err := strconv.ParseInt(about.Annotations[annotationSize], 10, 64)
	if err != nil {
		return record{}, fmt.Errorf("reading %s of %s: %w", annotationSize, about.Digest, err)
	}
	return record{about.Annotations[annotationName], about.Annotations[annotationSource], id, about.Digest, about, size}, nil
}

// records reads index.json. It is replaced as a whole, so that no lock is needed.
func (d *Disk) records() ([]record, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	content, err := os.ReadFile(d.path(indexFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, storing(err)
	}
	index, err := v1.ParseIndexManifest(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("reading %q: %w", d.path(indexFile), err)
	}
	records := make([]record, len(index.Manifests))
	for i, about := range index.Manifests {
		if records[i], err = recordOf(about); err != nil {
			return nil, fmt.Errorf("reading %q: %w", d.path(indexFile), err)
		}
	}
	return records, nil
}

// change replaces the records, if edit succeeds. No image gets used or removed meanwhile.
func (d *Disk) change(ctx context.Context, edit func([]record) ([]record, error)) error {
	unlock, err := d.lock(ctx, ownfile.Exclusive, lockIndex)
	if err != nil {
		return err
	}
	defer unlock()
	records, err := d.records()
	if err != nil {
		return err
	}
	before := len(records)
	if records, err = edit(records); err != nil {
		return err
	}
	index := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{}}
	for _, r := range records {
		index.Manifests = append(index.Manifests, r.descriptor())
	}
	content, err := json.MarshalIndent(index, "", "  ")
	if err != nil {
		return err
	}
	if old, err := os.ReadFile(d.path(indexFile)); err == nil && bytes.Equal(old, content) {
		return nil
	}
	err = d.writeIndex(content)
	if isFull(err) && len(records) < before && os.Remove(d.path(spareFile)) == nil {
		err = d.writeIndex(content)
	}
	return storing(err)
}

// writeIndex replaces index.json as a whole, by who has its lock.
func (d *Disk) writeIndex(content []byte) error {
	f, err := os.OpenFile(d.path(indexFile+".new"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), d.path(indexFile))
}

// withNames adds records. A name that meant another image leaves that one without a
// name, unless it has another.
func withNames(records, added []record) []record {
	for _, a := range added {
		for i := range records {
			if records[i].name == a.name {
				records[i].name = ""
			}
		}
		records = append(records, a)
	}
	return slices.DeleteFunc(slices.Clone(records), func(r record) bool {
		return r.name == "" && slices.ContainsFunc(records, func(other record) bool {
			return other.name != "" && other.id == r.id && (r.source == "" || other.source == r.source)
		})
	})
}
