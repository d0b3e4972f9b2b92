// Package images finds, fetches, builds and imports the images that commands
// run in.
//
// The one rule: containers run an ID, never a name. [Store.Resolve] turns a
// reference into the ID that containers are made from, once per command, so a
// tag that moves in the meantime changes nothing.
//
//	store := &images.Store{Client: docker, Progress: os.Stderr}
//	image, err := store.Resolve(ctx, "belljar/base", sandbox.PullMissing)
//
// # Design
//
// Names under belljar/ are built on this machine and never requested from a registry:
// the owner of that name there would control the default image. belljar/base is even
// built automatically when it is missing.
//
// Built and imported images reach the engine as one archive, in the format of `docker
// save`, through go-containerregistry. Times in it are fixed: the
// same input gives the same image ID.
package images

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/distribution/reference"
	"github.com/docker/docker/api/types/build"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
	"github.com/google/go-containerregistry/pkg/authn"
)

// askTimeout bounds the engine's answers about images, which come at once unless
// it hangs.
const askTimeout = 30 * time.Second

// Client is the part of the Docker client that a Store needs.
type Client interface {
	ImageInspect(ctx context.Context, image string, opts ...client.ImageInspectOption) (image.InspectResponse, error)
	ImageList(ctx context.Context, options image.ListOptions) ([]image.Summary, error)
	ImageLoad(ctx context.Context, archive io.Reader, opts ...client.ImageLoadOption) (image.LoadResponse, error)
	ImageRemove(ctx context.Context, image string, options image.RemoveOptions) ([]image.DeleteResponse, error)
	ImagesPrune(ctx context.Context, which filters.Args) (image.PruneReport, error)
	ImagePull(ctx context.Context, reference string, options image.PullOptions) (io.ReadCloser, error)
	ImageBuild(ctx context.Context, files io.Reader, options build.ImageBuildOptions) (build.ImageBuildResponse, error)
	Events(ctx context.Context, options events.ListOptions) (<-chan events.Message, <-chan error)
}

// Store is the images of one engine. It is a sandbox.Images.
type Store struct {
	Client Client
	// Progress shows pulls, loads and builds, with bars if it is a
	// terminal. Nil shows nothing.
	Progress io.Writer
	// Keychain has the logins for registries. Nil is those of docker and podman.
	Keychain authn.Keychain

	bounds bounds // of imports; zero means defaultBounds
}

// Listed is one name of an image, or an image without a name.
type Listed struct {
	Name    string // "repository:tag", as the engine reports it
	ID      string // "sha256:…"
	Digest  string // the registry's, "" for an image that is from none
	Size    int64  // bytes
	Created time.Time
}

// List returns the engine's images, by name.
func (s *Store) List(ctx context.Context) ([]Listed, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	summaries, err := s.Client.ImageList(ctx, image.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing images: %w", err)
	}
	var all []Listed
	for _, summary := range summaries {
		all = append(all, listed(summary)...)
	}
	sortListed(all)
	return all, nil
}

func sortListed(all []Listed) {
	slices.SortFunc(all, func(a, b Listed) int {
		return strings.Compare(a.Name+"\x00"+a.ID, b.Name+"\x00"+b.ID)
	})
}

// noName is shown for an image without a name.
const noName = "<none>:<none>"

func listed(summary image.Summary) []Listed {
	names := summary.RepoTags
	if len(names) == 0 {
		names = []string{noName} // from engines before 25
	}
	all := make([]Listed, len(names))
	for i, name := range names {
		repository := name[:max(0, strings.LastIndexByte(name, ':'))]
		all[i] = Listed{
			Name:    name,
			ID:      summary.ID,
			Digest:  digestIn(summary.RepoDigests, repository),
			Size:    summary.Size,
			Created: time.Unix(summary.Created, 0),
		}
	}
	return all
}

// digestIn finds a repository's digest among "repository@digest" entries.
func digestIn(repoDigests []string, repository string) string {
	for _, entry := range repoDigests {
		if digest, ok := strings.CutPrefix(entry, repository+"@"); ok && digest != "<none>" {
			return digest
		}
	}
	return ""
}

func (s *Store) find(ctx context.Context, ref reference.Reference) (found, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	image, err := s.Client.ImageInspect(ctx, ref.String())
	if err != nil {
		return found{}, err
	}
	all := found{id: image.ID, os: image.Os, digests: image.RepoDigests}
	if image.Config != nil {
		all.env, all.volumes = image.Config.Env, image.Config.Volumes
	}
	return all, nil
}
