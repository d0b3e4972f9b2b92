package kubernetes

import (
	"context"
	"strings"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/kube"
)

// Version is the API server's.
func (e *Engine) Version(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var about struct{ GitVersion string }
	if err := e.client.Get(ctx, "/version", nil, &about); err != nil {
		return "", callError(err, "asking the API server for its version")
	}
	return about.GitVersion, nil
}

// right is what belljar does with objects of a kind.
type right struct{ group, resource, subresource, verb string }

// rights are all that belljar needs, in one namespace: docs/kubernetes.md has them as a Role.
var rights = append([]right{
	{"", "pods", "", "create"}, {"", "pods", "", "get"}, {"", "pods", "", "list"}, {"", "pods", "", "watch"}, {"", "pods", "", "delete"},
	{"", "pods", "attach", "create"}, {"", "pods", "attach", "get"},
}, leaseRights...)

// leaseRights are those that replicas need in their namespace, too.
var leaseRights = []right{
	{"coordination.k8s.io", "leases", "", "create"}, {"coordination.k8s.io", "leases", "", "get"}, {"coordination.k8s.io", "leases", "", "list"},
	{"coordination.k8s.io", "leases", "", "update"}, {"coordination.k8s.io", "leases", "", "delete"},
}

// nodeRight is what lets pools leave a node that is being drained, in no namespace. Who does not have it waits until pool.max_age there.
var nodeRight = right{"", "nodes", "", "watch"}

// MayWatchNodes reports whether this user may.
func (e *Engine) MayWatchNodes(ctx context.Context) (bool, error) {
	missing, err := e.missing(ctx, "", []right{nodeRight})
	return len(missing) == 0, err
}

// MissingRights are those that this user does not have, such as "create pods/attach".
func (e *Engine) MissingRights(ctx context.Context) (missing []string, err error) {
	return e.missing(ctx, e.namespace, rights)
}

// MissingRights are those that this user does not have in the namespace of what replicas write down.
func (s *Shared) MissingRights(ctx context.Context) (missing []string, err error) {
	return s.engine.missing(ctx, s.namespace, leaseRights)
}

func (e *Engine) missing(ctx context.Context, namespace string, rights []right) (missing []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for _, r := range rights {
		review := map[string]any{"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": map[string]any{
			"resourceAttributes": map[string]any{"namespace": namespace, "group": r.group, "resource": r.resource, "subresource": r.subresource, "verb": r.verb},
		}}
		var answer struct{ Status struct{ Allowed bool } }
		if err := e.client.Create(ctx, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review, &answer); err != nil {
			return nil, callError(err, "asking for the rights of this user")
		}
		if !answer.Status.Allowed {
			missing = append(missing, strings.TrimSuffix(r.verb+" "+r.resource+"/"+r.subresource, "/"))
		}
	}
	return missing, nil
}

// Admits returns an error where a command of the profile would get no pod now: because pods cannot have what the profile asks for, or the
// API server would refuse it, by a policy, a webhook or a quota, or as a RuntimeClass or PriorityClass is missing. A user with a name whose
// numbers only the image has may be anyone but root.
func (e *Engine) Admits(ctx context.Context, p sandbox.Profile) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	user := p.User
	if user.Name != "" && user.UID == 0 && !user.IsRoot() {
		user = lookUser
	}
	spec := sandbox.Spec{
		Command: "try", Image: sandbox.Image{Reference: p.Image, ID: p.Image}, User: user, Root: p.User.IsRoot(), Workdir: p.Workdir, Mounts: p.Mounts,
		Limits: p.Limits, Tmpfs: p.Tmpfs, Network: p.Network, Runtime: p.Runtime, Deadline: time.Now().Add(time.Minute),
	}
	if err := e.check(spec); err != nil {
		return err
	}
	if err := e.client.Try(ctx, kube.PodsPath(e.namespace), e.pod(spec, "none")); err != nil {
		return callError(err, "trying whether namespace %q takes pods", e.namespace)
	}
	return nil
}
