package kubernetes

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/kube"
)

// Where agent-sandbox (sigs.k8s.io/agent-sandbox) has its objects.
const (
	sandboxesAPI = "agents.x-k8s.io/v1beta1"
	claimsAPI    = "extensions.agents.x-k8s.io/v1beta1"
)

// ErrNoClaims is that of a cluster without agent-sandbox.
var ErrNoClaims = errors.New("agent-sandbox is not installed in this cluster")

// Claims is a warm pool of agent-sandbox's: what a pool of belljar's is measured beside. Its objects go with this process's lease, also
// if the process is killed.
type Claims struct {
	engine *Engine
	name   string // of the pool, and of its template
	size   int
	owner  fields // of all objects
	last   string // the pod of the sandbox that was let go last
}

// fields are an object of JSON, or a part of one.
type fields = map[string]any

// NewClaims makes a pool of pods for a spec. They are as belljar's, but without its init: they sleep until the spec's deadline.
func (e *Engine) NewClaims(ctx context.Context, spec sandbox.Spec, size int) (*Claims, error) {
	if err := e.client.Get(ctx, "/apis/"+claimsAPI, nil, nil); kube.CodeOf(err) == http.StatusNotFound {
		return nil, ErrNoClaims
	} else if err != nil {
		return nil, callError(err, "looking for agent-sandbox")
	}
	name, err := e.leases.ofProcess(ctx)
	if err != nil {
		return nil, err
	}
	lease, err := e.leases.get(ctx, name)
	if err != nil {
		return nil, callError(err, "reading lease %s", name)
	}
	c := &Claims{
		engine: e, size: size, name: claimName(),
		owner: fields{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "name": name, "uid": lease.Metadata.UID},
	}
	template := fields{"podTemplate": fields{"spec": sleeper(e.pod(spec, name), time.Until(spec.Deadline))}}
	pool := fields{"replicas": size, "sandboxTemplateRef": fields{"name": c.name}}
	err = c.create(ctx, "SandboxTemplate", c.name, template, nil)
	if err == nil {
		err = c.create(ctx, "SandboxWarmPool", c.name, pool, nil)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close(ctx))
	}
	return c, nil
}

// claimName is a new object's. Its start is for people.
func claimName() string { return "belljar-claims-" + strings.ToLower(rand.Text()) }

// sleeper is the spec of a pod with a shell that sleeps, in place of belljar's init. It ends on SIGTERM, so that the pod is deleted at once.
func sleeper(pod *kube.Pod, long time.Duration) kube.PodSpec {
	s := pod.Spec
	s.InitContainers, s.TopologySpreadConstraints = nil, nil
	s.Volumes = slices.DeleteFunc(s.Volumes, func(v kube.Volume) bool { return v.Name == initVolume })
	main := &s.Containers[0]
	main.VolumeMounts = slices.DeleteFunc(main.VolumeMounts, func(m kube.VolumeMount) bool { return m.Name == initVolume })
	main.Command = []string{"sh", "-c", fmt.Sprintf("trap exit TERM; sleep %d & wait", int(long.Seconds()))}
	main.Stdin, main.StdinOnce = false, false
	return s
}

// Rested reports whether the pool is full, and the pod is gone of the sandbox that was let go last.
func (c *Claims) Rested(ctx context.Context) (bool, error) {
	if c.last != "" {
		if err := c.engine.client.Get(ctx, kube.PodPath(c.engine.namespace, c.last), nil, nil); !over(err) {
			return false, err
		}
	}
	var pool struct{ Status struct{ Selector string } }
	if err := c.engine.client.Get(ctx, c.path("SandboxWarmPool")+"/"+c.name, nil, &pool); err != nil {
		return false, callError(err, "reading agent-sandbox's pool %s", c.name)
	}
	if pool.Status.Selector == "" { // the controller has not seen it
		return false, nil
	}
	// Not the pool's readyReplicas: just after a claim they count the sandbox that was taken.
	all, err := kube.List[claimed](ctx, c.engine.client, c.path("Sandbox"), url.Values{"labelSelector": {pool.Status.Selector}})
	if err != nil {
		return false, callError(err, "listing agent-sandbox's sandboxes")
	}
	return len(all) == c.size && !slices.ContainsFunc(all, func(s claimed) bool { return !s.ready() }), nil
}

// Claim is a warm sandbox that was taken. Its pod has the same name.
type Claim struct{ name, Pod string }

// claimed is what is read of a claim or a sandbox.
type claimed struct {
	Metadata kube.Meta
	Status   struct {
		Conditions []kube.Condition
		Sandbox    struct{ Name string }
	}
}

func (c claimed) ready() bool {
	return slices.ContainsFunc(c.Status.Conditions, func(is kube.Condition) bool { return is.Type == "Ready" && is.Status == "True" })
}

// Take claims a sandbox, and waits until it is ready. Release it also after an error.
func (c *Claims) Take(ctx context.Context) (Claim, error) {
	claim := Claim{name: claimName()}
	var now claimed
	if err := c.create(ctx, "SandboxClaim", claim.name, fields{"warmPoolRef": fields{"name": c.name}}, &now); err != nil {
		return claim, err
	}
	err := c.engine.client.Watch(ctx, c.path("SandboxClaim"), kube.ByName(claim.name), now.Metadata.ResourceVersion, func(_ string, text []byte) (bool, error) {
		now = claimed{}
		err := json.Unmarshal(text, &now)
		return now.ready(), err
	})
	if err == nil && !now.ready() {
		err = errors.New("the API server ended the watch")
	}
	if err != nil {
		return claim, callError(err, "waiting for agent-sandbox's claim %s", claim.name)
	}
	claim.Pod = now.Status.Sandbox.Name
	return claim, nil
}

// Release lets a sandbox go. It returns an error if that was not a warm one.
func (c *Claims) Release(ctx context.Context, claim Claim) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	var err error
	if c.last = claim.Pod; claim.Pod != "" {
		var taken claimed
		if err = c.engine.client.Get(ctx, c.path("Sandbox")+"/"+claim.Pod, nil, &taken); err == nil && taken.Metadata.Labels["agents.x-k8s.io/launch-type"] != "warm" {
			err = errors.New("agent-sandbox's pool was at rest, and yet the claim got no warm sandbox")
		}
	}
	return errors.Join(err, c.delete(ctx, "SandboxClaim", claim.name))
}

// Close deletes the pool. Cancelling ctx does not stop it.
func (c *Claims) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	return errors.Join(c.delete(ctx, "SandboxWarmPool", c.name), c.delete(ctx, "SandboxTemplate", c.name))
}

// path is where the objects of a kind are.
func (c *Claims) path(kind string) string {
	api, plural := claimsAPI, strings.ToLower(kind)+"s"
	if kind == "Sandbox" {
		api, plural = sandboxesAPI, "sandboxes"
	}
	return "/apis/" + api + "/namespaces/" + c.engine.namespace + "/" + plural
}

func (c *Claims) create(ctx context.Context, kind, name string, spec fields, into any) error {
	made := fields{"apiVersion": claimsAPI, "kind": kind, "metadata": fields{"name": name, "ownerReferences": []fields{c.owner}}, "spec": spec}
	if err := c.engine.client.Create(ctx, c.path(kind), made, into); err != nil {
		return callError(err, "making a %s of agent-sandbox", kind)
	}
	return nil
}

func (c *Claims) delete(ctx context.Context, kind, name string) error {
	err := c.engine.client.Delete(ctx, c.path(kind)+"/"+name, kube.Meta{}, 0)
	if err != nil && !over(err) {
		return callError(err, "deleting a %s of agent-sandbox", kind)
	}
	return nil
}
