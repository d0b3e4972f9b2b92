package images

import (
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/distribution/reference"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// maxIndexes bounds how deep indexes may hold indexes: builders write two.
const maxIndexes = 4

// openLayout takes the image for this machine from an OCI layout's directory.
// An OCI layout has no dependable place for a name: tag is it.
func openLayout(dir string, tag reference.NamedTagged) (tagged, error) {
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, fmt.Errorf("it is no OCI layout: %w", err)
	}
	found, err := candidates(index, maxIndexes)
	if err != nil {
		return nil, err
	}
	chosen, err := choose(found)
	if err != nil {
		return nil, err
	}
	image, err := chosen.index.Image(chosen.digest)
	return named(image, err, tag)
}

// candidate is an image in an index, and what it says it runs on. It is read
// only when chosen: layouts may leave out the other platforms' content.
type candidate struct {
	platform string // "linux/amd64"
	index    v1.ImageIndex
	digest   v1.Hash
}

// candidates finds the images in an index and the indexes it holds.
func candidates(index v1.ImageIndex, depth int) ([]candidate, error) {
	if depth == 0 {
		return nil, errors.New("its indexes are nested too deep")
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, fmt.Errorf("reading an index: %w", err)
	}
	var all []candidate
	for _, entry := range manifest.Manifests {
		found, err := candidatesIn(index, entry, depth)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

func candidatesIn(index v1.ImageIndex, entry v1.Descriptor, depth int) ([]candidate, error) {
	switch {
	case entry.MediaType.IsIndex():
		inner, err := index.ImageIndex(entry.Digest)
		if err != nil {
			return nil, fmt.Errorf("reading an index: %w", err)
		}
		return candidates(inner, depth-1)
	case entry.MediaType.IsImage():
		platform, err := platformOf(index, entry)
		return []candidate{{platform, index, entry.Digest}}, err
	default:
		return nil, nil
	}
}

// platformOf asks an entry, or the image's configuration where the entry does
// not say.
func platformOf(index v1.ImageIndex, entry v1.Descriptor) (string, error) {
	if p := entry.Platform; p != nil && p.OS != "" {
		return p.OS + "/" + p.Architecture, nil
	}
	image, err := index.Image(entry.Digest)
	if err != nil {
		return "", fmt.Errorf("reading an image: %w", err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		return "", fmt.Errorf("reading an image's configuration: %w", err)
	}
	return config.OS + "/" + config.Architecture, nil
}

// choose takes the first image that fits, as the OCI specification says to.
func choose(found []candidate) (candidate, error) {
	want := "linux/" + runtime.GOARCH
	var others []string
	for _, c := range found {
		switch c.platform {
		case want:
			return c, nil
		case "unknown/unknown": // a build's attestation, no image
		default:
			others = append(others, c.platform)
		}
	}
	if others == nil {
		return candidate{}, errors.New("it holds no image")
	}
	slices.Sort(others)
	return candidate{}, fmt.Errorf("it has no image for %s, only for %q", want, slices.Compact(others))
}
