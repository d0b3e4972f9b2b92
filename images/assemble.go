package images

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// assembled is an image made of a configuration and its layers.
type assembled struct {
	config []byte
	layers []treeLayer
}

// assemble builds the image of a configuration and the files that contain its
// layers. Its ID is the configuration's own, unless a layer was changed.
func (l *layers) assemble(ctx context.Context, config []byte, files []string) (v1.Image, error) {
	if len(files) > maxLayers {
		return nil, errBeyond{fmt.Errorf("it has an image of %d layers, more than the limit of %d", len(files), maxLayers)}
	}
	var said struct {
		RootFS v1.RootFS `json:"rootfs"`
	}
	if err := json.Unmarshal(config, &said); err != nil {
		return nil, fmt.Errorf("reading its configuration: %w", err)
	}
	if len(said.RootFS.DiffIDs) != len(files) {
		return nil, fmt.Errorf("it has %d layers, but its configuration lists %d", len(files), len(said.RootFS.DiffIDs))
	}
	image := assembled{config: config}
	changed, chain := false, ""
	for i, file := range files {
		layer, err := l.layer(ctx, file)
		if err != nil {
			return nil, err
		}
		if want := said.RootFS.DiffIDs[i]; layer.diffID != want {
			return nil, fmt.Errorf("its layer %.256q has the digest %s, but its configuration says %s", file, layer.diffID, want)
		}
		chain += layer.hash.Hex
		if err := l.store(chain, layer.size); err != nil {
			return nil, err
		}
		changed = changed || layer.changed
		said.RootFS.DiffIDs[i] = layer.hash
		image.layers = append(image.layers, layer.treeLayer)
	}
	if changed {
		var err error
		if image.config, err = replaceKey(config, "rootfs", said.RootFS); err != nil {
			return nil, err
		}
	}
	return partial.CompressedToImage(image)
}

// replaceKey replaces a key of a JSON object, and leaves the others as they are.
func replaceKey(object []byte, key string, value any) ([]byte, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(object, &all); err != nil {
		return nil, err
	}
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	all[key] = text
	return json.Marshal(all)
}

func (a assembled) RawConfigFile() ([]byte, error) { return a.config, nil }

func (a assembled) MediaType() (types.MediaType, error) { return types.DockerManifestSchema2, nil }

func (a assembled) RawManifest() ([]byte, error) {
	digest, size, err := v1.SHA256(bytes.NewReader(a.config))
	if err != nil {
		return nil, err
	}
	manifest := v1.Manifest{
		SchemaVersion: 2, MediaType: types.DockerManifestSchema2,
		Config: v1.Descriptor{MediaType: types.DockerConfigJSON, Size: size, Digest: digest},
	}
	for _, layer := range a.layers {
		manifest.Layers = append(manifest.Layers, v1.Descriptor{MediaType: types.DockerUncompressedLayer, Size: layer.size, Digest: layer.hash})
	}
	return json.Marshal(manifest)
}

func (a assembled) LayerByDigest(digest v1.Hash) (partial.CompressedLayer, error) {
	for _, layer := range a.layers {
		if layer.hash == digest {
			return layer, nil
		}
	}
	return nil, fmt.Errorf("no layer %s", digest)
}
