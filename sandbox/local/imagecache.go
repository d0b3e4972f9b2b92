package local

import (
	"context"
	"sync"

	"belljar/sandbox"
)

// maxCachedImages bounds the cache; more are asked for.
const maxCachedImages = 1000

// imageCache maps references to images, as long as the engine's events report
// changes: to ask the engine takes as long as to start a command.
type imageCache struct {
	sandbox.Images

	onChange func() // called with each change

	mu       sync.Mutex
	watching bool
	changes  int
	images   map[string]sandbox.Image
}

// watch keeps the cache valid until ctx is cancelled.
func (k *imageCache) watch(ctx context.Context) {
	k.Watch(ctx, k.changed)
	k.changed(false)
}

func (k *imageCache) changed(watching bool) {
	k.mu.Lock()
	k.watching, k.images = watching, map[string]sandbox.Image{}
	k.changes++
	k.mu.Unlock()
	k.onChange()
}

// Resolve implements Images.
func (k *imageCache) Resolve(ctx context.Context, reference string, pull sandbox.PullPolicy) (sandbox.Image, error) {
	k.mu.Lock()
	image, ok := k.images[reference]
	changes := k.changes
	k.mu.Unlock()
	if ok && pull != sandbox.PullAlways {
		return image, nil
	}
	image, err := k.Images.Resolve(ctx, reference, pull)
	if err != nil {
		return image, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.watching && k.changes == changes && len(k.images) < maxCachedImages {
		k.images[reference] = image
	}
	return image, nil
}
