package config

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// basic is without what only engine.kind kubernetes has.
func basic(e Engine) Engine {
	e.Kubernetes = Kubernetes{}
	return e
}

func TestEngineKubernetes(t *testing.T) {
	c, err := loadNamed(t, `engine:
  kind: kubernetes
  kubernetes:
    kubeconfig: /etc/belljar/kubeconfig
    context: me@there
    namespace: sandboxes
    image: registry.example.com/belljar:1
    pull: always
    start_timeout: 30s
    node_selector: [kubernetes.io/arch=amd64]
    tolerations: ["only=sandboxes:NoSchedule", gpu]
    labels: [team=a]
    priority_class: low
    pull_secrets: [key-1]
    seccomp: profiles/belljar.json
    user_namespaces: true
`, Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := Kubernetes{
		"/etc/belljar/kubeconfig", "me@there", "sandboxes", "registry.example.com/belljar:1", "always", 30 * time.Second, []string{"kubernetes.io/arch=amd64"},
		[]string{"only=sandboxes:NoSchedule", "gpu"}, []string{"team=a"}, "low", []string{"key-1"}, "profiles/belljar.json", true,
	}
	if c.Engine.Kind != EngineKubernetes || !reflect.DeepEqual(c.Engine.Kubernetes, want) {
		t.Errorf("%+v", c.Engine)
	}
	c, err = loadNamed(t, "", Options{Env: []string{"BELLJAR_ENGINE_KUBERNETES_NAMESPACE=mine", "BELLJAR_ENGINE_KUBERNETES_LABELS=[a=b]"}})
	if err != nil || c.Engine.Kubernetes.Namespace != "mine" || !slices.Equal(c.Engine.Kubernetes.Labels, []string{"a=b"}) {
		t.Errorf("%+v, %v", c, err)
	}
	const noNamespace = "the value is not a namespace (write a name of at most 63 characters, without dots, such as belljar-sandboxes)"
	longName := "{namespace: " + strings.Repeat("a", 64) + "}"
	for text, want := range map[string]string{
		"{namespace: Mine}":          "named.yaml:1: engine.kubernetes.namespace: " + noNamespace,
		"{namespace: a.b}":           "named.yaml:1: engine.kubernetes.namespace: " + noNamespace,
		"{namespace: a-}":            "named.yaml:1: engine.kubernetes.namespace: " + noNamespace,
		longName:                     "named.yaml:1: engine.kubernetes.namespace: " + noNamespace,
		"{priority_class: Mine}":     "named.yaml:1: engine.kubernetes.priority_class: the value is not a name (write a name of Kubernetes, such as belljar-sandboxes)",
		"{labels: [a]}":              "named.yaml:1: engine.kubernetes.labels[0]: the value is not KEY=VALUE (write KEY=VALUE, such as kubernetes.io/arch=amd64)",
		"{tolerations: ['a:Never']}": "named.yaml:1: engine.kubernetes.tolerations[0]: the value is not a taint (write KEY=VALUE:EFFECT, such as sandboxes=only:NoSchedule)",
		"{namespaces: a}":            "named.yaml:1: engine.kubernetes.namespaces: unknown key (did you mean engine.kubernetes.namespace?)",
		"{kubeconfig: here}":         "named.yaml:1: engine.kubernetes.kubeconfig: the value is not absolute (write the whole path)",
	} {
		if _, err := loadNamed(t, "engine: {kubernetes: "+text+"}", Options{}); errorText(err) != want {
			t.Errorf("%s:\n got %v\nwant %s", text, err, want)
		}
	}
	if _, err := loadNamed(t, "serve: {replicas: {namespace: a.b}}", Options{}); errorText(err) != "named.yaml:1: serve.replicas.namespace: "+noNamespace {
		t.Error(err)
	}
	if _, err := loadNamed(t, "engine: {kubernetes: {namespace: "+strings.Repeat("a", 63)+", priority_class: a.b}}", Options{}); err != nil {
		t.Error(err)
	}
	if _, err := loadNamed(t, "profiles: {a: {engine: {kubernetes: {namespace: b}}}}", Options{}); err == nil {
		t.Error("a profile has a cluster of its own")
	}
}

func TestEngine(t *testing.T) {
	c, err := loadNamed(t, "engine: {kind: oci, runtime: /opt/crun, init: /opt/belljar}\nprofiles: {a: {engine: {runtime: runsc}}}", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if want := (Engine{Kind: EngineOCI, Runtime: "/opt/crun", Init: "/opt/belljar", Limits: LimitsRequired}); !reflect.DeepEqual(basic(c.Engine), want) {
		t.Errorf("%+v", c.Engine)
	}
	if a, b := c.Profiles["default"].Runtime, c.Profiles["a"].Runtime; a != "/opt/crun" || b != "runsc" {
		t.Errorf("runtimes %q, %q", a, b)
	}
	c, err = loadNamed(t, "", Options{Env: []string{"BELLJAR_ENGINE_KIND=docker", "BELLJAR_ENGINE_INIT=none"}})
	if err != nil || !reflect.DeepEqual(basic(c.Engine), Engine{Kind: EngineDocker, Init: NoInit, Limits: LimitsRequired}) {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err := loadNamed(t, "", Options{}); err != nil || !reflect.DeepEqual(basic(c.Engine), Engine{Kind: EngineAuto, Limits: LimitsRequired}) {
		t.Errorf("%+v, %v", c, err)
	}
	for text, want := range map[string]string{
		"{kind: podman}":    "named.yaml:1: engine.kind: the value is not valid (write one of auto, docker, oci, kubernetes)",
		"{runtime: ./crun}": "named.yaml:1: engine.runtime: the value is not a runtime (write its name in the engine, such as runsc, or for engine.kind oci its absolute path)",
		"{limits: none}":    "named.yaml:1: engine.limits: the value is not valid (write one of required, best-effort)",
		"{init: belljar}":   "named.yaml:1: engine.init: the value is not absolute (write the whole path of a belljar, or none)",
	} {
		if _, err := loadNamed(t, "engine: "+text, Options{}); errorText(err) != want {
			t.Errorf("%s:\n got %v\nwant %s", text, err, want)
		}
	}
}

// What the engine runs on this host, or in every container, is not for commands to write.
func TestEnginesProgramsAreFixed(t *testing.T) {
	dir := resolve(t.TempDir())
	for _, name := range []string{"crun", "runc", "init"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	c, err := loadNamed(t, "engine: {runtime: "+dir+"/crun, init: "+dir+"/init}\nprofiles: {a: {engine: {runtime: "+dir+"/runc}}}", Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"default", "a"} {
		if fixed := rulesOf(t, c, name).Fixed; !slices.Equal(fixed, []string{c.File, dir + "/crun", dir + "/init", dir + "/runc"}) {
			t.Errorf("%s: %q", name, fixed)
		}
	}
}
