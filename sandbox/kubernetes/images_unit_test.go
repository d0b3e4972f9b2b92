package kubernetes

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"belljar/internal/boxinit/wire"
	"belljar/sandbox"
	"belljar/sandbox/internal/kube"
	runners "belljar/sandbox/local"
)

// texts has inits answer what is asked of files with that text, and leave all else unanswered.
func texts(text string) func(r wire.Request) (frames []byte, ends bool) {
	return func(r wire.Request) (frames []byte, ends bool) {
		look, ok := wire.DecodeLook(r.Body)
		if r.Kind != wire.Look || !ok {
			return nil, false
		}
		for range look.Names {
			frames = wire.AppendFrame(frames, wire.Listed, r.ID, wire.AppendRecord(nil, nil, []byte(text)))
		}
		return wire.AppendFrame(frames, wire.Done, r.ID, wire.AppendUint32(nil, 0)), false
	}
}

// kubelet answers who watches a pod with the status that it gets, by the image of its main container.
func (a *api) kubelet(status func(image string) string) {
	a.faulty(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("watch") == "" {
			return false
		}
		_, name, _ := strings.Cut(r.URL.Query().Get("fieldSelector"), "=")
		a.set(r.URL.Path+"/"+name, func(o *object) {
			var spec kube.PodSpec
			text, _ := json.Marshal(o.Spec)
			json.Unmarshal(text, &spec)
			json.Unmarshal([]byte(status(spec.Containers[0].Image)), &o.Status)
		})
		return false
	})
}

// Once a bug: where no registry had an image's digest any more, a runner that keeps containers ready asked for that until it was restarted.
func TestDeadDigestIsForgotten(t *testing.T) {
	a, e := withAPI(t)
	a.inits = texts("1 0 0:1 / / ro - overlay overlay ro\n")
	var mu sync.Mutex
	var made []string
	looks := []string{"app@sha256:a", "app@sha256:b"}
	a.kubelet(func(image string) string {
		mu.Lock()
		defer mu.Unlock()
		if image != "app" {
			made = append(made, image)
			return `{"containerStatuses":[{"name":"sandbox","state":{"waiting":{"reason":"ErrImagePull","message":"manifest unknown"}}}]}`
		}
		id := looks[0]
		looks = looks[min(1, len(looks)-1):]
		return `{"containerStatuses":[{"name":"sandbox","imageID":"` + id + `","state":{"running":{}}}]}`
	})
	l := &runners.Local{Engine: e, Images: e, Profiles: map[string]sandbox.Profile{"default": {Image: "app", User: wantSpec().User, Pool: sandbox.PoolSize{Max: sandbox.NoPool}}}}
	l.Warm()
	defer l.Close()
	until(t, "the runner watches images", func() bool {
		e.known.mu.Lock()
		defer e.known.mu.Unlock()
		return len(e.known.watchers) == 1
	})
	for range 2 {
		x, err := l.Start(t.Context(), sandbox.Command{Script: "true"})
		if err != nil {
			t.Fatal(err)
		}
		if r, _ := x.Wait(); r.Cause != sandbox.CauseImage {
			t.Errorf("%+v", r)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(made, []string{"app@sha256:a", "app@sha256:b"}) {
		t.Errorf("made of %q", made)
	}
}

// Once a bug: with a start_timeout above ten minutes, the pod that looks at an image ended before it could run.
func TestLookOutlastsStartTimeout(t *testing.T) {
	a, e := withAPI(t, func(c *Config) { c.Start = 30 * time.Minute })
	var made []kube.Pod
	a.faulty(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/pods") {
			return false
		}
		var pod kube.Pod
		json.NewDecoder(r.Body).Decode(&pod)
		made = append(made, pod)
		refuse(w, http.StatusForbidden, "Forbidden")
		return true
	})
	_, resolving := e.Resolve(t.Context(), "app", sandbox.PullMissing)
	_, looking := e.LookInside(t.Context(), "", true)
	if resolving == nil || looking == nil || len(made) != 2 {
		t.Fatalf("%d pods, errors %v, %v", len(made), resolving, looking)
	}
	for _, pod := range made {
		if left := time.Until(deadlineOf(pod)); *pod.Spec.ActiveDeadlineSeconds < 40*60 || left < 39*time.Minute {
			t.Errorf("it may run for %d s, and is swept after %v", *pod.Spec.ActiveDeadlineSeconds, left)
		}
	}
}
