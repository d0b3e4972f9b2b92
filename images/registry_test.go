package images

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"belljar/sandbox"
)

func TestDiskAlwaysMissingNever(t *testing.T) {
	d := newDisk(t)
	repository := localRegistry(t) + "/tools"
	ref := repository + ":1"
	_, err := d.Resolve(t.Context(), ref, sandbox.PullNever)
	wantCause(t, err, sandbox.CauseImage, "pull policy")
	_, err = d.Resolve(t.Context(), ref, sandbox.PullMissing)
	wantCause(t, err, sandbox.CauseImage, "not in its registry", "docker login")

	firstDigest := push(t, ref, smallImage(t, "first"))
	first := mustPin(t, d, ref, "")
	if first.Digest != firstDigest || first.Reference != ref {
		t.Errorf("%+v, want digest %s", first, firstDigest)
	}
	secondDigest := push(t, ref, smallImage(t, "second")) // the tag moves
	for _, pull := range []sandbox.PullPolicy{sandbox.PullMissing, sandbox.PullNever} {
		if got := mustPin(t, d, ref, pull); got.ID != first.ID {
			t.Errorf("pull %q followed the tag to %s", pull, got.ID)
		}
	}
	second := mustPin(t, d, ref, sandbox.PullAlways)
	if second.ID == first.ID || second.Digest != secondDigest {
		t.Errorf("always: %+v, want digest %s", second, secondDigest)
	}
	for range 2 { // the old image is still here, and then it is pulled
		pinned := mustPin(t, d, repository+"@"+firstDigest, sandbox.PullMissing)
		if pinned.ID != first.ID || pinned.Digest != firstDigest {
			t.Errorf("by digest: %+v, want ID %s", pinned, first.ID)
		}
		if _, err := d.Prune(t.Context(), false); err != nil {
			t.Fatal(err)
		}
	}
	if byID := mustPin(t, d, first.ID, sandbox.PullAlways); byID.ID != first.ID || byID.Digest != first.ID {
		t.Errorf("by ID: %+v", byID)
	}
	if got := diskNames(t, d); got != ref+" "+repository+"@"+firstDigest {
		t.Errorf("names %q", got)
	}
	_, err = d.Resolve(t.Context(), repository+"@sha256:"+strings.Repeat("0", 64), "")
	wantCause(t, err, sandbox.CauseImage, "not in its registry")
	got, err := os.ReadFile(filepath.Join(mustRoot(t, d, second.ID), "bin/sh"))
	if string(got) != "second" {
		t.Errorf("bin/sh is %q, %v", got, err)
	}
}

func mustPin(t *testing.T, images sandbox.Images, ref string, pull sandbox.PullPolicy) sandbox.Image {
	t.Helper()
	got, err := images.Resolve(t.Context(), ref, pull)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestDiskPullsFromNoRegistry(t *testing.T) {
	d := newDisk(t)
	_, err := d.Resolve(t.Context(), "127.0.0.1:1/tools", "")
	wantCause(t, err, sandbox.CauseImage, "cannot be pulled", "network")
	if left := inventory(t, d); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

// An index lists images for several platforms.
func TestDiskPullsForThisMachine(t *testing.T) {
	ref := localRegistry(t) + "/tools:1"
	index := v1.ImageIndex(empty.Index)
	for _, text := range []string{"linux/s390x", "linux/amd64", "linux/arm64"} {
		platform, err := v1.ParsePlatform(text)
		if err != nil {
			t.Fatal(err)
		}
		image := withConfig(t, smallImage(t, text), func(c *v1.ConfigFile) { c.OS, c.Architecture = platform.OS, platform.Architecture })
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
	}
	tag, err := name.NewTag(ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.WriteIndex(tag, index); err != nil {
		t.Fatal(err)
	}
	digest, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	d := newDisk(t)
	got := mustPin(t, d, ref, "")
	if got.Digest != digest.String() {
		t.Errorf("%+v, want the index's digest %s", got, digest)
	}
	if text, err := os.ReadFile(filepath.Join(mustRoot(t, d, got.ID), "bin/sh")); string(text) != "linux/amd64" {
		t.Errorf("the image of %q, %v", text, err)
	}
	if pinned := mustPin(t, d, tag.Context().Name()+"@"+digest.String(), sandbox.PullNever); pinned.ID != got.ID {
		t.Errorf("%+v", pinned)
	}
}

// An image that is gone is said once, also if it had one name more, which moved to another.
func TestDiskPrunesOnce(t *testing.T) {
	d, host := newDisk(t), localRegistry(t)
	kept, moved := host+"/kept:1", host+"/moved:1"
	push(t, kept, smallImage(t, "first"))
	push(t, moved, smallImage(t, "first"))
	mustPin(t, d, kept, "")
	mustPin(t, d, moved, "")
	push(t, moved, smallImage(t, "second"))
	mustPin(t, d, moved, sandbox.PullAlways)
	if got, err := d.Prune(t.Context(), true); err != nil || len(got.Names) != 2 || len(got.IDs) != 2 || got.IDs[0] == got.IDs[1] {
		t.Errorf("%+v, %v", got, err)
	}
}

// behind puts a handler before a registry that has an image, and returns its name.
func behind(t *testing.T, image v1.Image, handle func(registry http.Handler, w http.ResponseWriter, r *http.Request)) string {
	t.Helper()
	open := localRegistry(t)
	push(t, open+"/tools:1", image)
	to, err := url.Parse("http://" + open)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handle(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { forward(w, r, to) }), w, r)
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://") + "/tools:1"
}

func forward(w http.ResponseWriter, r *http.Request, to *url.URL) {
	r.URL.Scheme, r.URL.Host, r.RequestURI = to.Scheme, to.Host, ""
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer response.Body.Close()
	for key, values := range response.Header {
		w.Header()[key] = values
	}
	w.WriteHeader(response.StatusCode)
	_, _ = io.Copy(w, response.Body)
}

// withPassword is a registry that requires a login.
func withPassword(t *testing.T, image v1.Image) string {
	return behind(t, image, func(registry http.Handler, w http.ResponseWriter, r *http.Request) {
		if user, password, ok := r.BasicAuth(); !ok || user != "ann" || password != "secret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="tools"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		registry.ServeHTTP(w, r)
	})
}

// The logins are docker's.
func TestDiskPullsWithLogin(t *testing.T) {
	ref := withPassword(t, smallImage(t, "x"))
	config := t.TempDir()
	t.Setenv("DOCKER_CONFIG", config)
	t.Setenv("HOME", config) // podman's are there
	_, err := newDisk(t).Resolve(t.Context(), ref, "")
	wantCause(t, err, sandbox.CauseImage, "requires a login", "docker login "+strings.TrimSuffix(ref, "/tools:1"))

	login := fmt.Sprintf(`{"auths":{%q:{"auth":"YW5uOnNlY3JldA=="}}}`, strings.TrimSuffix(ref, "/tools:1")) // ann:secret
	if err := os.WriteFile(filepath.Join(config, "config.json"), []byte(login), 0o600); err != nil {
		t.Fatal(err)
	}
	mustPin(t, newDisk(t), ref, "")
	mustPin(t, &Disk{Dir: newDisk(t).Dir, Keychain: keys{&authn.Basic{Username: "ann", Password: "secret"}}}, ref, "")
}

// A Docker engine gets them for its pulls.
func TestPullsWithLogin(t *testing.T) {
	store, docker := realEngine(t)
	ref := withPassword(t, smallImage(t, "x"))
	removeAfter(t, docker, ref)
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	_, err := store.Resolve(t.Context(), ref, "")
	wantCause(t, err, sandbox.CauseImage, "docker login "+strings.TrimSuffix(ref, "/tools:1"))
	store.Keychain = keys{&authn.Basic{Username: "ann", Password: "wrong"}}
	_, err = store.Resolve(t.Context(), ref, "")
	wantCause(t, err, sandbox.CauseImage, "docker login")
	store.Keychain = keys{&authn.Basic{Username: "ann", Password: "secret"}}
	mustPin(t, store, ref, "")
}

type keys struct{ authn.Authenticator }

func (k keys) Resolve(authn.Resource) (authn.Authenticator, error) { return k.Authenticator, nil }
