//go:build kubernetes

package kubernetes_test

import (
	"strings"
	"testing"
	"time"

	"belljar/sandbox/kubernetes"
)

// Where nodes know no user namespaces, as those of these tests, a pod that asks for one says so in the end, and the doctor's try does.
func TestNoUserNamespaces(t *testing.T) {
	t.Parallel()
	in := ownNamespace(t, "users")
	e := open(t, func(c *kubernetes.Config) { c.Namespace, c.Start, c.Pods.UserNamespaces = in, 30*time.Second, true })
	if _, err := e.Create(t.Context(), newSpec(t)); err == nil || !strings.Contains(err.Error(), "user_namespaces to false") || !strings.Contains(err.Error(), "get events -n "+in) {
		t.Error(err)
	}
	await(t, time.Minute, "the event", func() bool {
		return strings.Contains(mustKubectl(t, "-n", in, "get", "events"), "runtime does not support user namespaces")
	})
	plain := open(t, func(c *kubernetes.Config) { c.Namespace = in })
	await(t, 3*time.Minute, "a try says why", func() bool {
		_, err := plain.LookInside(t.Context(), "", true)
		t.Log(err)
		return err != nil && strings.Contains(err.Error(), "user namespace")
	})
	if in, err := plain.LookInside(t.Context(), "", false); err != nil || in.Users || !in.Seccomp || !in.Locked {
		t.Errorf("%+v, error %v", in, err)
	}
	if left := left(in); strings.Contains(left, "pod/") {
		t.Error(left)
	}
}
