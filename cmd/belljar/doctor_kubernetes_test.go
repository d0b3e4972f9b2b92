package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"belljar"
	"belljar/config"
	"belljar/sandbox"
	"belljar/sandbox/kubernetes"
)

// inCluster is a patient whose cluster's API server answers like that.
func inCluster(t *testing.T, answer http.HandlerFunc) *patient {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf("clusters: [{name: c, cluster: {server: %q}}]\ncontexts: [{name: x, context: {cluster: c, namespace: ns}}]\ncurrent-context: x\n", server.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	engine, err := kubernetes.Open(kubernetes.Config{File: file, InitImage: "belljar:1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { engine.Close() })
	one := sandbox.Defaults().Profile
	one.Image = "app"
	safe := one
	safe.Runtime = "gvisor"
	c := &config.Config{Profiles: map[string]sandbox.Profile{sandbox.DefaultProfile: one, "safe": safe}}
	return &patient{config: c, host: &belljar.Host{Engine: engine}}
}

func wantFinding(t *testing.T, what string, got finding, status verdict, texts ...string) {
	t.Helper()
	all := got.Text + "\n" + got.Fix
	for _, text := range texts {
		if got.Status != status || !strings.Contains(all, text) {
			t.Errorf("%s: %v %q (%q), want %v with %q", what, got.Status, got.Text, got.Fix, status, text)
		}
	}
}

func TestDoctorOfRights(t *testing.T) {
	p := inCluster(t, func(w http.ResponseWriter, r *http.Request) {
		var review struct {
			Spec struct {
				ResourceAttributes struct{ Namespace, Resource, Subresource, Verb string }
			}
		}
		json.NewDecoder(r.Body).Decode(&review)
		of := review.Spec.ResourceAttributes
		denied := of.Subresource == "attach" && of.Verb == "create" || of.Resource == "leases" && (of.Verb == "update" || of.Namespace == "replicas")
		json.NewEncoder(w).Encode(map[string]any{"status": map[string]any{"allowed": !denied}})
	})
	wantFinding(t, "of pods", checkRights(t.Context(), p), verdictFail, "this user may not create pods/attach, update leases", "role.yaml, in namespace ns")
	p = inCluster(t, func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		json.NewEncoder(w).Encode(map[string]any{"status": map[string]any{"allowed": !strings.Contains(string(text), `"replicas"`)}})
	})
	wantFinding(t, "all", checkRights(t.Context(), p), verdictOK, "all that belljar needs")
	p.config.Serve.Replicas.Enabled, p.config.Serve.Replicas.Namespace = true, "replicas"
	wantFinding(t, "of replicas", checkRights(t.Context(), p), verdictFail, "for serve.replicas, this user may not create leases, get leases, list leases", "belljar-replicas")
	p = inCluster(t, func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		json.NewEncoder(w).Encode(map[string]any{"status": map[string]any{"allowed": !strings.Contains(string(text), `"nodes"`)}})
	})
	wantFinding(t, "of nodes", checkRights(t.Context(), p), verdictWarn, "but not watch nodes", "ClusterRole belljar-nodes")
}

func TestDoctorOfAdmission(t *testing.T) {
	const quota = `pods "x" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2`
	const class = `pods "x" is forbidden: pod rejected: RuntimeClass "gvisor" not found`
	for name, c := range map[string]struct {
		refused func(pod string) string
		status  verdict
		want    []string
	}{
		"taken":    {func(string) string { return "" }, verdictOK, []string{"takes pods of profile default, safe"}},
		"a quota":  {func(string) string { return quota }, verdictWarn, []string{"profile default: ", "profile safe: ", "exceeded quota: q", "raise the namespace's ResourceQuota"}},
		"no class": {func(pod string) string { return map[bool]string{true: class}[strings.Contains(pod, `"gvisor"`)] }, verdictFail, []string{"profile safe: ", `"gvisor" not found`, "get runtimeclasses"}},
	} {
		p := inCluster(t, func(w http.ResponseWriter, r *http.Request) {
			pod, _ := io.ReadAll(r.Body)
			if r.URL.Query().Get("dryRun") != "All" {
				t.Errorf("%s: %s %s is no try", name, r.Method, r.URL)
			}
			if message := c.refused(string(pod)); message != "" {
				w.WriteHeader(http.StatusForbidden)
				json.NewEncoder(w).Encode(map[string]string{"message": message, "reason": "Forbidden"})
				return
			}
			w.Write(pod)
		})
		got := checkAdmission(t.Context(), p)
		wantFinding(t, name, got, c.status, c.want...)
		if name == "no class" && strings.Contains(got.Text, "profile default") {
			t.Errorf("the other profile is refused, too: %q", got.Text)
		}
	}
}

// Once a bug: the namespace took pods of a profile of which every command is refused.
func TestDoctorOfWhatPodsCannotHave(t *testing.T) {
	p := inCluster(t, func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) })
	p.config.Profiles["named"] = sandbox.Profile{Image: "app", User: sandbox.User{Name: "app"}}
	wantFinding(t, "all can", checkAdmission(t.Context(), p), verdictOK, "takes pods of profile default, named, safe")
	for want, change := range map[string]func(*sandbox.Profile){
		"root in a pod would be root":     func(p *sandbox.Profile) { p.User = sandbox.User{Name: sandbox.RootUser} },
		"may not run as root":             func(p *sandbox.Profile) { p.User.UID = 0 },
		"root file system":                func(p *sandbox.Profile) { p.Limits.Disk = 1 << 30 },
		`network "lan" does not exist`:    func(p *sandbox.Profile) { p.Network = "lan" },
		"sees no files of belljar's host": func(p *sandbox.Profile) { p.Mounts = []sandbox.Mount{{Source: "/srv", Target: "/srv"}} },
	} {
		bad := p.config.Profiles["safe"]
		change(&bad)
		p.config.Profiles["bad"] = bad
		got := checkAdmission(t.Context(), p)
		wantFinding(t, want, got, verdictFail, "profile bad: ", want)
		if strings.Contains(got.Text, "profile safe") {
			t.Errorf("%s: the others are refused, too: %q", want, got.Text)
		}
	}
	p.config.Profiles["bad"] = sandbox.Profile{Image: "app", User: sandbox.User{Name: "caller"}}
	want := map[bool]verdict{true: verdictFail, false: verdictOK}[os.Getuid() == 0]
	wantFinding(t, "the caller", checkAdmission(t.Context(), p), want, "profile")
}

// Once a bug: a connection that was refused, or had no way to go, was a NetworkPolicy that is enforced.
func TestDoctorInsideOfAPod(t *testing.T) {
	p := inCluster(t, http.NotFound)
	locked := kubernetes.Inside{Seccomp: true, Locked: true}
	for name, c := range map[string]struct {
		in              kubernetes.Inside
		err             error
		seccomp, policy verdict
		want            string // of the policy
	}{
		"enforced":  {kubernetes.Inside{Seccomp: true, Locked: true, Dropped: true, Network: "no answer"}, nil, verdictOK, verdictOK, "does not reach the API server: no answer"},
		"open":      {kubernetes.Inside{Seccomp: true, Locked: true, Reaches: true, Network: "open"}, nil, verdictOK, verdictWarn, "networkpolicy.yaml"},
		"refused":   {kubernetes.Inside{Seccomp: true, Locked: true, Network: "connection refused"}, nil, verdictOK, verdictSkip, `API server's service, and that ended with "connection refused"`},
		"no route":  {kubernetes.Inside{Seccomp: true, Locked: true, Network: "network is unreachable"}, nil, verdictOK, verdictSkip, "network is unreachable"},
		"nowhere":   {kubernetes.Inside{Seccomp: true, Locked: true, Network: "no address"}, nil, verdictOK, verdictSkip, "no address"},
		"gVisor":    {kubernetes.Inside{GVisor: true, Locked: true, Dropped: true}, nil, verdictOK, verdictOK, ""}, // once a bug: no filter
		"its root":  {kubernetes.Inside{GVisor: true, Dropped: true}, nil, verdictFail, verdictOK, ""},
		"no filter": {kubernetes.Inside{Locked: true, Dropped: true}, nil, verdictFail, verdictOK, ""},
		"rights":    {kubernetes.Inside{Seccomp: true, Dropped: true}, nil, verdictFail, verdictOK, ""},
		"no pod":    {locked, errors.New("no pod"), verdictFail, verdictFail, "no pod"},
	} {
		p.pod = func() (kubernetes.Inside, error) { return c.in, c.err }
		wantFinding(t, name, checkPodSeccomp(t.Context(), p), c.seccomp, "")
		wantFinding(t, name, checkNetworkPolicy(t.Context(), p), c.policy, c.want)
	}
}
