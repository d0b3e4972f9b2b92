package sandboxtest

import (
	"context"
	"sync"

	"belljar/sandbox"
)

// Images is a sandbox.Images that has every image.
type Images struct {
	OnResolve Fault

	mu       sync.Mutex
	asked    []Asked
	changed  map[string]sandbox.Image // the current images of changed references
	watchers []func(watching bool)
}

// Asked is a question to Images.
type Asked struct {
	Reference string
	Pull      sandbox.PullPolicy
}

// Resolve implements sandbox.Images.
func (i *Images) Resolve(ctx context.Context, reference string, pull sandbox.PullPolicy) (sandbox.Image, error) {
	i.mu.Lock()
	i.asked = append(i.asked, Asked{reference, pull})
	i.mu.Unlock()
	if err := i.OnResolve.strike(ctx); err != nil {
		return sandbox.Image{}, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if image, ok := i.changed[reference]; ok {
		return image, nil
	}
	return Image(reference), nil
}

// Watch implements sandbox.Images. It reports the calls of Change.
func (i *Images) Watch(ctx context.Context, changed func(watching bool)) {
	i.mu.Lock()
	i.watchers = append(i.watchers, changed)
	i.mu.Unlock()
	changed(true)
	<-ctx.Done()
}

// Change makes a reference resolve to another image from now on, with that ID.
func (i *Images) Change(reference, id string) {
	i.mu.Lock()
	if i.changed == nil {
		i.changed = map[string]sandbox.Image{}
	}
	i.changed[reference] = sandbox.Image{Reference: reference, ID: id, Digest: id}
	watchers := i.watchers
	i.mu.Unlock()
	for _, changed := range watchers {
		changed(true)
	}
}

// Asked returns the questions so far.
func (i *Images) Asked() []Asked {
	i.mu.Lock()
	defer i.mu.Unlock()
	return append([]Asked{}, i.asked...)
}

// Image is the image that Images resolves a reference to.
func Image(reference string) sandbox.Image {
	return sandbox.Image{Reference: reference, ID: "sha256:fake", Digest: "sha256:fake"}
}
