package images

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/google/go-containerregistry/pkg/authn"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"belljar/internal/ownfile"
	"belljar/sandbox"
)

// Disk is images in a directory, for an engine without a daemon. It is a sandbox.Images.
// Several processes may use the directory at once.
//
// The directory is an OCI layout, which other tools can read, with an entry in
// index.json for each name. Beside it, in roots, each image is unpacked once: [Disk.Root].
type Disk struct {
	Dir string // belljar's own, such as images in its state directory; it is created
	// Progress shows builds, and what was left out of an image; pulls, with bars,
	// only if it is a terminal. Nil shows nothing.
	Progress io.Writer
	// Keychain has the logins for registries. Nil is those of docker and podman.
	Keychain authn.Keychain

	bounds bounds // zero means defaultBounds
}

const (
	blobsDir = "blobs/sha256"
	rootsDir = "roots"
	tmpDir   = "tmp" // of what is not complete yet, or is being removed

	layoutVersion = `{"imageLayoutVersion":"1.0.0"}`
)

func (d *Disk) path(parts ...string) string {
	return filepath.Join(append([]string{d.Dir}, parts...)...)
}

func (d *Disk) limits() bounds {
	b := cmp.Or(d.bounds, defaultBounds)
	b.names, b.time = cmp.Or(b.names, defaultBounds.names), cmp.Or(b.time, defaultBounds.time)
	return b
}

// create creates the directory.
func (d *Disk) create() error {
	if err := d.check(); err != nil {
		return err
	}
	for _, dir := range []string{blobsDir, rootsDir, tmpDir} {
		if err := os.MkdirAll(d.path(dir), 0o700); err != nil {
			return storing(err)
		}
	}
	if err := d.check(); err != nil {
		return err
	}
	d.reserve()
	if content, err := os.ReadFile(d.path("oci-layout")); err == nil && string(content) == layoutVersion {
		return nil
	}
	return storing(os.WriteFile(d.path("oci-layout"), []byte(layoutVersion), 0o600))
}

// check refuses a directory that others can write.
func (d *Disk) check() error {
	if d.Dir == "" {
		return &sandbox.Error{Cause: sandbox.CauseEngine, Message: "there is no directory for images", Hint: "set HOME or XDG_STATE_HOME"}
	}
	return ownfile.CheckDir(d.Dir)
}

// Resolve pins a reference, as Store.Resolve does.
func (d *Disk) Resolve(ctx context.Context, name string, pull sandbox.PullPolicy) (sandbox.Image, error) {
	return resolve(ctx, d, name, pull)
}

// Pull fetches an image again.
func (d *Disk) Pull(ctx context.Context, name string) (sandbox.Image, error) {
	return resolve(ctx, d, name, sandbox.PullAlways)
}

// BuildBase builds Base, as Store.BuildBase does.
func (d *Disk) BuildBase(ctx context.Context) (sandbox.Image, error) {
	return d.maker().buildBase(ctx, Base, busyboxes...)
}

// BuildDebian builds a Debian, as Store.BuildDebian does.
func (d *Disk) BuildDebian(ctx context.Context, debian Debian) (sandbox.Image, error) {
	return d.maker().buildDebian(ctx, debian)
}

// Import loads the images of a file, as Store.Import does.
func (d *Disk) Import(ctx context.Context, file, tag string) ([]sandbox.Image, error) {
	return d.maker().importAs(ctx, file, tag)
}

func (d *Disk) maker() maker { return maker{shown(d.Progress), d.limits(), d.load} }

func (d *Disk) find(_ context.Context, ref reference.Reference) (found, error) {
	records, err := d.records()
	if err != nil {
		return found{}, err
	}
	i := slices.IndexFunc(records, func(r record) bool { return r.is(ref) })
	if i < 0 {
		return found{}, fmt.Errorf("image %q is not present: %w", familiar(ref), cerrdefs.ErrNotFound)
	}
	config, err := d.config(records[i])
	if err != nil {
		return found{}, err
	}
	all := found{id: records[i].id.String(), os: config.OS, env: config.Config.Env, volumes: config.Config.Volumes}
	for _, r := range records {
		if r.id == records[i].id && r.source != "" {
			all.digests = append(all.digests, r.source)
		}
	}
	return all, nil
}

// config reads an image's configuration.
func (d *Disk) config(r record) (*v1.ConfigFile, error) {
	_, content, err := d.image(r)
	if err != nil {
		return nil, err
	}
	config, err := v1.ParseConfigFile(bytes.NewReader(content))
	if err != nil {
		return nil, refuse(quoted{err}, "choose another image", "reading the configuration of image %q", r.shown())
	}
	return config, nil
}

// image reads an image's manifest and configuration.
func (d *Disk) image(r record) (*v1.Manifest, []byte, error) {
	root, err := os.OpenRoot(d.Dir)
	if err != nil {
		return nil, nil, storing(err)
	}
	defer root.Close()
	manifest, config, err := readImage(dirOpener(root), r.manifest)
	if err != nil {
		return nil, nil, blamed(err, "remove it with `belljar images rm "+r.shown()+"`, then pull, build or import it again",
			"image %q is damaged in %q", r.shown(), d.Dir)
	}
	return manifest, config, nil
}

// List returns the images, by name.
func (d *Disk) List(context.Context) ([]Listed, error) {
	records, err := d.records()
	if err != nil {
		return nil, err
	}
	all := make([]Listed, len(records))
	for i, r := range records {
		_, digest, _ := strings.Cut(r.source, "@")
		all[i] = Listed{Name: r.shown(), ID: r.id.String(), Digest: digest, Size: r.size}
		if config, err := d.config(r); err == nil { // a damaged one is listed, so that it can be removed
			all[i].Created = config.Created.Time
		}
	}
	sortListed(all)
	return all, nil
}
