package images

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/distribution/reference"

	"belljar/sandbox"
)

const (
	// Base is the default image: only busybox.
	Base = "belljar/base:latest"
	// DefaultDebian is the tag of BuildDebian's image if no other is given.
	DefaultDebian = "belljar/debian:latest"

	ours = "docker.io/belljar/" // see Design
)

// shelf is where images are stored.
type shelf interface {
	// find looks for an image; cerrdefs.IsNotFound reports that there is none.
	find(ctx context.Context, ref reference.Reference) (found, error)
	// pull fetches an image from its registry.
	pull(ctx context.Context, ref reference.Named) error
	BuildBase(ctx context.Context) (sandbox.Image, error)
}

// found is an image as a shelf has it.
type found struct {
	id, os  string
	digests []string // "repository@digest": what it is in registries
	env     []string // "NAME=value"
	volumes map[string]struct{}
}

// Resolve pins a reference: a name, with a tag or a digest or neither, or an
// ID. An empty policy is sandbox.PullMissing. Its errors are *sandbox.Error of
// CauseImage, unless the engine did not answer. Canceling ctx stops
// a running pull or build.
func (s *Store) Resolve(ctx context.Context, name string, pull sandbox.PullPolicy) (sandbox.Image, error) {
	return resolve(ctx, s, name, pull)
}

func resolve(ctx context.Context, s shelf, name string, policy sandbox.PullPolicy) (sandbox.Image, error) {
	ref, err := parse(name)
	if err != nil {
		return sandbox.Image{}, err
	}
	if err := checkPolicy(policy); err != nil {
		return sandbox.Image{}, err
	}
	if named, ok := inRegistry(ref); ok && policy == sandbox.PullAlways {
		if err := pull(ctx, s, named); err != nil {
			return sandbox.Image{}, err
		}
	}
	found, err := s.find(ctx, ref)
	if cerrdefs.IsNotFound(err) {
		if err := obtain(ctx, s, ref, policy); err != nil {
			return sandbox.Image{}, err
		}
		found, err = s.find(ctx, ref)
	}
	if err != nil {
		return sandbox.Image{}, fmt.Errorf("inspecting image %q: %w", name, err)
	}
	return pin(name, ref, found)
}

// Pull fetches an image again.
func (s *Store) Pull(ctx context.Context, name string) (sandbox.Image, error) {
	return s.Resolve(ctx, name, sandbox.PullAlways)
}

// obtain gets an image that the shelf does not have.
func obtain(ctx context.Context, s shelf, ref reference.Reference, policy sandbox.PullPolicy) error {
	named, remote := inRegistry(ref)
	switch {
	case policy == sandbox.PullNever:
		return refuse(nil, howToGet(ref), "image %q is not present, and the pull policy is %q", familiar(ref), policy)
	case familiar(ref) == Base:
		_, err := s.BuildBase(ctx)
		return err
	case remote:
		return pull(ctx, s, named)
	default:
		return refuse(nil, howToGet(ref), "image %q is not present, and no registry has it", familiar(ref))
	}
}

// pullTime is the most that a pull takes. A registry that sends a byte now and then would
// otherwise hold for ever who waits for its image.
const pullTime = 2 * time.Hour

func pull(ctx context.Context, s shelf, ref reference.Named) error {
	late := refuse(nil, withoutRegistry(ref), "image %q is not pulled after %v", familiar(ref), pullTime)
	return within(ctx, pullTime, late, func(ctx context.Context) error { return s.pull(ctx, ref) })
}

// maxReference is the most that a reference has: a name of 255 bytes, a tag of 128, a digest.
// Parsing a MiB of them takes a second.
const maxReference = 1 << 10

func parse(name string) (reference.Reference, error) {
	ref, err := reference.ParseAnyReference(name[:min(len(name), maxReference)])
	if err == nil && len(name) > maxReference {
		err = reference.ErrNameTooLong
	}
	if err != nil {
		return nil, refuse(err, "write NAME, NAME:TAG, NAME@sha256:… or sha256:…", "parsing image reference %.256q", name)
	}
	if named, ok := ref.(reference.Named); ok {
		ref = reference.TagNameOnly(named)
	}
	return ref, nil
}

// parseTag parses an image's new name.
func parseTag(name string) (reference.NamedTagged, error) {
	ref, err := parse(name)
	if err != nil {
		return nil, err
	}
	tagged, ok := ref.(reference.NamedTagged)
	if _, digested := ref.(reference.Digested); !ok || digested {
		return nil, refuse(nil, "write NAME or NAME:TAG", "image name %q has a digest, but an image's digest cannot be chosen", name)
	}
	return tagged, nil
}

func checkPolicy(pull sandbox.PullPolicy) error {
	known := []sandbox.PullPolicy{"", sandbox.PullAlways, sandbox.PullMissing, sandbox.PullNever}
	if slices.Contains(known, pull) {
		return nil
	}
	return &sandbox.Error{
		Cause:   sandbox.CauseInvalid,
		Message: fmt.Sprintf("pull policy %q is unknown", pull),
		Hint:    "choose always, missing or never",
	}
}

// inRegistry is ref's name if a registry may be asked for it: not for an ID,
// and not for a name under belljar/.
func inRegistry(ref reference.Reference) (reference.Named, bool) {
	named, ok := ref.(reference.Named)
	return named, ok && !strings.HasPrefix(named.Name(), ours)
}

// familiar is ref as people write it.
func familiar(ref reference.Reference) string {
	if named, ok := ref.(reference.Named); ok {
		return reference.FamiliarString(named)
	}
	return ref.String()
}

func howToGet(ref reference.Reference) string {
	name := familiar(ref)
	_, remote := inRegistry(ref)
	switch {
	case name == Base:
		return "build it with `belljar images build base`"
	case strings.HasPrefix(name, "belljar/debian:"):
		return "build it with `belljar images build debian --tag " + name + "`"
	case remote:
		return "get it with `belljar images pull " + name + "` or, from a file, `belljar images import FILE --tag " + name +
			"`; or build an image on this machine with `belljar images build base` or `belljar images build debian`"
	default:
		return "`belljar images ls` lists the images; get others with `belljar images pull REF`, `belljar images import FILE --tag REF` or `belljar images build base`"
	}
}
