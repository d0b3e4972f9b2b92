// Package images finds, fetches, builds and imports the images that commands
// run in.
//
// The one rule: what runs is an ID, never a name. [Store.Resolve] turns a
// reference into the ID that containers are made from, once per command, so a
// tag that moves meanwhile changes nothing.
//
//	store := &images.Store{Client: docker, Progress: os.Stderr}
//	image, err := store.Resolve(ctx, "belljar/base", sandbox.PullMissing)
//
// # Design
//
// Names under belljar/ are made on this machine and never asked of a registry:
// their owner there would own the default image. belljar/base is even
// built on the spot when it is missing.
//
// Whatever is built or imported reaches the engine as one archive, as `docker
// save` writes it, through go-containerregistry. Times in it are fixed: the
// same input gives the same image ID.
package images

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
)

// askTimeout is for the engine to answer about images, which it does at once unless
// it hangs.
const askTimeout = 30 * time.Second

// Client is what a Store needs of the Docker client.
type Client interface {
	ImageInspect(ctx context.Context, image string, opts ...client.ImageInspectOption) (image.InspectResponse, error)
	ImageList(ctx context.Context, options image.ListOptions) ([]image.Summary, error)
	ImageLoad(ctx context.Context, archive io.Reader, opts ...client.ImageLoadOption) (image.LoadResponse, error)
	ImagePull(ctx context.Context, reference string, options image.PullOptions) (io.ReadCloser, error)
	Events(ctx context.Context, options events.ListOptions) (<-chan events.Message, <-chan error)
}

// Store is the images of one engine. It is a sandbox.Images.
type Store struct {
	Client Client
	// Progress shows pulls, loads and builds, with bars where it is a
	// terminal. Nil shows nothing.
	Progress io.Writer

	bounds bounds // of imports; none are defaultBounds
}

// Listed is one name of an image, or an image without any.
type Listed struct {
	Name    string // "repository:tag", as the engine says it
	ID      string // "sha256:…"
	Digest  string // the registry's, "" for an image that came from none
	Size    int64  // bytes
	Created time.Time
}

// List returns the images the engine has, by name.
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
	slices.SortFunc(all, func(a, b Listed) int {
		return strings.Compare(a.Name+"\x00"+a.ID, b.Name+"\x00"+b.ID)
	})
	return all, nil
}

func listed(summary image.Summary) []Listed {
	names := summary.RepoTags
	if len(names) == 0 {
		names = []string{"<none>:<none>"} // what engines before 25 say
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

func (s *Store) inspect(ctx context.Context, name string) (image.InspectResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return s.Client.ImageInspect(ctx, name)
}
