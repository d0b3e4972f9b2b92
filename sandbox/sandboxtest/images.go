package sandboxtest

import (
	"context"
	"sync"

	"belljar/sandbox"
)

// Images is a sandbox.Images that has every image.
type Images struct {
	OnResolve Fault

	mu    sync.Mutex
	asked []Asked
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
	return Image(reference), nil
}

// Asked are the questions so far.
func (i *Images) Asked() []Asked {
	i.mu.Lock()
	defer i.mu.Unlock()
	return append([]Asked{}, i.asked...)
}

// Image is the one that Images resolves a reference to.
func Image(reference string) sandbox.Image {
	return sandbox.Image{Reference: reference, ID: "sha256:fake", Digest: "sha256:fake"}
}
