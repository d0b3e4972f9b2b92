package images

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/creack/pty"
	"github.com/distribution/reference"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"belljar/sandbox"
)

// edited is an image's manifest after a change.
func edited(t *testing.T, image v1.Image, change func(*v1.Manifest)) []byte {
	t.Helper()
	manifest, err := image.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	manifest = manifest.DeepCopy()
	change(manifest)
	content, err := json.Marshal(manifest)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// answer replaces what a registry says to requests whose paths contain a part.
func answer(part string, content []byte) func(http.Handler, http.ResponseWriter, *http.Request) {
	return func(registry http.Handler, w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, part) {
			registry.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", string(types.DockerManifestSchema2))
		_, _ = w.Write(content)
	}
}

// endless answers without an end.
func endless(part string) func(http.Handler, http.ResponseWriter, *http.Request) {
	return func(registry http.Handler, w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, part) {
			registry.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", string(types.DockerManifestSchema2))
		for zeros := make([]byte, 1<<20); ; {
			if _, err := w.Write(zeros); err != nil {
				return
			}
		}
	}
}

// nested answers with an index in an index and so on, and no image in the last.
func nested(t *testing.T, depth int) func(http.Handler, http.ResponseWriter, *http.Request) {
	t.Helper()
	const kind = types.OCIImageIndex
	all, last := map[string][]byte{}, []byte(`{"schemaVersion":2,"manifests":[]}`)
	for range depth {
		digest, size, err := v1.SHA256(bytes.NewReader(last))
		if err != nil {
			t.Fatal(err)
		}
		all[digest.String()] = last
		platform := &v1.Platform{OS: "linux", Architecture: runtime.GOARCH}
		if last, err = json.Marshal(v1.IndexManifest{SchemaVersion: 2, MediaType: kind, Manifests: []v1.Descriptor{{MediaType: kind, Digest: digest, Size: size, Platform: platform}}}); err != nil {
			t.Fatal(err)
		}
	}
	return func(registry http.Handler, w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.URL.Path, "/manifests/") {
			registry.ServeHTTP(w, r)
			return
		}
		content, ok := all[path.Base(r.URL.Path)]
		if !ok {
			content = last
		}
		w.Header().Set("Content-Type", string(kind))
		_, _ = w.Write(content)
	}
}

// A registry that lies about digests and sizes is noticed.
func TestDiskPullsNoLies(t *testing.T) {
	image := layered(t, members(t, shell(100_000)))
	manifest, err := image.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	layer, config := manifest.Layers[0], manifest.Config
	same := make([]byte, layer.Size) // another content of its size
	manifests := func(change func(*v1.Manifest)) func(http.Handler, http.ResponseWriter, *http.Request) {
		return answer("/manifests/", edited(t, image, change))
	}
	type handler = func(http.Handler, http.ResponseWriter, *http.Request)
	for name, c := range map[string]struct {
		handle handler
		say    string
	}{
		"layer":           {answer(layer.Digest.Hex, same), "error verifying"},
		"layer, short":    {answer(layer.Digest.Hex, same[1:]), "cannot be pulled"},
		"layer, long":     {answer(layer.Digest.Hex, append(same, 0)), "cannot be pulled"},
		"layer, endless":  {endless(layer.Digest.Hex), "cannot be pulled"},
		"layer, no size":  {manifests(func(m *v1.Manifest) { m.Layers[0].Size = 0 }), "cannot be pulled"},
		"layer, size":     {manifests(func(m *v1.Manifest) { m.Layers[0].Size++ }), "cannot be pulled"},
		"layer, huge":     {manifests(func(m *v1.Manifest) { m.Layers[0].Size = 1 << 62 }), "is too large"},
		"layer, negative": {manifests(func(m *v1.Manifest) { m.Layers[0].Size = -1 }), "is too large"},
		"layers, huge": {manifests(func(m *v1.Manifest) {
			m.Layers = repeat(v1.Descriptor{MediaType: layer.MediaType, Digest: layer.Digest, Size: 1 << 33}, 3)
		}), "is too large"},
		"layers, many":        {manifests(func(m *v1.Manifest) { m.Layers = repeat(layer, 10_000) }), "10000 layers"},
		"layers, none":        {manifests(func(m *v1.Manifest) { m.Layers = nil }), "its configuration lists 1"},
		"layer, twice":        {manifests(func(m *v1.Manifest) { m.Layers = repeat(layer, 2) }), "it has 2 layers"},
		"layer is foreign":    {manifests(func(m *v1.Manifest) { m.Layers[0].MediaType = types.DockerForeignLayer }), "no layer that belljar knows"},
		"layer is no layer":   {manifests(func(m *v1.Manifest) { m.Layers[0].MediaType = "text/\x1b[2J" }), "no layer that belljar knows"},
		"layer is inline":     {manifests(func(m *v1.Manifest) { m.Layers[0].Data = same }), "error verifying"},
		"configuration":       {answer(config.Digest.Hex, make([]byte, config.Size)), "error verifying"},
		"configuration, huge": {manifests(func(m *v1.Manifest) { m.Config.Size = 1 << 40 }), "is too large"},
		"configuration, more": {endless(config.Digest.Hex), "cannot be pulled"},
		"configuration, data": {manifests(func(m *v1.Manifest) { m.Config.Data = []byte("{}") }), "error verifying"},
		"configuration, none": {manifests(func(m *v1.Manifest) { m.Config = v1.Descriptor{} }), "cannot be pulled"},
		"manifest, endless":   {endless("/manifests/"), "its manifest is larger than 4 MiB"},
		"manifest, large":     {manifests(func(m *v1.Manifest) { m.Annotations = map[string]string{"a": strings.Repeat("x", 5<<20)} }), "its manifest is larger than 4 MiB"},
		"manifest, elsewhere": {func(registry http.Handler, w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "/manifests/") {
				http.Redirect(w, r, "/elsewhere", http.StatusFound)
				return
			}
			endless("/elsewhere")(registry, w, r)
		}, "its manifest is larger than 4 MiB"},
		"indexes without end": {nested(t, 100), "nested too deeply"},
		"manifest, no JSON":   {answer("/manifests/", []byte("\x1b[2J{")), "cannot be pulled"},
		"manifest, empty":     {answer("/manifests/", []byte("{}")), "cannot be pulled"},
		"of another layer":    {manifests(func(m *v1.Manifest) { m.Layers[0] = m.Config; m.Layers[0].MediaType = layer.MediaType }), "cannot be pulled"},
		"failure": {func(_ http.Handler, w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "\x1b[2J"+strings.Repeat("x", 1<<20), http.StatusTeapot)
		}, "cannot be pulled"},
		"redirection": {func(registry http.Handler, w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "/blobs/") {
				http.Redirect(w, r, "http://169.254.169.254/latest/meta-data", http.StatusFound)
				return
			}
			registry.ServeHTTP(w, r)
		}, "cannot be pulled"},
		"redirection to no TLS": {func(registry http.Handler, w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "/blobs/") {
				http.Redirect(w, r, "http://example.invalid/", http.StatusFound)
				return
			}
			registry.ServeHTTP(w, r)
		}, "has no TLS"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDisk(t)
			_, err := d.Resolve(t.Context(), behind(t, image, c.handle), "")
			wantCause(t, err, sandbox.CauseImage, c.say)
			if strings.Contains(err.Error(), "\x1b") || len(err.Error()) > 3000 {
				t.Errorf("%d bytes: %q", len(err.Error()), err)
			}
			if names := diskNames(t, d); names != "" {
				t.Errorf("names %q", names)
			}
			if _, err := d.Prune(t.Context(), false); err != nil {
				t.Error(err)
			}
			if left := inventory(t, d); len(left) != 0 {
				t.Errorf("left %v", left)
			}
		})
	}
	t.Run("digest", func(t *testing.T) {
		other := edited(t, image, func(m *v1.Manifest) { m.Annotations = map[string]string{"a": "b"} })
		ref := behind(t, image, answer("/manifests/", other))
		digest, err := image.Digest()
		if err != nil {
			t.Fatal(err)
		}
		_, err = newDisk(t).Resolve(t.Context(), strings.TrimSuffix(ref, ":1")+"@"+digest.String(), "")
		wantCause(t, err, sandbox.CauseImage, "does not match requested digest")
	})
	t.Run("the truth", func(t *testing.T) {
		mustPin(t, newDisk(t), behind(t, image, http.Handler.ServeHTTP), "")
	})
}

// The configuration says what the layers are when they are not compressed.
func TestDiskChecksLayersAgainstTheConfiguration(t *testing.T) {
	image := withConfig(t, layered(t, members(t, shell(1))), func(c *v1.ConfigFile) {
		c.RootFS.DiffIDs[0] = v1.Hash{Algorithm: "sha256", Hex: strings.Repeat("0", 64)}
	})
	d := newDisk(t)
	ref := localRegistry(t) + "/tools:1"
	push(t, ref, image)
	_, err := d.Resolve(t.Context(), ref, "")
	wantCause(t, err, sandbox.CauseImage, "but the configuration says sha256:000")
}

func TestDiskRefusesHostileConfigurations(t *testing.T) {
	host := localRegistry(t)
	for name, change := range map[string]func(*v1.ConfigFile){
		"windows": func(c *v1.ConfigFile) { c.OS = "windows" },
		"env":     func(c *v1.ConfigFile) { c.Config.Env = []string{"A\x1b=1"} },
		"volume":  func(c *v1.ConfigFile) { c.Config.Volumes = map[string]struct{}{"/proc/x": {}} },
	} {
		ref := host + "/" + name + ":1"
		push(t, ref, withConfig(t, smallImage(t, name), change))
		_, err := newDisk(t).Resolve(t.Context(), ref, "")
		wantCause(t, err, sandbox.CauseImage, ref)
	}
	push(t, host+"/fair:1", withConfig(t, smallImage(t, "fair"), func(c *v1.ConfigFile) {
		c.Config.Env = []string{"PATH=/bin", "B=", "A=1=2"}
		c.Config.Volumes = map[string]struct{}{"/data/": {}, "/data": {}, "/a": {}}
	}))
	got := mustPin(t, newDisk(t), host+"/fair:1", "")
	if strings.Join(got.EnvNames, " ") != "A B PATH" || strings.Join(got.Volumes, " ") != "/a /data" {
		t.Errorf("%+v", got)
	}
}

// A pull that is canceled is no fault of the image's, and leaves nothing.
func TestDiskPullIsCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	d := newDisk(t)
	ref := behind(t, smallImage(t, "x"), func(registry http.Handler, w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/blobs/") {
			cancel()
			<-r.Context().Done()
			return
		}
		registry.ServeHTTP(w, r)
	})
	_, err := d.Resolve(ctx, ref, "")
	if !errors.Is(err, context.Canceled) || sandbox.CauseOf(err) == sandbox.CauseImage {
		t.Errorf("%v: %s", err, sandbox.CauseOf(err))
	}
	if left := inventory(t, d); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

// Logins are not sent in clear, whatever address a registry has.
func TestRegistriesNeedTLS(t *testing.T) {
	for _, host := range []string{"10.0.0.1", "192.168.1.2", "example.com", "x.localhost", "[fe80::1]"} {
		_, err := newDisk(t).Resolve(t.Context(), host+":1/tools", "")
		if err == nil || !strings.Contains(err.Error(), "cannot be pulled") && !strings.Contains(err.Error(), "parsing image") {
			t.Errorf("%s: %v", host, err)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+host, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := newSecure(http.DefaultTransport, host).RoundTrip(r); err == nil || !strings.Contains(err.Error(), "has no TLS") { //nolint:bodyclose // there is none
			t.Errorf("%s: %v", host, err)
		}
	}
}

// A registry elsewhere leads nothing to this machine, with or without TLS, where others trust it.
func TestRegistriesElsewhereDoNotLeadHere(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer server.Close()
	for _, registry := range []string{"example.com", "localhost.example.com:5000", "10.0.0.1:80", "127.0.0.1", "localhost:5000", "[::1]:5000"} {
		here := registry == "127.0.0.1" || registry == "localhost:5000" || registry == "[::1]:5000"
		for _, to := range []string{server.URL + "/any", "https://localhost:1/any", "https://[::1]:1/any"} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, to, nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := newSecure(http.DefaultTransport, registry).RoundTrip(r)
			if err == nil {
				response.Body.Close()
			}
			if refused := err != nil && strings.Contains(err.Error(), "on this machine"); refused == here {
				t.Errorf("from %s to %s: %v", registry, to, err)
			}
		}
	}
	if asked != 3 {
		t.Errorf("asked %d times, want once for each registry on this machine", asked)
	}
}

// slow is a shelf whose registry sends something now and then.
type slow struct{ shelf }

func (slow) pull(ctx context.Context, _ reference.Named) error {
	<-ctx.Done()
	return fmt.Errorf("reading: %w", ctx.Err())
}

func (slow) find(context.Context, reference.Reference) (found, error) {
	return found{}, cerrdefs.ErrNotFound
}

// A registry that is slow does not hold a pull for ever.
func TestSlowPullsEnd(t *testing.T) {
	for _, policy := range []sandbox.PullPolicy{sandbox.PullAlways, sandbox.PullMissing} {
		synctest.Test(t, func(t *testing.T) {
			_, err := resolve(t.Context(), slow{}, "tools", policy)
			wantCause(t, err, sandbox.CauseImage, `"tools:latest" is not pulled after 2h`)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if _, err := resolve(ctx, slow{}, "tools", policy); !errors.Is(err, context.DeadlineExceeded) || sandbox.CauseOf(err) == sandbox.CauseImage {
				t.Errorf("%v", err)
			}
		})
	}
}

// A registry that falls silent does not hold a pull for ever.
func TestSilentConnectionsEnd(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	defer ours.Close()
	if _, err := (patient{ours, time.Millisecond}).Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

// Bars are for terminals only.
func TestPullsShowBarsOnTerminals(t *testing.T) {
	image := layered(t, members(t, shell(100_000)), members(t, tar.Header{Name: "su", Mode: 0o4755}))
	ref := behind(t, image, http.Handler.ServeHTTP)
	var said bytes.Buffer
	d := newDisk(t)
	d.Progress = &said
	mustPin(t, d, ref, "")
	if want := "Left out setuid and setgid bits of the image: 1, such as in \"su\"\n"; said.String() != want {
		t.Errorf("elsewhere %q", said.String())
	}
	ours, terminal, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	d = newDisk(t)
	d.Progress = terminal
	mustPin(t, d, ref, "")
	terminal.Close()
	shown, _ := io.ReadAll(ours) // EIO is its end
	for _, want := range []string{"Downloading", "Downloaded"} {
		if !strings.Contains(string(shown), want) {
			t.Errorf("no %q in %q", want, shown)
		}
	}
}

// Many that need an image at once fetch it one after another, and its files once.
func TestDiskPullsOnce(t *testing.T) {
	fetched := make(chan string, 1000)
	ref := behind(t, smallImage(t, "x"), func(registry http.Handler, w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") {
			fetched <- r.URL.Path
		}
		registry.ServeHTTP(w, r)
	})
	dir := newDisk(t).Dir
	errs := make(chan error)
	for range 8 {
		go func() {
			_, err := (&Disk{Dir: dir}).Resolve(t.Context(), ref, "")
			errs <- err
		}()
	}
	for range 8 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	close(fetched)
	counts := map[string]int{}
	for path := range fetched {
		counts[path]++
	}
	for path, count := range counts {
		if count > 1 {
			t.Errorf("%s was fetched %d times", path, count)
		}
	}
}
