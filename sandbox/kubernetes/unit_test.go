package kubernetes

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"belljar/internal/boxinit"
	"belljar/sandbox"
	"belljar/sandbox/internal/boxlink"
	"belljar/sandbox/internal/kube"

	"golang.org/x/sys/unix"
)

// behind is an engine of an API server that answers like that.
func behind(t *testing.T, answer http.HandlerFunc, change ...func(*Config)) *Engine {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "config")
	text := "clusters: [{name: c, cluster: {server: \"" + server.URL + "\"}}]\ncontexts: [{name: x, context: {cluster: c, namespace: ns}}]\ncurrent-context: x\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := Config{File: file, InitImage: "belljar:1"}
	for _, change := range change {
		change(&c)
	}
	e, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func wantSpec() sandbox.Spec {
	return sandbox.Spec{
		Command: "c1", Image: sandbox.Image{Reference: "app", ID: "app@sha256:1", Digest: "sha256:1", Volumes: []string{"/data"}}, User: sandbox.User{UID: 1000, GID: 50},
		Workdir: "/work", Network: "none", Tmpfs: []string{"/var/tmp"}, Deadline: time.Now().Add(time.Hour),
		Limits: sandbox.Limits{Memory: 128 << 20, CPUs: 0.5, Pids: 64, Tmp: 8 << 20, Files: 256},
	}
}

// No API server is needed to see that a pod is as locked down as PodSecurity's restricted asks, and more.
func TestPodIsLockedDown(t *testing.T) {
	e := behind(t, http.NotFound)
	e.config.Pods = Pods{
		NodeSelector: map[string]string{"a": "b"}, Labels: map[string]string{"team": "x", labelManaged: "others"}, PriorityClass: "low", PullSecrets: []string{"key"},
		Seccomp: "p.json", UserNamespaces: true,
	}
	pod := e.pod(wantSpec(), "lease")
	s := pod.Spec
	yes := func(b *bool) bool { return b != nil && *b }
	no := func(b *bool) bool { return b != nil && !*b }
	for what, so := range map[string]bool{
		"restarts":        s.RestartPolicy == "Never",
		"grace":           *s.TerminationGracePeriodSeconds == 1,
		"deadline":        *s.ActiveDeadlineSeconds > 3600 && *s.ActiveDeadlineSeconds <= 3640,
		"token":           no(s.AutomountServiceAccountToken),
		"service links":   no(s.EnableServiceLinks),
		"users":           no(s.HostUsers),
		"not root":        yes(s.SecurityContext.RunAsNonRoot) && *s.SecurityContext.RunAsUser == 1000 && *s.SecurityContext.RunAsGroup == 50,
		"seccomp":         *s.SecurityContext.SeccompProfile == kube.Seccomp{Type: "Localhost", LocalhostProfile: "p.json"},
		"names":           s.DNSPolicy == "None",
		"labels":          pod.Metadata.Labels[labelManaged] == managedBy && pod.Metadata.Labels["team"] == "x" && pod.Metadata.Labels[labelOwner] == "lease" && pod.Metadata.Labels[labelKind] == "command",
		"spread":          s.TopologySpreadConstraints[0].TopologyKey == "kubernetes.io/hostname" && s.TopologySpreadConstraints[0].WhenUnsatisfiable == "ScheduleAnyway" && s.TopologySpreadConstraints[0].LabelSelector.MatchLabels[labelManaged] == managedBy,
		"placement":       s.NodeSelector["a"] == "b" && s.NodeSelector["kubernetes.io/os"] == "linux" && s.PriorityClassName == "low" && s.ImagePullSecrets[0].Name == "key",
		"ends with us":    s.Containers[0].Stdin && s.Containers[0].StdinOnce,
		"command":         slices.Equal(s.Containers[0].Command, []string{"/dev/belljar-init", "frames", "1000", "0", "alone", "no-sockets", "files=256", "file-size=9437184"}),
		"image":           s.Containers[0].Image == "app@sha256:1" && s.Containers[0].ImagePullPolicy == "IfNotPresent",
		"its init's file": slices.Contains(s.Containers[0].VolumeMounts, kube.VolumeMount{Name: "init", MountPath: "/dev/belljar-init", SubPath: "belljar", ReadOnly: true}),
	} {
		if !so {
			t.Errorf("%s: %+v", what, s)
		}
	}
	for _, c := range append(slices.Clone(s.InitContainers), s.Containers...) {
		x := c.SecurityContext
		if !no(x.AllowPrivilegeEscalation) || !no(x.Privileged) || !yes(x.ReadOnlyRootFilesystem) || !slices.Equal(x.Capabilities.Drop, []string{"ALL"}) || len(x.Capabilities.Add) > 0 ||
			c.Resources.Limits["memory"] != "134217728" || c.Resources.Limits["cpu"] != "500m" || c.Resources.Limits["ephemeral-storage"] == "" {
			t.Errorf("%+v", c)
		}
	}
	var dirs []string
	for _, m := range s.Containers[0].VolumeMounts[1:] {
		i := slices.IndexFunc(s.Volumes, func(v kube.Volume) bool { return v.Name == m.Name })
		if d := s.Volumes[i].EmptyDir; d == nil || d.Medium != "Memory" || d.SizeLimit != "8388608" {
			t.Errorf("%+v", d)
		}
		dirs = append(dirs, m.MountPath)
	}
	if want := []string{"/data", "/tmp", "/var/tmp", "/work", "/dev/shm"}; !slices.Equal(dirs, want) {
		t.Errorf("%q", dirs)
	}
	spec := wantSpec()
	spec.Limits.Tmp = 107374182 // 0.1 GiB; once a bug: a full directory was larger than that, and its pod was evicted
	for _, v := range e.pod(spec, "lease").Spec.Volumes[1:] {
		if v.EmptyDir.SizeLimit != "107413504" {
			t.Errorf("%+v", v.EmptyDir)
		}
	}
	e.config.Pods.NodeSelector["kubernetes.io/os"] = "other"
	if got := e.pod(wantSpec(), "lease").Spec.NodeSelector["kubernetes.io/os"]; got != "other" {
		t.Errorf("the configured system is %q", got)
	}
	spec = wantSpec()
	spec.Session = "s"
	if c := e.pod(spec, "lease").Spec.Containers[0]; c.StdinOnce || c.Command[3] == "0" || !slices.Contains(c.Command, "lonely=180") {
		t.Errorf("a session's: %+v", c)
	}
	e.config.OwnSessions = true
	if c := e.pod(spec, "lease").Spec.Containers[0]; !c.StdinOnce {
		t.Errorf("one that ends with us: %+v", c)
	}
}

// An autoscaler removes no node with a pod of no controller, unless that says so: a pool kept each node that it was on.
func TestPoolKeepsNoNode(t *testing.T) {
	e := behind(t, http.NotFound)
	for _, test := range []struct{ session, pool, kind string }{{"", "default", "pool"}, {"s", "", "session"}, {"s", "default", "session"}, {"", "", "command"}} {
		spec := wantSpec()
		spec.Session, spec.Pool = test.session, test.pool
		pod := e.pod(spec, "lease")
		got, has := pod.Metadata.Annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"]
		if has != (test.kind == "pool") || has && got != "true" || pod.Metadata.Labels[labelKind] != test.kind {
			t.Errorf("%+v: %q of %+v", test, got, pod.Metadata)
		}
	}
}

func TestWhatPodsCannotHave(t *testing.T) {
	e := behind(t, http.NotFound)
	for want, change := range map[string]func(*sandbox.Spec){
		"root in a pod would be root on the node":        func(s *sandbox.Spec) { s.Root = true },
		"commands may not run as root":                   func(s *sandbox.Spec) { s.User.UID = 0 },
		"what is written to a container's root file":     func(s *sandbox.Spec) { s.Limits.Disk = 1 },
		`network "bridge" does not exist`:                func(s *sandbox.Spec) { s.Network = "bridge" },
		`mount "/srv": a pod sees no files of belljar's`: func(s *sandbox.Spec) { s.Mounts = []sandbox.Mount{{Source: "/srv", Target: "/work/srv"}} },
	} {
		spec := wantSpec()
		change(&spec)
		if _, err := e.Create(t.Context(), spec); sandbox.CauseOf(err) != sandbox.CauseInvalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// What Kubernetes says is what belljar says: a cause of its own for what passes, what never can be, and what the cluster forbids. Once a
// bug: what belljar does not know was told as a command's that breaks a LimitRange.
func TestRefusedRequests(t *testing.T) {
	for name, c := range map[string]struct {
		code            int
		reason, message string
		want            sandbox.Cause
		tries           int
	}{
		"quota":         {403, "Forbidden", `pods "x" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2`, sandbox.CauseBusy, 1},
		"never fits":    {403, "Forbidden", `pods "x" is forbidden: exceeded quota: q, requested: limits.memory=134217728, used: limits.memory=0, limited: limits.memory=64Mi`, sandbox.CauseInvalid, 1},
		"new quota":     {403, "Forbidden", `pods "x" is forbidden: status unknown for quota: q, resources: pods`, sandbox.CauseBusy, 3},
		"two at once":   {409, "Conflict", `Operation cannot be fulfilled on resourcequotas "q": the object has been modified`, sandbox.CauseBusy, 3},
		"quota's field": {403, "Forbidden", `pods "x" is forbidden: failed quota: q: must specify requests.nvidia.com/gpu for: sandbox`, sandbox.CauseEngine, 1},
		"limit range":   {403, "Forbidden", `pods "x" is forbidden: maximum memory usage per Container is 64Mi, but limit is 128Mi`, sandbox.CauseInvalid, 1},
		"ratio":         {403, "Forbidden", `pods "x" is forbidden: cpu max limit to request ratio per Container is 4, but provided ratio is 10.000000`, sandbox.CauseInvalid, 1},
		"no priority":   {403, "Forbidden", `pods "x" is forbidden: no PriorityClass with name low was found`, sandbox.CauseInvalid, 1},
		"no runtime":    {403, "Forbidden", `pods "x" is forbidden: pod rejected: RuntimeClass "gvisor" not found`, sandbox.CauseInvalid, 1},
		"new namespace": {403, "Forbidden", `pods "x" is forbidden: error looking up service account ns/default: serviceaccount "default" not found`, sandbox.CauseBusy, 3},
		"just started":  {403, "Forbidden", `pods "x" is forbidden: not yet ready to handle request`, sandbox.CauseBusy, 3},
		"terminating":   {403, "Forbidden", `pods "x" is forbidden: unable to create new content in namespace ns because it is being terminated`, sandbox.CauseEngine, 1},
		"no namespace":  {404, "NotFound", `namespaces "ns" not found`, sandbox.CauseEngine, 1},
		"OpenShift":     {403, "Forbidden", `pods "x" is forbidden: unable to validate against any security context constraint: [provider "anyuid": Forbidden: not usable by user or serviceaccount, provider restricted-v2: .spec.securityContext.runAsUser: Invalid value: 65534: must be in the ranges: [1000680000, 1000689999]]`, sandbox.CauseEngine, 1},
		"node selector": {403, "Forbidden", `pods "x" is forbidden: pod node label selector conflicts with its namespace node label selector`, sandbox.CauseEngine, 1},
		"webhook":       {400, "BadRequest", `admission webhook "w.example.com" denied the request: no`, sandbox.CauseEngine, 1},
		"policy":        {422, "Invalid", `pods "x" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no`, sandbox.CauseEngine, 1},
		"rights":        {403, "Forbidden", `pods is forbidden: User "u" cannot create resource "pods"`, sandbox.CauseEngine, 1},
		"PodSecurity":   {403, "Forbidden", `pods "x" is forbidden: violates PodSecurity "restricted:latest"`, sandbox.CauseEngine, 1},
		"overload":      {429, "TooManyRequests", "too many requests", sandbox.CauseBusy, 1},
		"no such":       {422, "Invalid", "runtimeClassName: not found", sandbox.CauseInvalid, 1},
		"ID in use":     {409, "AlreadyExists", "exists", sandbox.CauseInvalid, 1},
		"server error":  {500, "InternalError", "etcd", sandbox.CauseEngine, 1},
	} {
		tries := 0
		e := behind(t, func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasSuffix(r.URL.Path, "/pods") {
				io.WriteString(w, `{"metadata":{"name":"l","uid":"u"}}`)
				return
			}
			tries++
			w.WriteHeader(c.code)
			json.NewEncoder(w).Encode(map[string]string{"message": c.message, "reason": c.reason})
		})
		_, err := e.Create(t.Context(), wantSpec())
		var is *sandbox.Error
		if !errors.As(err, &is) || is.Cause != c.want || is.Hint == "" || (c.want == sandbox.CauseBusy) != (is.RetryAfter > 0) {
			t.Errorf("%s: %+v", name, err)
		}
		if c.reason != reasonExists && !strings.Contains(err.Error(), c.message) {
			t.Errorf("%s: it does not say %q: %v", name, c.message, err)
		}
		if tries != c.tries {
			t.Errorf("%s: %d requests", name, tries)
		}
	}
}

func TestQuantities(t *testing.T) {
	for text, want := range map[string]float64{"2": 2, "100m": 0.1, "1500k": 1.5e6, "1Ki": 1024, "1.5Gi": 1.5 * (1 << 30), "3M": 3e6, "7n": 7e-9} {
		if got, err := quantity(text); err != nil || math.Abs(got-want) > want/1e9 {
			t.Errorf("%s: %v, error %v", text, got, err)
		}
	}
	for words, want := range map[string]bool{
		"exceeded quota: q, requested: limits.cpu=1,limits.memory=1Gi, used: limits.cpu=0,limits.memory=0, limited: limits.cpu=500m,limits.memory=2Gi": true,
		"exceeded quota: q, requested: limits.cpu=1, used: limits.cpu=1, limited: limits.cpu=1":                                                        false,
		"exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0":                                                                          true,
		"exceeded quota": false,
		"exceeded quota: q, requested: a, used, limited": false,
	} {
		if got := neverFits(words); got != want {
			t.Errorf("%s: %v", words, got)
		}
	}
}

func status(text string) *kube.Pod {
	var pod kube.Pod
	if err := json.Unmarshal([]byte(text), &pod); err != nil {
		panic(err)
	}
	return &pod
}

func TestWhyAPodDoesNotRun(t *testing.T) {
	spec := wantSpec()
	for text, want := range map[string]sandbox.Cause{
		`{"status":{"phase":"Pending"}}`: "",
		`{"status":{"containerStatuses":[{"name":"sandbox","state":{"waiting":{"reason":"PodInitializing"}}}]}}`:                                                                                      "",
		`{"status":{"containerStatuses":[{"name":"sandbox","state":{"waiting":{"reason":"ImagePullBackOff","message":"no such image"}}}]}}`:                                                           sandbox.CauseImage,
		`{"status":{"containerStatuses":[{"name":"sandbox","state":{"waiting":{"reason":"ErrImageNeverPull"}}}]}}`:                                                                                    sandbox.CauseImage,
		`{"status":{"containerStatuses":[{"name":"sandbox","state":{"waiting":{"reason":"CreateContainerConfigError"}}}]}}`:                                                                           "",
		`{"status":{"initContainerStatuses":[{"name":"init","state":{"waiting":{"reason":"ErrImagePull"}}}]}}`:                                                                                        sandbox.CauseEngine,
		`{"status":{"initContainerStatuses":[{"name":"init","state":{"terminated":{"exitCode":2,"reason":"Error"}}}]}}`:                                                                               sandbox.CauseEngine,
		`{"status":{"initContainerStatuses":[{"name":"init","state":{"terminated":{"exitCode":0,"reason":"Completed"}}}]}}`:                                                                           "",
		`{"status":{"containerStatuses":[{"name":"sandbox","state":{"terminated":{"exitCode":128,"reason":"StartError","message":"exec: no such file"}}}]}}`:                                          sandbox.CauseEngine,
		`{"status":{"containerStatuses":[{"name":"sandbox","state":{"terminated":{"exitCode":128,"reason":"StartError","message":"error mounting \"x\" to rootfs at \"/tmp\": not a directory"}}}]}}`: sandbox.CauseImage,
		`{"status":{"phase":"Failed","reason":"Evicted","message":"The node was low on resource"}}`:                                                                                                   sandbox.CauseEngineLost,
		`{"status":{"phase":"Failed","reason":"OutOfcpu","message":"Node didn't have enough resource: cpu"}}`:                                                                                         sandbox.CauseEngineLost,
		`{"status":{"phase":"Failed","reason":"Evicted","initContainerStatuses":[{"name":"init","state":{"terminated":{"exitCode":137}}}]}}`:                                                          sandbox.CauseEngineLost,
		`{"status":{"phase":"Failed"}}`: sandbox.CauseEngine,
		`{"status":{"phase":"Failed","containerStatuses":[{"name":"sandbox","state":{"terminated":{"exitCode":137,"reason":"ContainerStatusUnknown"}}}]}}`:                                    sandbox.CauseEngineLost,
		`{"status":{"initContainerStatuses":[{"name":"init","state":{"terminated":{"exitCode":137,"reason":"ContainerStatusUnknown","message":"gone"}}}]}}`:                                   sandbox.CauseEngineLost,
		`{"status":{"containerStatuses":[{"name":"sandbox","state":{"waiting":{"reason":"CreateContainerError","message":"mount callback failed on /x: input/output error"}}}]}}`:             "",
		`{"status":{"containerStatuses":[{"name":"sandbox","state":{"waiting":{"reason":"ErrImagePull","message":"pull QPS exceeded"}}}]}}`:                                                   "",
		`{"status":{"containerStatuses":[{"name":"sandbox","state":{"waiting":{"reason":"ImagePullBackOff","message":"Back-off pulling image \"app\": ErrImagePull: pull QPS exceeded"}}}]}}`: "",
		`{"status":{"initContainerStatuses":[{"name":"init","state":{"waiting":{"reason":"ErrImagePull","message":"pull QPS exceeded"}}}]}}`:                                                  "",
		`{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"},"status":{"phase":"Pending"}}`:                                                                                              sandbox.CauseEngineLost,
	} {
		err, yes := startError(status(text), spec)
		if yes != (want != "") || yes && sandbox.CauseOf(err) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
	for text, want := range map[string]string{
		`{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"},"status":{"conditions":[{"type":"DisruptionTarget","status":"True","reason":"PreemptionByScheduler","message":"preempting"}]}}`: "PreemptionByScheduler: preempting",
		`{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"},"status":{}}`: "another program deleted the pod",
		`{"status":{"phase":"Failed","reason":"Evicted","message":"low","containerStatuses":[{"name":"sandbox","state":{"terminated":{"exitCode":137,"reason":"ContainerStatusUnknown"}}}]}}`: "Evicted: low",
	} {
		if err, _ := startError(status(text), spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	// Once a bug: belljar's own image was to be another one.
	for _, text := range []string{
		`{"status":{"containerStatuses":[{"name":"sandbox","state":{"terminated":{"exitCode":137,"reason":"OOMKilled"}}}]}}`,
		`{"status":{"containerStatuses":[{"name":"sandbox","state":{"terminated":{"exitCode":137,"reason":"Error"}}}]}}`,
		`{"status":{"containerStatuses":[{"name":"sandbox","state":{"terminated":{"exitCode":128,"reason":"StartError","message":"runc create failed: container init was OOM-killed (memory limit too low?)"}}}]}}`,
		`{"status":{"initContainerStatuses":[{"name":"init","state":{"terminated":{"exitCode":137,"reason":"OOMKilled"}}}]}}`,
	} {
		if err, _ := startError(status(text), spec); sandbox.CauseOf(err) != sandbox.CauseEngine || !strings.HasSuffix(err.Error(), "(raise limits.memory)") {
			t.Errorf("%s: %v", text, err)
		}
	}
	// Once a bug: what another program added was taken for belljar's own.
	for text, want := range map[string]string{
		`{"metadata":{"namespace":"ns"},"status":{"initContainerStatuses":[{"name":"init","state":{"terminated":{"exitCode":0}}},{"name":"mesh","state":{"terminated":{"exitCode":1,"reason":"Error"}}}]}}`: `init container "mesh", which belljar did not ask for, ended: exit status 1: Error (look for an admission webhook that adds init containers, and leave out namespace ns)`,
		`{"metadata":{"namespace":"ns"},"status":{"initContainerStatuses":[{"name":"mesh","state":{"waiting":{"reason":"ErrImagePull","message":"no"}}}]}}`:                                                 `getting the image of init container "mesh", which belljar did not ask for: ErrImagePull: no (look for an admission webhook`,
		`{"metadata":{"namespace":"ns"},"status":{"initContainerStatuses":[{"name":"mesh","state":{"terminated":{"exitCode":137,"reason":"OOMKilled"}}}]}}`:                                                 `init container "mesh", which belljar did not ask for, ended: exit status 137: OOMKilled (look`,
	} {
		if err, _ := startError(status(text), spec); sandbox.CauseOf(err) != sandbox.CauseEngine || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	err := lateError(status(`{"status":{"conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"0/1 nodes"}]}}`), time.Minute)
	if sandbox.CauseOf(err) != sandbox.CauseBusy || !strings.Contains(err.Error(), "Unschedulable: 0/1 nodes") {
		t.Error(err)
	}
	for _, container := range []string{"containerStatuses", "initContainerStatuses"} {
		err := lateError(status(`{"status":{"`+container+`":[{"name":"x","state":{"waiting":{"reason":"ImagePullBackOff","message":"Back-off: ErrImagePull: pull QPS exceeded"}}}]}}`), time.Minute)
		if is, _ := errors.AsType[*sandbox.Error](err); is.Cause != sandbox.CauseBusy || is.RetryAfter == 0 || !strings.Contains(err.Error(), "as many images as it may") {
			t.Errorf("%s: %v", container, err)
		}
	}
	for _, pod := range []*kube.Pod{nil, status(`{}`), status(`{"status":{"containerStatuses":[{"name":"sandbox","state":{"waiting":{"reason":"ContainerCreating"}}}]}}`)} {
		if err := lateError(pod, time.Minute); sandbox.CauseOf(err) != sandbox.CauseEngine {
			t.Error(err)
		}
	}
	const creating = `"status":{"conditions":[{"type":"PodReadyToStartContainers","status":"False"}],"containerStatuses":[{"name":"sandbox","state":{"waiting":{"reason":"ContainerCreating"}}}]}}`
	for text, want := range map[string]string{
		`{"metadata":{"namespace":"ns"},` + creating:                            "its node gave it no sandbox, which takes its volumes, network and runtime (see why: kubectl get events -n ns)",
		`{"metadata":{"namespace":"ns"},"spec":{"hostUsers":false},` + creating: "set engine.kubernetes.user_namespaces to false",
	} {
		if err := lateError(status(text), time.Minute); !strings.Contains(err.Error(), want) {
			t.Error(err)
		}
	}
}

// Who asks for user namespaces gets them or an error, also where the API server or a webhook leaves them out.
func TestUserNamespaces(t *testing.T) {
	const hosts, own = "         0          0 4294967295\n", "         0      65536      65536\n"
	b := newBox(behind(t, http.NotFound), record{})
	defer b.Close()
	for uidMap, want := range map[string]bool{hosts: false, own: true, "": false} {
		if b.engine.config.Pods.UserNamespaces = false; b.judge("", uidMap) != nil {
			t.Errorf("%q is refused", uidMap)
		}
		if b.engine.config.Pods.UserNamespaces = true; (b.judge("", uidMap) == nil) != want {
			t.Errorf("%q is taken for one: %t", uidMap, !want)
		}
	}
}

func TestHowAPodEnded(t *testing.T) {
	for text, want := range map[string]fate{
		`{"status":{"phase":"Running"}}`: {},
		`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"False"}],"containerStatuses":[{"name":"sandbox","state":{"running":{}}}]}}`:                                                                                                             {noNode: true},
		`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"False"},{"type":"ContainersReady","status":"True"}],"containerStatuses":[{"name":"sandbox","state":{"running":{}}}]}}`:                                                                  {noNode: true},
		`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"False"},{"type":"ContainersReady","status":"False"}],"containerStatuses":[{"name":"sandbox","state":{"running":{}}}]}}`:                                                                 {},
		`{"spec":{"readinessGates":[{"conditionType":"example.com/mesh"}]},"status":{"phase":"Running","conditions":[{"type":"Ready","status":"False"},{"type":"ContainersReady","status":"True"}],"containerStatuses":[{"name":"sandbox","state":{"running":{}}}]}}`: {},
		`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}],"containerStatuses":[{"name":"sandbox","state":{"running":{}}}]}}`:                                                                                                              {},
		`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"False"}],"containerStatuses":[{"name":"sandbox","state":{"terminated":{"exitCode":0}}}]}}`:                                                                                              {known: true, ended: true},
		`{"status":{"phase":"Failed","containerStatuses":[{"name":"sandbox","state":{"terminated":{"exitCode":137,"reason":"OOMKilled"}}}]}}`:                                                                                                                         {known: true, oom: true},
		`{"status":{"phase":"Failed","reason":"DeadlineExceeded","message":"Pod was active too long","containerStatuses":[{"name":"sandbox","state":{"terminated":{"exitCode":137}}}]}}`:                                                                              {known: true, reason: "DeadlineExceeded: Pod was active too long"},
		`{"status":{"phase":"Succeeded","containerStatuses":[{"name":"sandbox","state":{"terminated":{"exitCode":0,"reason":"OOMKilled"}}}]}}`:                                                                                                                        {known: true, ended: true},
		`{"status":{"phase":"Failed","reason":"Evicted","message":"low","containerStatuses":[{"name":"sandbox","state":{"terminated":{"exitCode":137,"reason":"OOMKilled"}}}]}}`:                                                                                      {known: true, reason: "Evicted: low"},
		`{"status":{"conditions":[{"type":"DisruptionTarget","status":"True","reason":"DeletionByTaintManager"}],"containerStatuses":[{"name":"sandbox","state":{"terminated":{"exitCode":137,"reason":"OOMKilled"}}}]}}`:                                             {known: true, reason: "DeletionByTaintManager"},
		`{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"},"status":{"containerStatuses":[{"name":"sandbox","state":{"terminated":{"exitCode":137,"reason":"OOMKilled"}}}]}}`:                                                                                  {known: true, reason: "another program deleted the pod"},
		`{"status":{"phase":"Failed","reason":"Evicted","message":"low on\nresource"}}`:                                                                                                                                                                               {known: true, reason: "Evicted: low on resource"},
		`{"status":{"conditions":[{"type":"DisruptionTarget","status":"True","reason":"EvictionByEvictionAPI","message":"evicted"}]}}`:                                                                                                                                {known: true, reason: "EvictionByEvictionAPI: evicted"},
		`{"status":{"phase":"Succeeded","containerStatuses":[{"name":"sandbox","state":{"terminated":{"exitCode":0,"reason":"Completed"}}}]}}`:                                                                                                                        {known: true, ended: true},
		`{"status":{"phase":"Failed","containerStatuses":[{"name":"sandbox","state":{"terminated":{"exitCode":2,"reason":"Error"}}}]}}`:                                                                                                                               {known: true, reason: "the container ended: Error, exit status 2"},
		`{"status":{"phase":"Failed","containerStatuses":[{"name":"sandbox","state":{"terminated":{"exitCode":137,"reason":"Error"}}}]}}`:                                                                                                                             {known: true, memory: true, reason: "the container ended: Error, exit status 137, as where memory ran out"},
		`{"status":{"phase":"Failed","containerStatuses":[{"name":"sandbox","state":{"terminated":{"exitCode":137,"reason":"ContainerStatusUnknown"}}}]}}`:                                                                                                            {known: true, reason: "the container ended: ContainerStatusUnknown, exit status 137"},
		`{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"},"status":{"phase":"Running"}}`:                                                                                                                                                                      {known: true, reason: "another program deleted the pod"},
	} {
		if got := fateOf(status(text), time.Time{}); got != want {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
}

// Once a bug: of a session whose time was over while a command ran, belljar said that its connection broke, and that it was killed from outside.
func TestHowASessionEnded(t *testing.T) {
	due := time.Date(2026, 1, 1, 0, 0, 10, 700e6, time.UTC)
	const before, at = "2026-01-01T00:00:05Z", "2026-01-01T00:00:10Z"
	for name, c := range map[string]struct {
		session, own bool
		code         int
		finished     string
		want, by     string
	}{
		"it is deleted then":            {true, false, 0, at, "session.max ended it at 2026-01-01T00:00:10Z", "belljar"},
		"its time is over":              {true, false, 0, at, "session.max ended it at 2026-01-01T00:00:10Z", "belljar"},
		"that of one that ends with us": {true, true, 0, at, "session.max ended it at 2026-01-01T00:00:10Z", "belljar"},
		"before":                        {true, false, 0, before, "its init ended", "outside"},
		"before, of one with us":        {true, true, 0, before, "its connection to this process broke", "outside"},
		"killed at that time":           {true, false, 137, at, "the container ended: Error, exit status 137, as where memory ran out", "outside"},
		"no session":                    {false, false, 0, at, "its connection to this process broke", "outside"},
	} {
		deleted := ""
		if strings.Contains(name, "deleted") {
			deleted = `,"deletionTimestamp":"` + at + `"`
		}
		e := behind(t, func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"metadata":{"uid":"u"%s},"status":{"containerStatuses":[{"name":"sandbox","state":{"terminated":{"exitCode":%d,"reason":"Error","finishedAt":%q}}}]}}`, deleted, c.code, c.finished)
		}, func(config *Config) { config.OwnSessions = c.own })
		r := record{UID: "u", Name: "p", Deadline: due}
		if c.session {
			r.Session = "dev"
		}
		b := newBox(e, r)
		_, err := b.statusWithoutInit(broken(t))
		if sandbox.CauseOf(err) != sandbox.CauseEngineLost || !strings.Contains(err.Error(), "while the command ran: "+c.want+" (") {
			t.Errorf("%s: %v", name, err)
		}
		if by := b.counters().KilledBy; by != c.by {
			t.Errorf("%s: killed by %q", name, by)
		}
		b.Close()
	}
}

// A pod and its lease that are made while another process sweeps are no orphan's.
func TestSweepSparesWhatIsMadeMeanwhile(t *testing.T) {
	listed, deleted, made := false, false, map[string]string{noteMaker: "m"}
	e := behind(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodDelete:
			deleted = true
			io.WriteString(w, "{}")
		case !listed: // the first list has neither
			listed = true
			io.WriteString(w, `{"items":[]}`)
		case strings.HasSuffix(r.URL.Path, "/leases"):
			lease := kube.Lease{Metadata: kube.Meta{Name: "l", Annotations: made}, Spec: kube.LeaseSpec{LeaseDurationSeconds: 40, RenewTime: kube.MicroTime(time.Now())}}
			json.NewEncoder(w).Encode(map[string]any{"items": []kube.Lease{lease}})
		default:
			json.NewEncoder(w).Encode(map[string]any{"items": []kube.Pod{{Metadata: kube.Meta{Name: "p", UID: "u", Labels: map[string]string{labelOwner: "l"}, Annotations: made}}}})
		}
	})
	if n, err := e.Sweep(t.Context()); n != 0 || err != nil || deleted {
		t.Errorf("swept %d, error %v, deleted %v", n, err, deleted)
	}
	if n, err := e.Sweep(t.Context()); n != 0 || err != nil || deleted { // now both are listed
		t.Errorf("swept %d, error %v, deleted %v", n, err, deleted)
	}
}

// The lease of a process that ended may be swept while another process takes it over: the session is there all the same. What the
// API server cannot do now is no loss, either.
func TestSessionIsNotLostByItsLease(t *testing.T) {
	for name, c := range map[string]struct {
		create, get []int // status codes, the last one for good
		want        sandbox.Cause
	}{
		"swept meanwhile":           {[]int{409, 409, 201}, []int{404}, sandbox.CauseEngine}, // it then fails to attach
		"taken and given meanwhile": {[]int{409, 201}, []int{404}, sandbox.CauseEngine},
		"an error":                  {[]int{500}, []int{200}, sandbox.CauseEngine},
		"another one has it":        {[]int{409}, []int{200}, sandbox.CauseBusy},
	} {
		attached := 0
		next := func(codes *[]int) int {
			code := (*codes)[0]
			*codes = (*codes)[min(1, len(*codes)-1):]
			return code
		}
		e := behind(t, func(w http.ResponseWriter, r *http.Request) {
			lease := kube.Lease{Metadata: kube.Meta{Name: "l", UID: "l"}, Spec: kube.LeaseSpec{HolderIdentity: "elsewhere 1@1 x", LeaseDurationSeconds: 40, RenewTime: kube.MicroTime(time.Now())}}
			switch {
			case strings.HasSuffix(r.URL.Path, "/attach"):
				attached++
				w.WriteHeader(http.StatusBadGateway) // its kubelet restarts
				io.WriteString(w, `{"message":"kubelet","reason":"BadGateway"}`)
			case strings.Contains(r.URL.Path, "/pods/"):
				json.NewEncoder(w).Encode(kube.Pod{Metadata: kube.Meta{Name: "p", UID: "u"}, Status: &kube.PodStatus{Phase: "Running", ContainerStatuses: []kube.ContainerStatus{{Name: mainContainer, State: kube.ContainerState{Running: &struct{}{}}}}}})
			case r.Method == http.MethodDelete:
				io.WriteString(w, "{}")
			case r.Method == http.MethodPost:
				w.WriteHeader(next(&c.create))
				json.NewEncoder(w).Encode(lease)
			default:
				w.WriteHeader(next(&c.get))
				json.NewEncoder(w).Encode(lease)
			}
		})
		e.hello = 100 * time.Millisecond
		kept := record{UID: "u", Name: "p", Session: "s", Server: e.Host(), Namespace: "ns"}
		if err := e.records.add(e, kept); err != nil {
			t.Fatal(err)
		}
		reaches := c.create[len(c.create)-1] == 201
		_, err := e.Adopt(t.Context(), kept.kept())
		if sandbox.CauseOf(err) != c.want || (attached > 0) != reaches {
			t.Errorf("%s: %d times attached, error %v", name, attached, err)
		}
	}
}

// Once a bug: images that were resolved stayed in files for good, each of which was read for every session that was looked for.
func TestRememberedImagesGo(t *testing.T) {
	dir := t.TempDir()
	e := behind(t, http.NotFound, func(c *Config) { c.Dir = dir })
	kept := record{UID: "u", Name: "p", Namespace: "ns", Server: e.Host(), Session: "dev"}
	if err := e.records.add(e, kept); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-imageFor - time.Minute)
	for _, name := range []string{e.imageFile("old"), e.imageFile("older") + recordSuffix, filepath.Join(e.dir, freshPrefix+"1"), e.recordFile("u")} {
		if text, _ := os.ReadFile(name); text == nil {
			writeFile(e.dir, name, nil)
		}
		if err := os.Chtimes(name, old, old); err != nil {
			t.Fatal(err)
		}
	}
	e.remember(sandbox.Image{Reference: "one", ID: "one@sha256:1"})
	e.remember(sandbox.Image{Reference: "two", ID: "two@sha256:2"})
	var names []string
	files, _ := os.ReadDir(e.dir)
	for _, f := range files {
		names = append(names, filepath.Join(e.dir, f.Name()))
	}
	want := []string{e.imageFile("one"), e.imageFile("two"), e.recordFile("u")}
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("left: %q", names)
	}
	if strings.HasSuffix(e.imageFile("one"), recordSuffix) || !slices.Equal(e.Recorded(), []string{"dev"}) {
		t.Errorf("an image's file is read as a session's: %v", e.Recorded())
	}
	other := behind(t, http.NotFound, func(c *Config) { c.Dir = dir })
	other.client = e.client
	if i, ok := other.recall("one"); !ok || i.ID != "one@sha256:1" {
		t.Errorf("another process takes %+v", i)
	}
}

// Once a bug: where a node has an image by several names, it was pinned to the repository of another one.
func TestPinned(t *testing.T) {
	bare := strings.Repeat("0a", 32)
	for of, want := range map[[2]string][2]string{
		{"app", "docker.io/library/app@sha256:1"}:                 {"app@sha256:1", "sha256:1"},
		{"app:1", "docker-pullable://app@sha256:1"}:               {"app@sha256:1", "sha256:1"},
		{"ours.example.com/app:1", "evil.example.com/x@sha256:1"}: {"ours.example.com/app@sha256:1", "sha256:1"},
		{"localhost:5000/app", "other/app@sha256:1"}:              {"localhost:5000/app@sha256:1", "sha256:1"},
		{"localhost:5000/app:2", "other/app@sha256:1"}:            {"localhost:5000/app@sha256:1", "sha256:1"},
		{"app:2@sha256:2", "other/app@sha256:1"}:                  {"app@sha256:2", "sha256:2"},
		{"sha256:3", "docker.io/library/app@sha256:1"}:            {"docker.io/library/app@sha256:1", "sha256:1"},
		{bare, "docker.io/library/app@sha256:1"}:                  {"docker.io/library/app@sha256:1", "sha256:1"},
		{"app", "sha256:2"}:                                       {"sha256:2", "sha256:2"},
		{"app", "docker://sha256:2"}:                              {"sha256:2", "sha256:2"},
		{"app", bare}:                                             {"sha256:" + bare, "sha256:" + bare},
		{"app", bare[2:]}:                                         {},
		{"app", "latest"}:                                         {},
		{"app", ""}:                                               {},
	} {
		if id, digest := pinned(of[0], of[1]); id != want[0] || digest != want[1] {
			t.Errorf("%s: %s, %s", of, id, digest)
		}
	}
}

// Once a bug: what an admission webhook mounted in the pod that looks at an image was taken for a volume of the image, and so for
// belljar's own in all that came after.
func TestWebhookMountIsNoVolumeOfTheImage(t *testing.T) {
	for _, at := range []string{"/var/run/secrets/cloud", "/run/secrets", "/run/.containerenv"} {
		webhookMounts(t, at)
	}
}

func webhookMounts(t *testing.T, at string) {
	a, e := withAPI(t)
	a.faulty(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/pods") {
			return false
		}
		var pod kube.Pod
		json.NewDecoder(r.Body).Decode(&pod)
		main := &pod.Spec.Containers[0]
		main.VolumeMounts = append(main.VolumeMounts, kube.VolumeMount{Name: "token", MountPath: at})
		text, _ := json.Marshal(pod)
		r.Body = io.NopCloser(bytes.NewReader(text))
		return false
	})
	_, looked := e.Resolve(t.Context(), "app", sandbox.PullMissing)
	_, made := e.Create(t.Context(), wantSpec())
	for what, err := range map[string]error{"resolving": looked, "making": made} {
		if sandbox.CauseOf(err) != sandbox.CauseEngine || !strings.Contains(err.Error(), "did not ask for: "+at+" (look for an admission webhook") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if pods := a.names("pods"); len(pods) > 0 {
		t.Errorf("left: %v", pods)
	}
}

func TestExtraMounts(t *testing.T) {
	const text = `1 0 0:1 / / ro - overlay overlay ro
2 1 0:2 / /proc rw - proc proc rw
3 1 0:3 / /dev/shm rw - tmpfs tmpfs rw
4 1 0:4 / /etc/hosts rw - ext4 /dev/x rw
5 1 0:5 / /dev/belljar-init ro - ext4 /dev/x rw
6 1 0:6 / /tmp rw - tmpfs tmpfs rw
7 1 0:7 / /data rw - ext4 /dev/x rw
8 1 0:8 / /proc-like rw - ext4 /dev/x rw
9 1 0:9 / /my\040own\134 rw - tmpfs tmpfs rw
10 1 0:10 / /another\040one rw master:1 - tmpfs tmpfs rw
11 1 0:11 / /of\040gvisor rw - 9p none rw
12 1 0:12 / /replaced rw - ext4 /dev/x rw
`
	own := []string{"/tmp", "/work", `/my own\`, "/of gvisor", "/replaced"}
	if got := extraMounts(text, own, nil); !slices.Equal(got, []string{"/data", "/proc-like", "/another one", "/replaced"}) {
		t.Errorf("%q", got)
	}
}

// Once a bug: what CRI-O mounts in every container was a volume of each image, and what was resolved on another node was refused there.
// Nothing else may hide behind it.
func TestMountsOfCRIO(t *testing.T) {
	for row, want := range map[string]string{
		"8 1 0:24 /containers/storage/overlay-containers/c/userdata/.containerenv /run/.containerenv ro,nosuid - tmpfs tmpfs rw,mode=755": "",
		"9 1 0:24 /containers/storage/overlay-containers/c/userdata/run/secrets /run/secrets rw,nosuid - tmpfs tmpfs rw,mode=755":         "",
		"8 1 8:1 /var/run/c/.containerenv /run/.containerenv ro - ext4 /dev/x rw":                                                         "",
		"8 1 8:1 /vol /run/.containerenv rw - ext4 /dev/x rw":                                                                             "/run/.containerenv",
		"9 1 8:1 /vol /run/secrets rw - ext4 /dev/x rw":                                                                                   "/run/secrets",
		"9 1 8:1 /vol /run/secrets rw - 9p none ro":                                                                                       "/run/secrets",
		"9 1 0:9 / /run/secrets/kubernetes.io/serviceaccount ro - tmpfs tmpfs rw":                                                         "/run/secrets/kubernetes.io/serviceaccount",
		"9 1 0:9 / /var/run/secrets ro - tmpfs tmpfs rw":                                                                                  "/var/run/secrets",
		"9 1 0:9 / /run/secrets2 ro - tmpfs tmpfs rw":                                                                                     "/run/secrets2",
		"9 1 0:9 / /run ro - tmpfs tmpfs rw":                                                                                              "/run",
		"9 1 0:9 / /run/.containerenv/x ro - tmpfs tmpfs rw":                                                                              "/run/.containerenv/x",
	} {
		if got := strings.Join(extraMounts(row+"\n", nil, nil), " "); got != want {
			t.Errorf("%s: %q", row, got)
		}
	}
}

func TestParseGroup(t *testing.T) {
	v2 := []string{"low 0\noom 2\noom_kill 1\n", "1000\n", "usage_usec 1500000\nuser_usec 1\n", "max 3\n", "8:0 rbytes=10 wbytes=20 rios=1\n", "", "", "", "", ""}
	v1 := []string{"", "", "", "", "", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n", "1000\n", "1500000000\n", "max 3\n", "8:0 Read 10\n8:0 Write 20\nTotal 30\n"}
	want := sandbox.Counters{Evidence: sandbox.Evidence{OOMKills: 1, PidsLimitHits: 3}, Resources: sandbox.Resources{CPUSeconds: 1.5, MaxMemoryBytes: 1000}, IOBytes: 30}
	for name, texts := range map[string][]string{"v2": v2, "v1": v1} {
		got, read := parseGroup(texts)
		if !read || got.OOMKills != want.OOMKills || got.PidsLimitHits != want.PidsLimitHits || got.Resources != want.Resources || got.IOBytes != want.IOBytes {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if _, read := parseGroup(make([]string, 10)); read {
		t.Error("nothing counts as read")
	}
}

// Once a bug: gVisor, which tells of no filter and need not tell of no_new_privs, was a pod that is not locked down.
func TestInsideOf(t *testing.T) {
	const none = "0000000000000000"
	for name, c := range map[string]struct {
		tried boxinit.Tried
		want  Inside
	}{
		"locked":          {boxinit.Tried{Seccomp: true, NoPrivileges: true, Capabilities: none, Network: boxinit.NoAnswer}, Inside{Seccomp: true, Locked: true, Dropped: true, Network: boxinit.NoAnswer}},
		"gVisor":          {boxinit.Tried{GVisor: true, Capabilities: none, Network: boxinit.Open}, Inside{GVisor: true, Locked: true, Reaches: true, Network: boxinit.Open}},
		"gVisor's root":   {boxinit.Tried{GVisor: true, Capabilities: "00000000a80425fb"}, Inside{GVisor: true}},
		"it can get some": {boxinit.Tried{Seccomp: true, Capabilities: none}, Inside{Seccomp: true}},
		"nothing is told": {boxinit.Tried{GVisor: true, NoPrivileges: true}, Inside{GVisor: true}},
	} {
		if got := insideOf(c.tried); got != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// Once a bug: a namespace that does not exist, or OpenShift's constraints, led to the doctor, and from there to the log of Docker.
func TestWhatToDoAboutARefusal(t *testing.T) {
	for want, refused := range map[string]kube.StatusError{
		"create it, or correct engine.kubernetes.namespace": {Code: 404, Reason: "NotFound", Message: `namespaces "ns" not found`},
		"the namespace is being deleted":                    {Code: 403, Reason: "Forbidden", Message: `pods "x" is forbidden: unable to create new content in namespace ns because it is being terminated`},
		"system:openshift:scc:nonroot-v2":                   {Code: 403, Reason: "Forbidden", Message: `pods "x" is forbidden: unable to validate against any security context constraint: [provider "anyuid": Forbidden]`},
		"see: belljar doctor":                               {Code: 404, Reason: "NotFound", Message: `pods "x" not found`},
	} {
		var is *sandbox.Error
		if err := callError(&refused, "creating a pod"); !errors.As(err, &is) || !strings.Contains(is.Hint, want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// Once a bug: where the counts could not be read, what was read for an earlier command was told as this one's.
func TestCountsThatAreNotRead(t *testing.T) {
	b := newBox(behind(t, http.NotFound), record{})
	defer b.Close()
	texts := make([]string, len(groupFiles))
	if b.counted(texts, nil) {
		t.Error("nothing is a count")
	}
	texts[0] = "oom_kill 1\n"
	spaces := make([]boxlink.Space, len(b.memoryDirs()))
	spaces[0].Type = unix.TMPFS_MAGIC // and full
	if c := b.counters(); !b.counted(texts, spaces) || c.Source != "" {
		t.Errorf("%+v", c)
	}
	if c := b.counters(); c.Source != "cgroup" || len(c.DiskFull) != 1 {
		t.Errorf("%+v", c)
	}
	if c, err := b.Counters(t.Context()); err != nil || c.Source != "" || len(c.DiskFull) > 0 {
		t.Errorf("%+v, %v", c, err)
	}
}

// What was read before the last process was killed for its memory says nothing of that.
func TestPeakAtAKill(t *testing.T) {
	b := newBox(behind(t, http.NotFound), record{})
	defer b.Close()
	read := func(kills, peak int) int64 {
		texts := make([]string, len(groupFiles))
		texts[0], texts[1] = fmt.Sprintf("oom_kill %d\n", kills), fmt.Sprintf("%d\n", peak)
		b.counted(texts, nil)
		return b.counters().OOMPeak
	}
	if before, after, gone := read(0, 10), read(1, 20), read(0, 0); before != 0 || after != 20 || gone != 20 {
		t.Errorf("%d, %d, %d", before, after, gone)
	}
	b.ended = &fate{known: true, oom: true} // once a bug: of a second command, this was no kill, as the first one had one
	for range 2 {
		if c := b.counters(); c.OOMPeak != 0 || c.OOMKills != 2 || c.Source != "cgroup,pod" {
			t.Errorf("%+v", c)
		}
	}
}
