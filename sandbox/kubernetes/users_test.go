//go:build kubernetes

package kubernetes_test

import (
	"strings"
	"testing"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/kubernetes"
)

// ownUsers asks for user namespaces.
func ownUsers(c *kubernetes.Config) { c.Pods.UserNamespaces = true }

// Where nodes know user namespaces, a pod that asks for one has it, and works as any other.
func TestPodsWithUserNamespaces(t *testing.T) {
	t.Parallel()
	e := open(t, ownUsers)
	box := create(t, e, newSpec(t))
	out, status := run(t, box, "cat /proc/self/uid_map; id -u; id -g; echo x >/work/f; stat -c %u:%g /work/f; (sleep 300 >/dev/null 2>&1 &)")
	fields := strings.Fields(out)
	if status != 0 || len(fields) != 6 || fields[0] != "0" || fields[1] == "0" || fields[3] != "65534" || fields[4] != "65534" || fields[5] != "65534:65534" {
		t.Errorf("status %d, %q", status, out)
	}
	if list, err := box.Processes(t.Context()); err != nil || len(list) != 1 || list[0].Command != "sleep 300" || list[0].UID != user.UID {
		t.Errorf("%+v, error %v", list, err)
	} else if err := box.Signal(t.Context(), list, "SIGKILL"); err != nil {
		t.Error(err)
	}
	if _, status := run(t, box, "tail /dev/zero"); status != 137 {
		t.Errorf("out of memory: status %d", status)
	}
	if c, err := box.Counters(t.Context()); err != nil || c.OOMKills == 0 {
		t.Errorf("%+v, error %v", c, err)
	}
	other := create(t, e, newSpec(t))
	if again, _ := run(t, other, "cat /proc/self/uid_map"); again == "" || strings.HasPrefix(out, again) {
		t.Errorf("two pods have the same users: %q", again)
	}
	if in, err := e.LookInside(t.Context(), "", false); err != nil || !in.Users || !in.Seccomp || !in.Locked {
		t.Errorf("%+v, error %v", in, err)
	}
}

// oldRuntime is the RuntimeClass of scripts/cluster's handler "old", whose runc knows no user namespaces.
const oldRuntime = `{"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "belljar-test-old"}, "handler": "old"}`

// Where a runtime knows no user namespaces, a pod that asks for one says so in the end, and the doctor's try does.
func TestNoUserNamespaces(t *testing.T) {
	t.Parallel()
	in := ownNamespace(t, "users")
	apply(t, oldRuntime)
	t.Cleanup(func() { mustKubectl(t, "delete", "runtimeclass", "belljar-test-old") })
	old := func(s *sandbox.Spec) { s.Runtime = "belljar-test-old" }
	e := open(t, ownUsers, func(c *kubernetes.Config) { c.Namespace, c.Start = in, 30*time.Second })
	if _, err := e.Create(t.Context(), newSpec(t, old)); err == nil || !strings.Contains(err.Error(), "user_namespaces to false") || !strings.Contains(err.Error(), "get events -n "+in) {
		t.Error(err)
	}
	await(t, time.Minute, "the event", func() bool {
		return strings.Contains(mustKubectl(t, "-n", in, "get", "events"), "does not support user namespaces")
	})
	plain := open(t, func(c *kubernetes.Config) { c.Namespace = in })
	await(t, 3*time.Minute, "a try says why", func() bool {
		_, err := plain.LookInside(t.Context(), "belljar-test-old", true)
		t.Log(err)
		return err != nil && strings.Contains(err.Error(), "user namespace")
	})
	if in, err := plain.LookInside(t.Context(), "belljar-test-old", false); err != nil || in.Users || !in.Seccomp || !in.Locked {
		t.Errorf("%+v, error %v", in, err)
	}
	if left := left(in); strings.Contains(left, "pod/") {
		t.Error(left)
	}
}
