package images

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/docker/docker/api/types/build"

	"belljar/sandbox"
)

// Dockerfile is what the engine builds an image from.
type Dockerfile struct {
	Tag     string         // the image's new name
	From    []string       // the images that it begins with: no others are fetched
	Files   []sandbox.File // with Dockerfile; their paths are relative
	Timeout time.Duration
	Memory  int64   // bytes, of each container that it runs; 0 is no limit
	CPUs    float64 // the same
	Network bool    // what it runs has the engine's
}

// cpuPeriod is the kernel's usual one.
const cpuPeriod = 100_000

// BuildDockerfile has the engine build an image. What its Dockerfile runs is root in containers of the
// engine's, which have the engine's own lock-down and not belljar's. Canceling ctx ends the build.
func (s *Store) BuildDockerfile(ctx context.Context, d Dockerfile, pull sandbox.PullPolicy) (sandbox.Image, error) {
	ref, err := parseTag(d.Tag)
	if err != nil {
		return sandbox.Image{}, err
	}
	for _, from := range d.From {
		if _, err := s.Resolve(ctx, from, pull); err != nil {
			return sandbox.Image{}, err
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, d.Timeout, errors.New("it was not built within "+sandbox.FormatDuration(d.Timeout)))
	defer cancel()
	options := build.ImageBuildOptions{
		Version: build.BuilderV1, Tags: []string{ref.String()}, Dockerfile: "Dockerfile", NetworkMode: "none", Remove: true, ForceRemove: true,
		Memory: d.Memory, MemorySwap: d.Memory, CPUPeriod: cpuPeriod, CPUQuota: int64(d.CPUs * cpuPeriod),
	}
	if d.Network {
		options.NetworkMode = "default"
	}
	response, err := s.Client.ImageBuild(ctx, packed(d.Files), options)
	if err == nil {
		err = s.display(response.Body)
	}
	switch {
	case err == nil:
		return s.Resolve(ctx, familiar(ref), sandbox.PullNever)
	case ctx.Err() != nil:
		return sandbox.Image{}, refuse(context.Cause(ctx), "allow it more time, or build the image and name it", "building image %q", familiar(ref))
	case answered(err):
		return sandbox.Image{}, refuse(quoted{err}, "what a Dockerfile runs has a network only with --allow-network", "building image %q", familiar(ref))
	}
	return sandbox.Image{}, err
}

// packed is a tar archive of files.
func packed(files []sandbox.File) *bytes.Buffer {
	var b bytes.Buffer
	w := tar.NewWriter(&b) // into memory: a name that cannot be written is the engine's to refuse
	for _, f := range files {
		w.WriteHeader(&tar.Header{Name: f.Path, Mode: int64(f.Mode.Perm()), Size: int64(len(f.Content)), Typeflag: tar.TypeReg, Format: tar.FormatPAX})
		w.Write(f.Content)
	}
	w.Close()
	return &b
}
