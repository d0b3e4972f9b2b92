package kubernetes

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"belljar/sandbox"
	"belljar/sandbox/internal/kube"

	"github.com/google/go-cmp/cmp"
)

func TestNoClaims(t *testing.T) {
	a, e := withAPI(t)
	if _, err := e.NewClaims(t.Context(), wantSpec(), 2); !errors.Is(err, ErrNoClaims) {
		t.Errorf("error %v", err)
	}
	if left := a.names("leases"); len(left) > 0 {
		t.Errorf("it made %v", left)
	}
}

// withClaims is an API server that has agent-sandbox. It keeps the last object of each kind that was asked for. Its pool has the
// sandboxes of list, and each claim is given one of that launch type.
func withClaims(t *testing.T, launch string) (e *Engine, made map[string]map[string]any, list *string) {
	t.Helper()
	a, e := withAPI(t)
	made, list = map[string]map[string]any{}, new(string)
	a.faulty(func(w http.ResponseWriter, r *http.Request) bool {
		path := strings.TrimPrefix(r.URL.Path, "/apis/extensions.agents.x-k8s.io/v1beta1")
		switch {
		case path == "" || r.Method == http.MethodDelete && path != r.URL.Path:
			fmt.Fprint(w, "{}")
		case r.Method == http.MethodPost && path != r.URL.Path:
			var o map[string]any
			json.NewDecoder(r.Body).Decode(&o)
			made[o["kind"].(string)] = o
			fmt.Fprint(w, `{"metadata": {"resourceVersion": "5"}}`)
		case r.URL.Query().Get("watch") != "" && path == "/namespaces/ns/sandboxclaims" && r.URL.Query().Get("resourceVersion") == "5":
			fmt.Fprint(w, `{"type": "MODIFIED", "object": {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}}
				{"type": "MODIFIED", "object": {"status": {"conditions": [{"type": "Ready", "status": "True"}], "sandbox": {"name": "s1"}}}}`)
		case strings.HasPrefix(path, "/namespaces/ns/sandboxwarmpools/"):
			fmt.Fprint(w, `{"status": {"selector": "pool=p", "readyReplicas": 2}}`)
		case path == "/apis/agents.x-k8s.io/v1beta1/namespaces/ns/sandboxes" && r.URL.Query().Get("labelSelector") == "pool=p":
			fmt.Fprintf(w, `{"items": [%s]}`, *list)
		case path == "/apis/agents.x-k8s.io/v1beta1/namespaces/ns/sandboxes/s1":
			fmt.Fprintf(w, `{"metadata": {"labels": {"agents.x-k8s.io/launch-type": %q}}}`, launch)
		default:
			return false
		}
		return true
	})
	return e, made, list
}

func newClaims(t *testing.T, e *Engine) *Claims {
	t.Helper()
	c, err := e.NewClaims(t.Context(), wantSpec(), 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	return c
}

// All objects go with the process's lease, and a pod that sleeps is locked down as belljar's.
func TestClaim(t *testing.T) {
	e, made, _ := withClaims(t, "warm")
	c := newClaims(t, e)
	claim, err := c.Take(t.Context())
	if err != nil || claim.Pod != "s1" {
		t.Fatalf("%+v, error %v", claim, err)
	}
	if err := c.Release(t.Context(), claim); err != nil {
		t.Error(err)
	}
	lease, err := e.leases.get(t.Context(), e.leases.own.name)
	if err != nil {
		t.Fatal(err)
	}
	owners := []any{map[string]any{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "name": lease.Metadata.Name, "uid": lease.Metadata.UID}}
	want := map[string]any{
		"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": "SandboxClaim",
		"metadata": map[string]any{"name": claim.name, "ownerReferences": owners},
		"spec":     map[string]any{"warmPoolRef": map[string]any{"name": c.name}},
	}
	if diff := cmp.Diff(want, made["SandboxClaim"]); diff != "" {
		t.Error(diff)
	}
	want["kind"], want["metadata"] = "SandboxWarmPool", map[string]any{"name": c.name, "ownerReferences": owners}
	want["spec"] = map[string]any{"replicas": 2.0, "sandboxTemplateRef": map[string]any{"name": c.name}}
	if diff := cmp.Diff(want, made["SandboxWarmPool"]); diff != "" {
		t.Error(diff)
	}
	var template struct {
		Spec struct{ PodTemplate struct{ Spec kube.PodSpec } }
	}
	text, _ := json.Marshal(made["SandboxTemplate"])
	if err := json.Unmarshal(text, &template); err != nil {
		t.Fatal(err)
	}
	got, pod := template.Spec.PodTemplate.Spec, e.pod(wantSpec(), "lease").Spec
	if strings.Contains(string(text), "belljar-init") || len(got.InitContainers) > 0 || len(got.Containers) != 1 || got.Containers[0].Stdin {
		t.Errorf("it has belljar's init: %s", text)
	}
	if diff := cmp.Diff(pod.SecurityContext, got.SecurityContext) + cmp.Diff(pod.Containers[0].SecurityContext, got.Containers[0].SecurityContext) +
		cmp.Diff(pod.Containers[0].Resources, got.Containers[0].Resources); diff != "" {
		t.Error(diff)
	}
}

func TestColdClaim(t *testing.T) {
	e, _, _ := withClaims(t, "cold")
	c := newClaims(t, e)
	claim, err := c.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Release(t.Context(), claim); err == nil || !strings.Contains(err.Error(), "no warm sandbox") {
		t.Errorf("error %v", err)
	}
}

// A pool is at rest when what it has is ready, as many as it is to have, and what it gave out is gone.
func TestClaimsAtRest(t *testing.T) {
	e, _, list := withClaims(t, "warm")
	c := newClaims(t, e)
	const ready, starting = `{"status": {"conditions": [{"type": "Ready", "status": "True"}]}}`, `{"status": {}}`
	for all, want := range map[string]bool{"": false, ready: false, ready + "," + starting: false, ready + "," + ready: true} {
		*list = all
		if rested, err := c.Rested(t.Context()); rested != want || err != nil {
			t.Errorf("with %s: %t, error %v", all, rested, err)
		}
	}
	made, err := e.make(t.Context(), e.pod(wantSpec(), "lease"), sandbox.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	*list, c.last = ready+","+ready, made.Metadata.Name
	if rested, err := c.Rested(t.Context()); rested || err != nil {
		t.Errorf("while the pod ends: %t, error %v", rested, err)
	}
}
