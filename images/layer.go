package images

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// imageOf is an image of one layer for this machine's architecture, without
// ENTRYPOINT, ENV or VOLUME.
func imageOf(layer v1.Layer) (v1.Image, error) {
	epoch := v1.Time{Time: time.Unix(0, 0).UTC()}
	image, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		OS:           "linux",
		Architecture: runtime.GOARCH,
		Created:      epoch,
		RootFS:       v1.RootFS{Type: "layers"},
	})
	if err != nil {
		return nil, fmt.Errorf("configuring image: %w", err)
	}
	added := mutate.Addendum{Layer: layer, History: v1.History{Created: epoch, CreatedBy: "belljar images"}}
	if image, err = mutate.Append(image, added); err != nil {
		return nil, fmt.Errorf("appending layer: %w", err)
	}
	return image, nil
}

// treeLayer is a layer that is a tar file and stays one: go-containerregistry's
// own would be compressed twice, only for the engine to unpack it again.
type treeLayer struct {
	path string
	hash v1.Hash
	size int64
}

func newTreeLayer(path string) (v1.Layer, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	hash, size, err := v1.SHA256(f)
	return treeLayer{path, hash, size}, err
}

func (l treeLayer) Digest() (v1.Hash, error)             { return l.hash, nil }
func (l treeLayer) DiffID() (v1.Hash, error)             { return l.hash, nil }
func (l treeLayer) Compressed() (io.ReadCloser, error)   { return os.Open(l.path) }
func (l treeLayer) Uncompressed() (io.ReadCloser, error) { return os.Open(l.path) }
func (l treeLayer) Size() (int64, error)                 { return l.size, nil }
func (l treeLayer) MediaType() (types.MediaType, error)  { return types.DockerUncompressedLayer, nil }
