//go:build kubernetes

package kubernetes_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/kubernetes"
	"belljar/sandbox/listing"
)

// What runs in a session is listed also where the session ends with this process, which alone can see it.
func TestListOwnSession(t *testing.T) {
	t.Parallel()
	e := open(t, func(c *kubernetes.Config) { c.OwnSessions = true })
	box := create(t, e, newSpec(t, func(s *sandbox.Spec) { s.Session = "own" }))
	begin(t, box, "sleep 100")
	c := listing.Container{ID: box.Info().ID}
	if err := e.FillProcesses(t.Context(), &c); err != nil || len(c.Runs) != 1 || !strings.HasSuffix(c.Runs[0].Command, "sleep 100") {
		t.Errorf("%+v, error %v", c.Runs, err)
	}
	if out, _ := run(t, box, "echo on"); out != "on\n" {
		t.Errorf("after that: %q", out)
	}
}

// A handle's end leaves the session to others at once; a lease that another program deletes is made again, as long as its process runs;
// what was deleted is not changed by who read it before.
func TestLeasesOfACluster(t *testing.T) {
	t.Parallel()
	in := ownNamespace(t, "leases")
	e := open(t, func(c *kubernetes.Config) { c.Namespace = in })
	box := create(t, e, newSpec(t, func(s *sandbox.Spec) { s.Session = "dev" }))
	leases := func() []string { return strings.Fields(mustKubectl(t, "-n", in, "get", "leases", "-o", "name")) }
	if all := leases(); len(all) != 2 {
		t.Fatalf("%v", all)
	}
	mustKubectl(t, append([]string{"-n", in, "delete"}, leases()...)...)
	await(t, 25*time.Second, "both leases are made again", func() bool { return len(leases()) == 2 })
	if err := box.Close(); err != nil || len(leases()) != 1 {
		t.Errorf("leases %v, error %v", leases(), err)
	}
	shared := e.Shared("")
	entry, err := shared.Create(t.Context(), kubernetes.Entry{Kind: "key", Name: "key-1", For: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	now, err := shared.Update(t.Context(), entry)
	if err != nil {
		t.Fatal(err)
	}
	if err := shared.Delete(t.Context(), entry); err != nil || len(leases()) != 2 {
		t.Errorf("an entry that was read before it changed: leases %v, error %v", leases(), err)
	}
	if err := shared.Delete(t.Context(), now); err != nil || len(leases()) != 1 {
		t.Errorf("leases %v, error %v", leases(), err)
	}
	if _, err := shared.Update(t.Context(), now); !errors.Is(err, kubernetes.ErrTaken) && !errors.Is(err, kubernetes.ErrNone) {
		t.Errorf("an entry that is gone: %v", err)
	}
	kept, err := e.Sessions(t.Context(), "dev")
	if err != nil || len(kept) != 1 {
		t.Fatalf("%+v, error %v", kept, err)
	}
	if box, err = e.Adopt(t.Context(), kept[0]); err != nil {
		t.Fatal(err)
	}
	if err := box.Remove(t.Context()); err != nil {
		t.Error(err)
	}
}

// A pod that is evicted before it runs says so.
func TestEvictedBeforeItRuns(t *testing.T) {
	t.Parallel()
	in := ownNamespace(t, "early")
	e := open(t, func(c *kubernetes.Config) {
		c.Namespace, c.Pods.NodeSelector = in, map[string]string{"no": "such"}
	})
	failed := make(chan error, 1)
	spec := newSpec(t)
	go func() {
		_, err := e.Create(t.Context(), spec)
		failed <- err
	}()
	var name string
	await(t, 20*time.Second, "there is a pod", func() bool {
		name = mustKubectl(t, "-n", in, "get", "pods", "-o", "jsonpath={.items[*].metadata.name}")
		return name != ""
	})
	evict(t, in, name)
	if err := <-failed; sandbox.CauseOf(err) != sandbox.CauseEngineLost || !strings.Contains(err.Error(), "EvictionByEvictionAPI") {
		t.Error(err)
	}
}
