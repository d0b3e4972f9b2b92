package images

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"runtime"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"belljar/sandbox"
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

// treeLayer is a layer that is stored uncompressed: go-containerregistry's own
// would be compressed twice, only for the engine to unpack it again.
type treeLayer struct {
	open func() (io.ReadCloser, error)
	hash v1.Hash
	size int64
}

// newTreeLayer is the layer in a file, which stays open.
func newTreeLayer(f *os.File) (treeLayer, error) {
	hash, size, err := v1.SHA256(io.NewSectionReader(f, 0, 1<<62))
	return treeLayer{func() (io.ReadCloser, error) { return io.NopCloser(io.NewSectionReader(f, 0, size)), nil }, hash, size}, err
}

func (l treeLayer) Digest() (v1.Hash, error)             { return l.hash, nil }
func (l treeLayer) DiffID() (v1.Hash, error)             { return l.hash, nil }
func (l treeLayer) Compressed() (io.ReadCloser, error)   { return l.open() }
func (l treeLayer) Uncompressed() (io.ReadCloser, error) { return l.open() }
func (l treeLayer) Size() (int64, error)                 { return l.size, nil }
func (l treeLayer) MediaType() (types.MediaType, error)  { return types.DockerUncompressedLayer, nil }

// imported is a layer of an import, as it is loaded.
type imported struct {
	treeLayer
	diffID  v1.Hash // of the original layer
	changed bool    // something was dropped from the loaded one
}

// layers are those of one import, by their files. Their total content
// is within the bounds.
type layers struct {
	open opener
	meter
	cleaner
	unpacked, cleaned int64
	stored            int64           // bytes that the engine has to unpack
	chains            map[string]bool // see store
	read              map[string]imported
}

func newLayers(open opener, b bounds, file int64) *layers {
	return &layers{open: open, meter: meter{bounds: b, source: file}, cleaner: cleaner{entries: b.entries}, read: map[string]imported{}, chains: map[string]bool{}}
}

// layer reads a layer completely, before anything of it is loaded.
func (l *layers) layer(ctx context.Context, name string) (imported, error) {
	if found, ok := l.read[name]; ok {
		return found, nil
	}
	f, err := l.open(name)
	if err != nil {
		return imported{}, err
	}
	defer f.Close()
	plain, _, err := decompress(l.input(ctx, f))
	if err != nil {
		return imported{}, err
	}
	defer plain.Close()
	unpacked, cleaned := l.unpacked, l.cleaned
	before, after := sha256.New(), sha256.New()
	tar := io.TeeReader(l.output(&l.unpacked, plain), before)
	changed, err := l.clean(tar, l.written(&l.cleaned, after))
	if err != nil {
		return imported{}, err
	}
	if _, err := io.Copy(io.Discard, tar); err != nil { // the bytes after its end
		return imported{}, err
	}
	layer := imported{treeLayer{l.unpack(name), sum(before), l.unpacked - unpacked}, sum(before), changed}
	if changed {
		layer.treeLayer = treeLayer{l.cleanCopy(name), sum(after), l.cleaned - cleaned}
	}
	l.read[name] = layer
	return layer, nil
}

// store counts the bytes that the engine unpacks. A layer that is listed often is read
// once, and unpacked each time that it is on other layers.
func (l *layers) store(chain string, size int64) error {
	if !l.chains[chain] {
		l.chains[chain] = true
		l.stored += size
	}
	if l.stored > l.bytes {
		return errBeyond{fmt.Errorf("the engine would unpack more than %s, the most that belljar imports", sandbox.FormatSize(l.bytes))}
	}
	return nil
}

func sum(h hash.Hash) v1.Hash {
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(h.Sum(nil))}
}

// unpack opens the original layer.
func (l *layers) unpack(name string) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) {
		f, err := l.open(name)
		if err != nil {
			return nil, err
		}
		plain, _, err := decompress(f)
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return &closing{plain, func() error { return errors.Join(plain.Close(), f.Close()) }}, nil
	}
}

// cleanCopy opens a layer without the dropped content.
func (l *layers) cleanCopy(name string) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) {
		plain, err := l.unpack(name)()
		if err != nil {
			return nil, err
		}
		r, w := io.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			again := cleaner{entries: l.bounds.entries}
			_, err := again.clean(plain, w)
			w.CloseWithError(err)
		}()
		return &closing{r, func() error { r.Close(); <-done; return plain.Close() }}, nil
	}
}

type closing struct {
	io.Reader
	close func() error
}

func (c *closing) Close() error { return c.close() }
