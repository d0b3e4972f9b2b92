package images

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/distribution/reference"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"golang.org/x/sync/errgroup"

	"belljar/internal/ownfile"
	"belljar/sandbox"
)

const (
	// registryPatience is the time that a registry may be silent.
	registryPatience = time.Minute
	pulledAtOnce     = 3  // layers, as docker does
	maxManifests     = 16 // requests of a pull: for an index, and for the image in it, with redirections
)

// pull fetches ref from its registry, with the user's login.
func (d *Disk) pull(ctx context.Context, ref reference.Named) error {
	unlock, err := d.lock(ctx, ownfile.Exclusive, stripe(lockPull, ref.String())) // others wait, and then find it here
	if err != nil {
		return err
	}
	defer unlock()
	done, err := d.adding(ctx)
	if err != nil {
		return err
	}
	defer done()
	r, err := d.pullRecord(ctx, ref)
	if err != nil {
		return unpulled(ctx, ref, err)
	}
	return d.change(ctx, func(all []record) ([]record, error) { return withNames(all, []record{r}), nil })
}

// pullRecord stores an image and unpacks it.
func (d *Disk) pullRecord(ctx context.Context, ref reference.Named) (record, error) {
	connections := registryTransport()
	defer connections.CloseIdleConnections()
	image, err := d.fetch(ctx, ref, connections)
	if err != nil {
		return record{}, err
	}
	bars := newBars(shown(d.Progress))
	defer bars.close()
	if err := d.pullLayers(ctx, image, bars); err != nil {
		return record{}, err
	}
	config, err := d.fetchConfig(image)
	if err != nil {
		return record{}, err
	}
	var r record
	err = d.limits().timed(ctx, func(ctx context.Context) (err error) {
		r, err = d.addManifest(ctx, newUnpacker(d.limits()), image, config)
		return err
	})
	r.name, r.source = ref.String(), digestRef(ref, image.digest.String())
	if _, digested := ref.(reference.Digested); digested {
		r.name = r.source
	}
	return r, err
}

// fetchConfig reads an image's configuration, from here if it is.
func (d *Disk) fetchConfig(image fetched) ([]byte, error) {
	root, err := os.OpenRoot(d.Dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if config, err := readBlob(dirOpener(root), image.manifest.Config.Digest); err == nil {
		return config, nil
	}
	return image.RawConfigFile()
}

// unpulled says why an image was not pulled.
func unpulled(ctx context.Context, ref reference.Named, err error) error {
	login := loginHint(ref)
	switch status(err) {
	case http.StatusNotFound:
		return refuse(quoted{err}, login, "image %q is not in its registry, or is private", familiar(ref))
	case http.StatusUnauthorized, http.StatusForbidden:
		return refuse(quoted{err}, login, "the registry of image %q requires a login", familiar(ref))
	}
	if beyond, ok := errors.AsType[errBeyond](err); ok {
		return refuse(quoted{beyond}, "choose another image", "image %q is too large", familiar(ref))
	}
	return refused(ctx, err, withoutRegistry(ref), "image %q cannot be pulled", familiar(ref))
}

// fetched is an image in a registry, within the bounds.
type fetched struct {
	v1.Image
	manifest *v1.Manifest
	digest   v1.Hash // of its manifest, or of the index that lists it
}

// fetch reads an image's manifest for this machine.
func (d *Disk) fetch(ctx context.Context, ref reference.Named, rt http.RoundTripper) (fetched, error) {
	var none fetched
	parsed, err := name.ParseReference(ref.String())
	if err != nil {
		return none, err
	}
	rt = newSecure(rt, parsed.Context().RegistryStr())
	about, err := remote.Get(parsed, remote.WithContext(ctx), remote.WithAuthFromKeychain(keychainOr(d.Keychain)), remote.WithTransport(rt),
		remote.WithUserAgent("belljar"), remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}))
	if err != nil {
		return none, err
	}
	image, err := about.Image()
	if err != nil {
		return none, err
	}
	content, err := image.RawManifest()
	if err != nil {
		return none, err
	}
	manifest, err := v1.ParseManifest(bytes.NewReader(content))
	if err != nil {
		return none, fmt.Errorf("reading its manifest: %w", err)
	}
	return fetched{image, manifest, about.Digest}, d.checkManifest(manifest)
}

// checkManifest refuses a manifest that says itself that the image is too large.
func (d *Disk) checkManifest(m *v1.Manifest) error {
	if m.Config.Size < 0 || m.Config.Size > maxMetadata {
		return errBeyond{fmt.Errorf("its configuration is larger than %d MiB", maxMetadata>>20)}
	}
	if len(m.Layers) > maxLayers {
		return errBeyond{fmt.Errorf("it has %d layers, more than the limit of %d", len(m.Layers), maxLayers)}
	}
	var total int64
	for _, layer := range m.Layers {
		if !layer.MediaType.IsLayer() || !layer.MediaType.IsDistributable() {
			return fmt.Errorf("its layer %s is of the type %.256q, which is no layer that belljar knows", layer.Digest, layer.MediaType)
		}
		if layer.Size < 0 || layer.Size > d.limits().bytes-total {
			return errBeyond{fmt.Errorf("its layers are larger than %s, the most that belljar pulls", sandbox.FormatSize(d.limits().bytes))}
		}
		total += layer.Size
	}
	return nil
}

// pullLayers stores an image's layers.
func (d *Disk) pullLayers(ctx context.Context, image fetched, bars *bars) error {
	has := d.hasFor(ctx, image.manifest.Config.Digest)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(pulledAtOnce)
	for _, about := range image.manifest.Layers {
		group.Go(func() error {
			if has(about.Digest, about.Size) {
				return nil
			}
			layer, err := image.LayerByDigest(about.Digest)
			if err != nil {
				return err
			}
			return d.put(ctx, about.Digest, about.Size, bars.reading(about, layer.Compressed))
		})
	}
	return group.Wait()
}

// registryTransport reaches registries: without TLS only on this machine, and never for
// longer than a registry is silent.
func registryTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
	t := remote.DefaultTransport.(*http.Transport).Clone()
	t.ResponseHeaderTimeout = registryPatience
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return patient{conn, registryPatience}, nil
	}
	return t
}

// patient is a connection whose other end may not be silent for long.
type patient struct {
	net.Conn
	patience time.Duration
}

func (p patient) Read(b []byte) (int, error) {
	if err := p.SetReadDeadline(time.Now().Add(p.patience)); err != nil {
		return 0, err
	}
	return p.Conn.Read(b)
}

// secure bounds what a registry can ask of this machine. Without TLS, go-containerregistry
// would send logins to private networks in clear; and what listens on this machine trusts
// it, so that no registry elsewhere may lead there.
type secure struct {
	next      http.RoundTripper
	here      bool // the image's registry is on this machine
	manifests *atomic.Int32
}

// newSecure is for one pull from a registry.
func newSecure(next http.RoundTripper, registry string) secure {
	u := url.URL{Host: registry}
	return secure{next, isLoopback(u.Hostname()), new(atomic.Int32)}
}

func (s secure) RoundTrip(r *http.Request) (*http.Response, error) {
	here := isLoopback(r.URL.Hostname())
	switch {
	case here && !s.here:
		return nil, fmt.Errorf("it leads to %s on this machine, but is on another", r.URL.Host)
	case !here && r.URL.Scheme != "https":
		return nil, fmt.Errorf("%s has no TLS, which belljar requires of registries on other machines", r.URL.Host)
	case !isManifest(r):
		return s.next.RoundTrip(r)
	case s.manifests.Add(1) > maxManifests:
		return nil, errBeyond{errors.New("its indexes are nested too deeply")}
	}
	response, err := s.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body, left := response.Body, int64(maxMetadata)
	response.Body = &closing{readerFunc(func(p []byte) (int, error) {
		n, err := body.Read(p)
		if left -= int64(n); left < 0 {
			return n, errBeyond{fmt.Errorf("its manifest is larger than %d MiB", maxMetadata>>20)}
		}
		return n, err
	}), body.Close}
	return response, nil
}

// isManifest reports whether a request is for a manifest or an index, also by redirections.
func isManifest(r *http.Request) bool {
	for r.Response != nil && r.Response.Request != nil {
		r = r.Response.Request
	}
	return path.Base(path.Dir(r.URL.Path)) == "manifests"
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// status is the HTTP status of a registry's refusal, or 0.
func status(err error) int {
	if refusal, ok := errors.AsType[*transport.Error](err); ok {
		return refusal.StatusCode
	}
	return 0
}
