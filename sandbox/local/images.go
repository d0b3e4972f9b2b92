package local

import (
	"context"
	"sync"

	"belljar/sandbox"
)

// maxKnown bounds them; more are asked for.
const maxKnown = 1000

// knownImages are what references mean, as long as somebody watches that it
// does not change: to ask the engine takes as long as to start a command.
type knownImages struct {
	sandbox.Images

	told func() // called with each change

	mu       sync.Mutex
	watching bool
	changes  int
	known    map[string]sandbox.Image
}

// watch keeps what is known until ctx is cancelled.
func (k *knownImages) watch(ctx context.Context) {
	k.Watch(ctx, k.changed)
	k.changed(false)
}

func (k *knownImages) changed(watching bool) {
	k.mu.Lock()
	k.watching, k.known = watching, map[string]sandbox.Image{}
	k.changes++
	k.mu.Unlock()
	k.told()
}

// Resolve implements Images.
func (k *knownImages) Resolve(ctx context.Context, reference string, pull sandbox.PullPolicy) (sandbox.Image, error) {
	k.mu.Lock()
	image, ok := k.known[reference]
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
	if k.watching && k.changes == changes && len(k.known) < maxKnown {
		k.known[reference] = image
	}
	return image, nil
}
