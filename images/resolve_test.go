package images

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/image"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"belljar/sandbox"
)

func TestResolveRefusesBadReferences(t *testing.T) {
	store := &Store{Client: &fakeEngine{}}
	for _, ref := range []string{"", " ", "Upper", "a b", "-x", "x:", "x@sha256:12", "x\x00y", "../etc", strings.Repeat("x", 1<<20)} {
		_, err := store.Resolve(t.Context(), ref, sandbox.PullMissing)
		wantCause(t, err, sandbox.CauseImage, `parsing image reference "`, "NAME:TAG")
		if len(err.Error()) > 2000 {
			t.Errorf("error of %d bytes", len(err.Error()))
		}
	}
	_, err := store.Resolve(t.Context(), "x", "sometimes")
	wantCause(t, err, sandbox.CauseInvalid, `"sometimes"`, "always, missing or never")
}

func TestResolveOfAbsentImages(t *testing.T) {
	id := "sha256:" + strings.Repeat("a", 64)
	for _, c := range []struct {
		ref  string
		pull sandbox.PullPolicy
		say  string
	}{
		{"alpine", sandbox.PullNever, "belljar images pull alpine:latest"},
		{Base, sandbox.PullNever, "belljar images build base"},
		{"belljar/debian", sandbox.PullAlways, "belljar images build debian"},
		{"belljar/other", "", "no registry has it"},
		{id, sandbox.PullAlways, "belljar images ls"},
	} {
		engine := &fakeEngine{}
		_, err := (&Store{Client: engine}).Resolve(t.Context(), c.ref, c.pull)
		wantCause(t, err, sandbox.CauseImage, c.say)
		if engine.pulled != nil {
			t.Errorf("%q was asked of a registry", c.ref)
		}
	}
}

func TestResolveBuildsBaseOnTheSpot(t *testing.T) {
	for _, pull := range []sandbox.PullPolicy{"", sandbox.PullMissing, sandbox.PullAlways} {
		engine := &fakeEngine{}
		got, err := (&Store{Client: engine}).Resolve(t.Context(), "belljar/base", pull)
		if err != nil {
			t.Fatal(err)
		}
		if got.ID != "sha256:made" || got.Reference != "belljar/base" || engine.pulled != nil {
			t.Errorf("pull %q: %+v, pulled %q", pull, got, engine.pulled)
		}
	}
}

func TestPullFailures(t *testing.T) {
	for _, c := range []struct {
		name   string
		engine *fakeEngine
		cause  sandbox.Cause
		say    string
	}{
		{"not found", &fakeEngine{answer: `{"errorDetail":{"code":404,"message":"x"},"error":"x"}`}, sandbox.CauseImage, "not in its registry"},
		{"unauthorised", &fakeEngine{answer: `{"errorDetail":{"code":401,"message":"x"},"error":"x"}`}, sandbox.CauseImage, "login"},
		{"refused", &fakeEngine{err: cerrdefs.ErrNotFound}, sandbox.CauseImage, "docker login docker.io"},
		{"in the stream", &fakeEngine{answer: `{"status":"Pulling"}{"errorDetail":{"message":"no \u001b[2Jroute"},"error":"x"}`}, sandbox.CauseImage, "no  [2Jroute"},
		{"broken stream", &fakeEngine{answer: `{"status":"Pulling"}{"sta`}, sandbox.CauseEngine, "is incomplete"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := (&Store{Client: c.engine}).Resolve(t.Context(), "alpine", sandbox.PullAlways)
			wantCause(t, err, c.cause, `"alpine:latest"`, c.say)
		})
	}
}

func TestEngineUnreachableIsNoImageError(t *testing.T) {
	for _, lost := range []error{&url.Error{Op: "Get", URL: "http://x", Err: errors.New("reset")}, context.Canceled} {
		store := &Store{Client: &fakeEngine{err: lost}}
		_, err := store.Resolve(t.Context(), "alpine", sandbox.PullMissing)
		wantCause(t, err, sandbox.CauseEngine)
		_, err = store.Resolve(t.Context(), "alpine", sandbox.PullAlways)
		wantCause(t, err, sandbox.CauseEngine)
		_, err = store.BuildBase(t.Context())
		wantCause(t, err, sandbox.CauseEngine)
		if _, err = store.List(t.Context()); !errors.Is(err, lost) {
			t.Error(err)
		}
	}
}

func TestAlwaysMissingNever(t *testing.T) {
	store, docker := realEngine(t)
	repository := localRegistry(t) + "/tools"
	ref := repository + ":1"
	removeAfter(t, docker, ref)

	_, err := store.Resolve(t.Context(), ref, sandbox.PullNever)
	wantCause(t, err, sandbox.CauseImage, "pull policy")
	_, err = store.Resolve(t.Context(), ref, sandbox.PullMissing)
	wantCause(t, err, sandbox.CauseImage, "not in its registry")

	firstDigest := push(t, ref, smallImage(t, "first"))
	first := mustResolve(t, store, ref, "")
	if first.Digest != firstDigest || first.Reference != ref {
		t.Errorf("%+v, want digest %s", first, firstDigest)
	}
	secondDigest := push(t, ref, smallImage(t, "second")) // the tag moves
	for _, pull := range []sandbox.PullPolicy{sandbox.PullMissing, sandbox.PullNever} {
		if got := mustResolve(t, store, ref, pull); got.ID != first.ID {
			t.Errorf("pull %q followed the tag to %s", pull, got.ID)
		}
	}
	second := mustResolve(t, store, ref, sandbox.PullAlways)
	if second.ID == first.ID || second.Digest != secondDigest {
		t.Errorf("always: %+v, want digest %s", second, secondDigest)
	}

	pinned := mustResolve(t, store, repository+"@"+firstDigest, sandbox.PullMissing)
	removeAfter(t, docker, repository+"@"+firstDigest)
	if pinned.ID != first.ID || pinned.Digest != firstDigest {
		t.Errorf("by digest: %+v, want ID %s", pinned, first.ID)
	}
	if byID := mustResolve(t, store, first.ID, sandbox.PullAlways); byID.ID != first.ID || byID.Digest != first.ID {
		t.Errorf("by ID: %+v", byID)
	}
	_, err = store.Resolve(t.Context(), repository+"@sha256:"+strings.Repeat("0", 64), "")
	wantCause(t, err, sandbox.CauseImage, "not in its registry")
}

func mustResolve(t *testing.T, store *Store, ref string, pull sandbox.PullPolicy) sandbox.Image {
	t.Helper()
	got, err := store.Resolve(t.Context(), ref, pull)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestPullFromNoRegistry(t *testing.T) {
	store, _ := realEngine(t)
	_, err := store.Resolve(t.Context(), "127.0.0.1:1/tools", "")
	wantCause(t, err, sandbox.CauseImage, "cannot be pulled", "network")
}

func TestHostileConfigurationIsRefused(t *testing.T) {
	store, docker := realEngine(t)
	host := localRegistry(t)
	for name, change := range map[string]func(*v1.ConfigFile){
		"windows": func(c *v1.ConfigFile) { c.OS = "windows" },
		"env":     func(c *v1.ConfigFile) { c.Config.Env = []string{"A\x1b=1"} },
		"volume":  func(c *v1.ConfigFile) { c.Config.Volumes = map[string]struct{}{"/proc/x": {}} },
	} {
		ref := host + "/" + name + ":1"
		removeAfter(t, docker, ref)
		push(t, ref, withConfig(t, smallImage(t, name), change))
		_, err := store.Resolve(t.Context(), ref, "")
		wantCause(t, err, sandbox.CauseImage, ref)
	}
	ref := host + "/fair:1"
	removeAfter(t, docker, ref)
	push(t, ref, withConfig(t, smallImage(t, "fair"), func(c *v1.ConfigFile) {
		c.Config.Env = []string{"PATH=/bin", "B=", "A=1=2"}
		c.Config.Volumes = map[string]struct{}{"/data/": {}, "/data": {}, "/a": {}}
	}))
	got := mustResolve(t, store, ref, "")
	if strings.Join(got.EnvNames, " ") != "A B PATH" || strings.Join(got.Volumes, " ") != "/a /data" {
		t.Errorf("%+v", got)
	}
}

func TestDigestThatWasAskedForIsChecked(t *testing.T) {
	want := "sha256:" + strings.Repeat("1", 64)
	other := "sha256:" + strings.Repeat("2", 64)
	engine := &fakeEngine{images: map[string]image.InspectResponse{
		"docker.io/library/x@" + want: {ID: "sha256:id", Os: "linux", RepoDigests: []string{"x@" + other, "y@" + want}},
	}}
	_, err := (&Store{Client: engine}).Resolve(t.Context(), "x@"+want, "")
	wantCause(t, err, sandbox.CauseImage, "another image")
}
