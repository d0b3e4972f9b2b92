//go:build kubernetes

package kubernetes_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/kubernetes"
)

// script is scripts/cluster, with the running cluster's directory.
func script(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.Command(filepath.Join(os.Getenv("BELLJAR_REPOSITORY"), "scripts", "cluster"), append([]string{args[0], os.Getenv("CLUSTER")}, args[1:]...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%q: %v: %s", args, err, out)
	}
}

// drain drains the node, whose pods of belljar have a minute to go.
func drain() error {
	_, err := kubectl("drain", "localhost", "--force", "--ignore-daemonsets", "--delete-emptydir-data", "--pod-selector=app.kubernetes.io/managed-by=belljar", "--timeout=60s")
	return err
}

// applyBudget gives a namespace the PodDisruptionBudget of deploy/kubernetes.
func applyBudget(t *testing.T, in string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(deployDir, "pdb.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, budget, _ := strings.Cut(string(text), "\n---\n")
	apply(t, strings.ReplaceAll(budget, "belljar-sandboxes", in))
}

// A node that is drained ends what runs on it, and says so. Other tests make no pods meanwhile.
func TestDrain(t *testing.T) {
	in := ownNamespace(t, "drain")
	e := open(t, func(c *kubernetes.Config) { c.Namespace = in })
	box := create(t, e, newSpec(t))
	session := create(t, e, newSpec(t, func(s *sandbox.Spec) { s.Session = "drained" }))
	p, out := begin(t, box, "echo partial; sleep 100")
	kept, _ := begin(t, session, "sleep 100")
	t.Cleanup(func() { mustKubectl(t, "uncordon", "localhost") })
	drained := make(chan error, 1)
	go func() { drained <- drain() }()
	wantLost(t, box, p, time.Minute, "EvictionByEvictionAPI")
	wantLost(t, session, kept, time.Minute, "EvictionByEvictionAPI")
	if out.String() != "partial\n" {
		t.Errorf("output %q", out)
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
	short := open(t, func(c *kubernetes.Config) { c.Namespace, c.Start = in, 20*time.Second })
	if _, err := short.Create(t.Context(), newSpec(t)); sandbox.CauseOf(err) != sandbox.CauseBusy || !strings.Contains(err.Error(), "unschedulable") {
		t.Errorf("a new pod meanwhile: %v", err)
	}
	mustKubectl(t, "uncordon", "localhost")
	again := create(t, e, newSpec(t))
	if out, _ := run(t, again, "echo on"); out != "on\n" {
		t.Errorf("after that: %q", out)
	}
}

// With the budget of deploy/kubernetes, who drains a node waits for the command that runs there. Other tests make no pods meanwhile.
func TestDrainWaits(t *testing.T) {
	in := ownNamespace(t, "waits")
	applyBudget(t, in)
	e := open(t, func(c *kubernetes.Config) { c.Namespace = in })
	box := create(t, e, newSpec(t))
	p, out := begin(t, box, "sleep 10; echo whole")
	await(t, time.Minute, "the budget counts the pod", func() bool {
		return mustKubectl(t, "-n", in, "get", "pdb", "commands", "-o", "jsonpath={.status.expectedPods}/{.status.disruptionsAllowed}") == "1/0"
	})
	t.Cleanup(func() { mustKubectl(t, "uncordon", "localhost") })
	drained := make(chan error, 1)
	go func() { drained <- drain() }()
	if status, err := p.Wait(t.Context()); status != 0 || err != nil || out.String() != "whole\n" {
		t.Errorf("status %d, output %q, error %v", status, out, err)
	}
	if err := box.Remove(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
}

// What waits for a command leaves a node that is drained, though a budget keeps it from being evicted. Other tests make no pods meanwhile.
func TestDrainMovesThePool(t *testing.T) {
	in := ownNamespace(t, "pool")
	applyBudget(t, in)
	l := runner(t, open(t, func(c *kubernetes.Config) { c.Namespace, c.Start = in, 20*time.Second }), sandbox.PoolSize{Min: 2, Max: 2, MaxAge: time.Hour})
	ready := func() bool {
		list, err := l.Pools(t.Context())
		return err == nil && list[0].Ready == 2
	}
	l.Warm()
	await(t, time.Minute, "the pool is full", ready)
	t.Cleanup(func() { mustKubectl(t, "uncordon", "localhost") })
	if err := drain(); err != nil {
		t.Error(err)
	}
	mustKubectl(t, "uncordon", "localhost")
	await(t, 2*time.Minute, "the pool is full again", ready)
	if list, err := l.Pools(t.Context()); err != nil || list[0].Drained < 2 || list[0].Lost > 0 {
		t.Errorf("%+v, error %v", list, err)
	}
}

// A kubelet that starts again keeps its pods. The connection to them breaks: a session's next command goes on in the same pod, and no
// other pod of this process is left.
func TestKubeletRestarts(t *testing.T) {
	in := ownNamespace(t, "kubelet")
	e := open(t, func(c *kubernetes.Config) { c.Namespace = in })
	box := create(t, e, newSpec(t))
	session := create(t, e, newSpec(t, func(s *sandbox.Spec) { s.Session = "kubelet" }))
	run(t, session, "echo kept >/tmp/file")
	p, _ := begin(t, box, "sleep 100")
	script(t, "restart-kubelet", "2")
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	if status, err := p.Wait(ctx); err == nil || sandbox.CauseOf(err) != sandbox.CauseEngineLost || ctx.Err() != nil {
		t.Errorf("status %d, error %v", status, err)
	} else {
		t.Log(err)
	}
	await(t, time.Minute, "the node is ready", func() bool {
		return mustKubectl(t, "get", "node", "localhost", "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`) == "True"
	})
	var out bytes.Buffer
	await(t, 3*time.Minute, "the session goes on", func() bool {
		out.Reset()
		p, err := session.Exec(t.Context(), sandbox.Exec{Script: "cat /tmp/file", Dir: "/work", User: user, Stdout: &out, Stderr: &out})
		if err != nil {
			t.Log(err)
			return false
		}
		_, err = p.Wait(t.Context())
		return err == nil
	})
	if out.String() != "kept\n" {
		t.Errorf("the session has %q", out.String())
	}
	for _, b := range []sandbox.Container{box, session} {
		await(t, 2*time.Minute, "it is removed", func() bool { return b.Remove(t.Context()) == nil })
	}
	await(t, 2*time.Minute, "no pod is left", func() bool { return !strings.Contains(left(in), "pod/") })
}

// A pod of a higher priority takes the place of one that runs commands, which says so.
func TestPreempted(t *testing.T) {
	in := ownNamespace(t, "preempt")
	class := strings.ReplaceAll(in, "belljar-test-", "c-")
	apply(t, fmt.Sprintf(`{"apiVersion":"scheduling.k8s.io/v1","kind":"PriorityClass","metadata":{"name":%q},"value":-10}`, class))
	t.Cleanup(func() { mustKubectl(t, "delete", "priorityclass", class) })
	e := open(t, func(c *kubernetes.Config) { c.Namespace, c.Pods.PriorityClass = in, class })
	processors := mustKubectl(t, "get", "node", "localhost", "-o", "jsonpath={.status.allocatable.cpu}")
	var have int
	fmt.Sscan(processors, &have)
	most := func(s *sandbox.Spec) { s.Limits.CPUs = float64(have) * 10 * 0.7 } // a tenth is requested
	box := create(t, e, newSpec(t, most))
	if got := mustKubectl(t, "-n", in, "get", "pods", "-o", "jsonpath={.items[*].spec.priorityClassName}"); got != class {
		t.Errorf("the pod's class is %q", got)
	}
	p, _ := begin(t, box, "sleep 100")
	first := open(t, func(c *kubernetes.Config) { c.Namespace = in })
	other := create(t, first, newSpec(t, most))
	wantLost(t, box, p, time.Minute, "PreemptionByScheduler")
	if out, _ := run(t, other, "echo on"); out != "on\n" {
		t.Errorf("%q", out)
	}
	none := open(t, func(c *kubernetes.Config) { c.Namespace, c.Pods.PriorityClass = in, "none" })
	if _, err := none.Create(t.Context(), newSpec(t)); sandbox.CauseOf(err) != sandbox.CauseInvalid || !strings.Contains(err.Error(), `no PriorityClass with name none was found`) {
		t.Errorf("a class that is missing: %v", err)
	}
}
