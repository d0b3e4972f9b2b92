package images

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/build"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"belljar/sandbox"
)

// realEngine is a Store on the engine of the environment. Without one the
// test is skipped, except in CI.
func realEngine(t *testing.T) (*Store, *client.Client) {
	t.Helper()
	docker, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { docker.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := docker.Ping(ctx); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("no engine: %v", err)
		}
		t.Skipf("no engine: %v", err)
	}
	return &Store{Client: docker}, docker
}

// uniqueName is a name that no other test uses; its image is removed after the test.
func uniqueName(t *testing.T, docker *client.Client) string {
	t.Helper()
	test := strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))
	ref := fmt.Sprintf("belljar-test/%s-%d:%d", test, os.Getpid(), time.Now().UnixNano())
	removeAfter(t, docker, ref)
	return ref
}

func removeAfter(t *testing.T, docker *client.Client, ref string) {
	t.Cleanup(func() {
		// An engine waits for each container before it removes an image: one that hangs blocks it.
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		_, err := docker.ImageRemove(ctx, ref, image.RemoveOptions{PruneChildren: true})
		if err != nil && !cerrdefs.IsNotFound(err) {
			t.Errorf("removing %q: %v", ref, err)
		}
	})
}

// localRegistry is an empty registry on loopback, which engines use without TLS.
func localRegistry(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// push puts an image in a registry and returns its digest.
func push(t *testing.T, ref string, image v1.Image) string {
	t.Helper()
	tag, err := name.NewTag(ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(tag, image); err != nil {
		t.Fatal(err)
	}
	digest, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest.String()
}

// smallImage is an image with one file of that content.
func smallImage(t *testing.T, content string) v1.Image {
	t.Helper()
	image, err := imageOf(static.NewLayer(tarOf(t, "bin/sh", content), types.DockerUncompressedLayer))
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func withConfig(t *testing.T, image v1.Image, change func(*v1.ConfigFile)) v1.Image {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	change(config)
	if image, err = mutate.ConfigFile(image, config); err != nil {
		t.Fatal(err)
	}
	return image
}

// tarOf is a tar of files, given as names and contents in turn.
func tarOf(t *testing.T, files ...string) []byte {
	t.Helper()
	var buf bytes.Buffer
	tr := tree{tw: tar.NewWriter(&buf)}
	for i := 0; i < len(files); i += 2 {
		tr.file(files[i], 0o755, []byte(files[i+1]))
	}
	if tr.err == nil {
		tr.err = tr.tw.Close()
	}
	if tr.err != nil {
		t.Fatal(tr.err)
	}
	return buf.Bytes()
}

func tempFile(t *testing.T, content []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// fakeEngine has the given images and treats every load as one of Base.
type fakeEngine struct {
	images map[string]image.InspectResponse
	listed []image.Summary
	loaded []byte // the last archive
	pulled []string
	answer string // to a load or pull

	pruning filters.Args // what it was asked to remove
	pruned  image.PruneReport
	err     error // of every call
}

func (f *fakeEngine) ImageInspect(_ context.Context, ref string, _ ...client.ImageInspectOption) (image.InspectResponse, error) {
	found, ok := f.images[ref]
	if f.err == nil && !ok {
		return found, fmt.Errorf("no such image: %w", cerrdefs.ErrNotFound)
	}
	return found, f.err
}

func (f *fakeEngine) Events(context.Context, events.ListOptions) (<-chan events.Message, <-chan error) {
	errs := make(chan error, 1)
	errs <- errors.New("no events")
	return nil, errs
}

func (f *fakeEngine) ImageList(context.Context, image.ListOptions) ([]image.Summary, error) {
	return f.listed, f.err
}

func (f *fakeEngine) ImageLoad(_ context.Context, archive io.Reader, _ ...client.ImageLoadOption) (image.LoadResponse, error) {
	var err error
	if f.loaded, err = io.ReadAll(archive); err != nil {
		return image.LoadResponse{}, err
	}
	if f.answer == "" {
		f.images = map[string]image.InspectResponse{"docker.io/" + Base: {ID: "sha256:made", Os: "linux"}}
	}
	return image.LoadResponse{Body: io.NopCloser(strings.NewReader(f.answer))}, f.err
}

func (f *fakeEngine) ImageRemove(context.Context, string, image.RemoveOptions) ([]image.DeleteResponse, error) {
	return nil, nil
}

func (f *fakeEngine) ImagesPrune(_ context.Context, which filters.Args) (image.PruneReport, error) {
	f.pruning = which
	return f.pruned, nil
}

func (f *fakeEngine) ImagePull(_ context.Context, ref string, _ image.PullOptions) (io.ReadCloser, error) {
	f.pulled = append(f.pulled, ref)
	return io.NopCloser(strings.NewReader(f.answer)), f.err
}

func (f *fakeEngine) ImageBuild(context.Context, io.Reader, build.ImageBuildOptions) (build.ImageBuildResponse, error) {
	return build.ImageBuildResponse{Body: io.NopCloser(strings.NewReader(f.answer))}, f.err
}

// wantCause checks an error's cause, and that it contains each of the texts.
func wantCause(t *testing.T, err error, cause sandbox.Cause, texts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one of cause %s", cause)
	}
	if got := sandbox.CauseOf(err); got != cause {
		t.Errorf("cause %s, want %s: %v", got, cause, err)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %q does not say %q", err, text)
		}
	}
}
