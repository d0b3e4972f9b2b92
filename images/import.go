package images

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/distribution/reference"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"belljar/sandbox"
)

// importHint says what Import takes.
const importHint = "belljar imports an archive of `docker save`, an OCI layout (a directory or a tar), or a tar of a root file system; " +
	"tars plain or compressed with gzip or zstd"

// Import loads the images of a file: a docker archive, an OCI layout or a tar
// of a root file system. A docker archive's images keep their names where tag
// is empty; everything else takes a tag. Of an OCI layout for several platforms
// this machine's is taken.
func (s *Store) Import(ctx context.Context, file, tag string) ([]sandbox.Image, error) {
	var chosen reference.NamedTagged
	if tag != "" {
		var err error
		if chosen, err = parseTag(tag); err != nil {
			return nil, err
		}
	}
	tmp, err := os.MkdirTemp("", "belljar-import-")
	if err != nil {
		return nil, fmt.Errorf("making a directory to unpack to: %w", err)
	}
	defer os.RemoveAll(tmp)
	images, err := open(ctx, file, chosen, tmp)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("reading %q: %w", file, ctx.Err())
	}
	if err != nil {
		return nil, refuse(quoted{err}, importHint, "reading %q", file)
	}
	return s.load(ctx, file, images)
}

// open finds the images in a file and their names. They are read from it, or
// from tmp, when they are loaded.
func open(ctx context.Context, file string, tag reference.NamedTagged, tmp string) (tagged, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return openLayout(file, tag)
	}
	plain, err := decompress(ctx, file, filepath.Join(tmp, "plain.tar"))
	if err != nil {
		return nil, err
	}
	found, err := scan(plain)
	switch {
	case err != nil:
		return nil, err
	case found.manifest: // a docker archive, or both kinds in one as docker 25 writes
		return openArchive(plain, tag)
	case found.layout:
		dir := filepath.Join(tmp, "layout")
		if err := unpackLayout(plain, dir); err != nil {
			return nil, err
		}
		return openLayout(dir, tag)
	case found.shell:
		return openTree(plain, tag)
	default:
		return nil, errors.New("it has no manifest.json, no index.json and no bin/sh: neither an image nor a root file system")
	}
}

func openArchive(file string, tag reference.NamedTagged) (tagged, error) {
	manifest, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(file) })
	if err != nil {
		return nil, fmt.Errorf("reading manifest.json: %w", err)
	}
	if len(manifest) == 0 {
		return nil, errors.New("it holds no image")
	}
	if len(manifest) == 1 && (tag != nil || len(manifest[0].RepoTags) == 0) {
		image, err := tarball.ImageFromPath(file, nil)
		return named(image, err, tag)
	}
	if tag != nil {
		return nil, fmt.Errorf("it holds %d images, and one name is no name for all: import it without --tag", len(manifest))
	}
	images := tagged{}
	for _, described := range manifest {
		if err := images.addArchived(file, described.RepoTags); err != nil {
			return nil, err
		}
	}
	return images, nil
}

// addArchived adds the archive's image that has those names.
func (t tagged) addArchived(file string, names []string) error {
	if len(names) == 0 {
		return errors.New("one of its images has no name: save it with one, `docker save NAME`")
	}
	tag, err := name.NewTag(names[0])
	if err != nil {
		return err
	}
	image, err := tarball.ImageFromPath(file, &tag)
	if err != nil {
		return err
	}
	for _, name := range names {
		ref, err := parseTag(name)
		if err != nil {
			return err
		}
		if err := t.add(ref, image); err != nil {
			return err
		}
	}
	return nil
}

func openTree(file string, tag reference.NamedTagged) (tagged, error) {
	layer, err := newTreeLayer(file)
	if err != nil {
		return nil, err
	}
	image, err := imageOf(layer)
	return named(image, err, tag)
}

// named is one image under the name asked for.
func named(image v1.Image, err error, tag reference.NamedTagged) (tagged, error) {
	if err != nil {
		return nil, err
	}
	if tag == nil {
		return nil, errors.New("it says no name for its image: give one with --tag")
	}
	images := tagged{}
	return images, images.add(tag, image)
}
