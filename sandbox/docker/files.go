package docker

import (
	"archive/tar"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/imagefile"
	"belljar/sandbox/internal/lockdown"

	"github.com/containerd/errdefs"
)

// Files implements sandbox.Engine.
func (e *Engine) Files(ctx context.Context, image sandbox.Image, names []string, most int64) (files [][]byte, err error) {
	err = e.inImage(ctx, image, func(ctx context.Context, id string) (err error) {
		files, err = imagefile.Read(image, names, func(name string) ([]byte, error) { return e.readFile(ctx, id, name, most) })
		return err
	})
	return files, err
}

// Modes implements sandbox.Engine.
func (e *Engine) Modes(ctx context.Context, image sandbox.Image, names []string) (modes []fs.FileMode, err error) {
	err = e.inImage(ctx, image, func(ctx context.Context, id string) (err error) {
		modes, err = imagefile.Modes(image, names, func(name string) (fs.FileMode, error) { return e.mode(ctx, id, name) })
		return err
	})
	return modes, err
}

// mode is that of a file of a container. What a link leads to, and all links in the way,
// are the engine's to follow, within the container. An endless link, and a path through
// a file, are an internal error to it.
func (e *Engine) mode(ctx context.Context, id, name string) (mode fs.FileMode, err error) {
	about, err := e.client.ContainerStatPath(ctx, id, name)
	if err == nil && about.Mode&fs.ModeSymlink != 0 {
		mode = fs.ModeSymlink
		about, err = e.client.ContainerStatPath(ctx, id, about.LinkTarget)
	}
	switch {
	case errdefs.IsNotFound(err):
		return mode | fs.ModeIrregular, nil
	case errdefs.IsInternal(err):
		return fs.ModeSymlink | fs.ModeIrregular, nil
	}
	return mode | about.Mode, err
}

// inImage calls look with a container of the image that is never started: it is made for
// that, and removed.
func (e *Engine) inImage(ctx context.Context, image sandbox.Image, look func(ctx context.Context, id string) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*callTimeout)
	defer cancel()
	about, err := e.client.ImageInspect(ctx, image.ID)
	if err != nil {
		return engineError(err, "inspecting image %q", image.Reference).As(sandbox.CauseImage).Hint("run the command again")
	}
	if about.Config != nil { // otherwise the engine would copy them to its disk
		image.Volumes = slices.Sorted(maps.Keys(about.Config.Volumes))
	}
	spec := sandbox.Spec{
		Command: "files-" + strings.ToLower(rand.Text()), Image: image, User: sandbox.User{UID: lockdown.OtherUID, GID: lockdown.OtherUID}, Network: "none",
		Limits:   sandbox.Limits{Memory: 16 << 20, CPUs: 1, Pids: 16, Tmp: 1 << 20, Files: 16},
		Deadline: time.Now().Add(2 * callTimeout),
	}
	host, err := hostConfig(spec)
	if err != nil {
		return err
	}
	patient, end := outlive(ctx, grace)
	defer end()
	id, unguard, err := e.createContainer(ctx, patient, order{Spec: spec, host: host}, "")
	if err != nil {
		return err
	}
	defer func() {
		failed := e.forceRemove(ctx, id)
		if failed == nil {
			unguard()
		}
		err = errors.Join(err, failed)
	}()
	return look(ctx, id)
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
