package docker

import (
	"archive/tar"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"belljar/sandbox"

	"github.com/containerd/errdefs"
)

// Files implements sandbox.Engine. The engine reads them from a container that
// is never started, and is removed afterwards.
func (e *Engine) Files(ctx context.Context, image sandbox.Image, names []string, most int64) (files [][]byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*callTimeout)
	defer cancel()
	about, err := e.client.ImageInspect(ctx, image.ID)
	if err != nil {
		return nil, engineError(err, "inspecting image %q", image.Reference).as(sandbox.CauseImage).hint("run the command again")
	}
	if about.Config != nil { // otherwise the engine would copy them to its disk
		image.Volumes = slices.Sorted(maps.Keys(about.Config.Volumes))
	}
	spec := sandbox.Spec{
		Command: "files-" + strings.ToLower(rand.Text()), Image: image, User: sandbox.User{UID: otherUID, GID: otherUID}, Network: "none",
		Limits:   sandbox.Limits{Memory: 16 << 20, CPUs: 1, Pids: 16, Tmp: 1 << 20, Files: 16},
		Deadline: time.Now().Add(2 * callTimeout),
	}
	host, err := hostConfig(spec)
	if err != nil {
		return nil, err
	}
	patient, end := outlive(ctx, grace)
	defer end()
	id, unguard, err := e.createContainer(ctx, patient, spec, host)
	if err != nil {
		return nil, err
	}
	defer func() {
		failed := e.forceRemove(ctx, id)
		if failed == nil {
			unguard()
		}
		err = errors.Join(err, failed)
	}()
	for _, name := range names {
		text, err := e.readFile(ctx, id, name, most)
		if err != nil {
			return nil, engineError(err, "reading %s of image %q", name, image.Reference).as(sandbox.CauseImage).hint("write UID:GID in numbers")
		}
		files = append(files, text)
	}
	return files, nil
}

// readFile reads a file of a container, nil where there is none. The engine resolves
// links within the container.
func (e *Engine) readFile(ctx context.Context, id, name string, most int64) ([]byte, error) {
	content, about, err := e.client.CopyFromContainer(ctx, id, name)
	if errdefs.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if about.LinkTarget != "" {
		content.Close()
		if content, about, err = e.client.CopyFromContainer(ctx, id, about.LinkTarget); err != nil {
			return nil, fmt.Errorf("its link target is not in the image: %w", err)
		}
	}
	defer content.Close()
	if !about.Mode.IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	if about.Size > most {
		return nil, fmt.Errorf("it is larger than %s", humanSize(most))
	}
	return regular(content, most)
}

// regular reads the one file of a tar archive, and checks its type and size again.
func regular(archive io.Reader, most int64) ([]byte, error) {
	files := tar.NewReader(io.LimitReader(archive, most+1<<20)) // with headers
	header, err := files.Next()
	if err != nil {
		return nil, err
	}
	if header.Typeflag != tar.TypeReg || header.Size > most {
		return nil, errors.New("it is not a regular file, or it grew")
	}
	return io.ReadAll(files)
}
