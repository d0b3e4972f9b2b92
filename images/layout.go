package images

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/distribution/reference"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

const (
	maxIndexes = 4   // nesting depth of indexes: builders write two
	maxImages  = 256 // entries of all of them: platforms, and an attestation each
)

// openLayout loads the image for this machine from an OCI layout. An OCI layout
// has no reliable place for a name: tag is the name.
func (l *layers) openLayout(ctx context.Context, tag reference.NamedTagged) (tagged, error) {
	content, err := l.open.metadata("index.json")
	if err != nil {
		return nil, fmt.Errorf("it is not an OCI layout: %w", err)
	}
	images := catalog{open: l.open}
	if err := images.add(content, maxIndexes); err != nil {
		return nil, err
	}
	chosen, err := choose(images.found)
	if err != nil {
		return nil, err
	}
	manifest, config, err := readImage(l.open, chosen.digest)
	if err != nil {
		return nil, err
	}
	files := make([]string, len(manifest.Layers))
	for i, layer := range manifest.Layers {
		files[i] = blobName(layer.Digest)
	}
	image, err := l.assemble(ctx, config, files)
	return named(image, err, tag)
}

func blobName(digest v1.Hash) string { return "blobs/" + digest.Algorithm + "/" + digest.Hex }

// readBlob reads a layout's manifest, index or configuration.
func readBlob(open opener, digest v1.Hash) ([]byte, error) {
	content, err := open.metadata(blobName(digest))
	if err != nil {
		return nil, err
	}
	if got, _, err := v1.SHA256(bytes.NewReader(content)); err != nil || got != digest {
		return nil, fmt.Errorf("its file %q is %s", blobName(digest), got)
	}
	return content, nil
}

// readImage reads an image's manifest and configuration.
func readImage(open opener, digest v1.Hash) (*v1.Manifest, []byte, error) {
	content, err := readBlob(open, digest)
	if err != nil {
		return nil, nil, fmt.Errorf("reading an image: %w", err)
	}
	manifest, err := v1.ParseManifest(bytes.NewReader(content))
	if err != nil {
		return nil, nil, fmt.Errorf("reading an image: %w", err)
	}
	config, err := readBlob(open, manifest.Config.Digest)
	if err != nil {
		return nil, nil, fmt.Errorf("reading an image's configuration: %w", err)
	}
	return manifest, config, nil
}

// candidate is an image in an index, and the platform it declares. It is read
// only when chosen: layouts may leave out the other platforms' content.
type candidate struct {
	platform string // "linux/amd64"
	digest   v1.Hash
}

// catalog lists the images of a layout's indexes.
type catalog struct {
	open  opener
	found []candidate
	read  int // entries
}

// add reads an index and the indexes in it.
func (c *catalog) add(index []byte, depth int) error {
	if depth == 0 {
		return errors.New("its indexes are nested too deeply")
	}
	manifest, err := v1.ParseIndexManifest(bytes.NewReader(index))
	if err != nil {
		return fmt.Errorf("reading an index: %w", err)
	}
	for _, entry := range manifest.Manifests {
		// Small indexes that list one another many times have no end.
		if c.read++; c.read > maxImages {
			return fmt.Errorf("its indexes list more than %d images", maxImages)
		}
		if err := c.addEntry(entry, depth); err != nil {
			return err
		}
	}
	return nil
}

func (c *catalog) addEntry(entry v1.Descriptor, depth int) error {
	switch {
	case entry.MediaType.IsIndex():
		inner, err := readBlob(c.open, entry.Digest)
		if err != nil {
			return fmt.Errorf("reading an index: %w", err)
		}
		return c.add(inner, depth-1)
	case entry.MediaType.IsImage():
		platform, err := platformOf(c.open, entry)
		c.found = append(c.found, candidate{platform, entry.Digest})
		return err
	default:
		return nil
	}
}

// platformOf reads an entry's platform, or that of the image's configuration if the entry
// has none.
func platformOf(open opener, entry v1.Descriptor) (string, error) {
	if p := entry.Platform; p != nil && p.OS != "" {
		return p.OS + "/" + p.Architecture, nil
	}
	_, content, err := readImage(open, entry.Digest)
	if err != nil {
		return "", err
	}
	config, err := v1.ParseConfigFile(bytes.NewReader(content))
	if err != nil {
		return "", fmt.Errorf("reading an image's configuration: %w", err)
	}
	return config.OS + "/" + config.Architecture, nil
}

// choose takes the first image that fits, as the OCI specification says.
func choose(found []candidate) (candidate, error) {
	want := "linux/" + runtime.GOARCH
	var others []string
	for _, c := range found {
		switch c.platform {
		case want:
			return c, nil
		case "unknown/unknown": // an attestation of a build, not an image
		default:
			others = append(others, c.platform)
		}
	}
	if others == nil {
		return candidate{}, errors.New("it contains no image")
	}
	slices.Sort(others)
	return candidate{}, fmt.Errorf("it has no image for %s, only for %q", want, slices.Compact(others))
}
