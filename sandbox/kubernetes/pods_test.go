//go:build kubernetes

package kubernetes_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/kubernetes"
)

var user = sandbox.User{UID: 65534, GID: 65534}

var commands atomic.Int64

func newSpec(t testing.TB, change ...func(*sandbox.Spec)) sandbox.Spec {
	t.Helper()
	s := sandbox.Spec{
		Command: fmt.Sprintf("pods-%d-%d", time.Now().UnixNano(), commands.Add(1)), Image: base(t), User: user, Workdir: "/work", Network: "none",
		Limits:   sandbox.Limits{Memory: 128 << 20, CPUs: 1, Pids: 64, Output: 1 << 20, Tmp: 8 << 20, Files: 256},
		Deadline: time.Now().Add(10 * time.Minute),
	}
	for _, change := range change {
		change(&s)
	}
	return s
}

func create(t testing.TB, e *kubernetes.Engine, s sandbox.Spec) sandbox.Container {
	t.Helper()
	box, err := e.Create(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := box.Remove(ctx); err != nil {
			t.Error(err)
		}
	})
	return box
}

func begin(t testing.TB, box sandbox.Container, script string) (sandbox.Running, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	p, err := box.Exec(t.Context(), sandbox.Exec{Script: script, Dir: "/work", User: user, Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatalf("%q: %v", script, err)
	}
	return p, &out
}

func run(t testing.TB, box sandbox.Container, script string) (string, int) {
	t.Helper()
	p, out := begin(t, box, script)
	status, err := p.Wait(t.Context())
	if err != nil {
		t.Fatalf("%q: %v", script, err)
	}
	return out.String(), status
}

// podOf is the name of a container's pod.
func podOf(t testing.TB, box sandbox.Container) string {
	t.Helper()
	out := mustKubectl(t, "-n", namespace, "get", "pods", "-o", `jsonpath={range .items[*]}{.metadata.uid} {.metadata.name}{"\n"}{end}`)
	for line := range strings.Lines(out + "\n") {
		if uid, name, _ := strings.Cut(strings.TrimSpace(line), " "); uid == box.Info().ID {
			return name
		}
	}
	t.Fatalf("no pod has the UID %s: %s", box.Info().ID, out)
	return ""
}

// Every line of the lock-down, from inside.
func TestLockdown(t *testing.T) {
	t.Parallel()
	box := create(t, open(t), newSpec(t))
	for script, want := range map[string]string{
		"id -u; id -g; id -G": "65534\n65534\n65534\n",
		"grep -E '^(CapInh|CapPrm|CapEff|CapBnd|CapAmb):' /proc/self/status | grep -vc 0000000000000000; grep NoNewPrivs /proc/self/status | tr -d '\\t'": "0\nNoNewPrivs:1\n",
		"grep '^Seccomp:' /proc/self/status | tr -d '\\t'":                                        "Seccomp:2\n",
		"grep '^Seccomp_filters:' /proc/self/status | tr -d '\\t'":                                "Seccomp_filters:2\n", // the runtime's, and the init's
		"touch /x /bin/x /etc/x 2>&1 | grep -c Read-only":                                         "3\n",
		"ls -A /var/run/secrets /run/secrets 2>/dev/null | wc -l":                                 "0\n",
		"env | grep -ciE 'kube|evil|service'":                                                     "0\n",
		"cat /proc/1/environ 2>/dev/null | wc -c; kill -9 1; kill -STOP 1; kill -SEGV 1; echo on": "0\non\n",
		"grep -v '^nameserver 127.0.0.1' /etc/resolv.conf | wc -l":                                "0\n",
		"nc -w 1 127.0.0.1 1 2>&1 | grep -c 'not supported by protocol'":                          "1\n",
		"ip addr 2>&1 | grep -c 'not supported by protocol'":                                      "1\n",
		"ulimit -n; ulimit -c": "256\n0\n",
		"mount -t tmpfs x /work 2>&1 | grep -ciE 'denied|not permitted'; unshare -r true 2>&1 | grep -c 'not permitted'": "1\n1\n",
		"for d in /tmp /work /dev/shm; do stat -f -c '%T' $d; df -k $d | awk 'NR == 2 { print $2 }'; done":               strings.Repeat("tmpfs\n8192\n", 3),
		"head -c 10m /dev/zero 2>/dev/null >/tmp/large; echo $?; stat -c %s /tmp/large; rm /tmp/large":                   "1\n8388608\n",
		"head -c 20m /dev/zero >/dev/termination-log; stat -c %s /dev/termination-log":                                   "File size limit exceeded\n9437184\n",
		"pwd; echo $HOME $TERM; hostname | cut -c1-8":                                                                    "/work\n/tmp dumb\nbelljar-\n",
	} {
		if out, _ := run(t, box, script); out != want {
			t.Errorf("%s:\n got %q\nwant %q", script, out, want)
		}
	}
}

func TestImages(t *testing.T) {
	t.Parallel()
	e := open(t)
	i, err := e.Resolve(t.Context(), "localhost/volume:test", sandbox.PullNever)
	if err != nil || !slices.Equal(i.Volumes, []string{"/data"}) || !strings.HasPrefix(i.ID, "sha256:") {
		t.Fatalf("%+v, error %v", i, err)
	}
	box := create(t, e, newSpec(t, func(s *sandbox.Spec) { s.Image = i }))
	if out, _ := run(t, box, "stat -f -c %T /data; touch /data/x && echo written"); out != "tmpfs\nwritten\n" {
		t.Errorf("a volume of the image: %q", out)
	}
	modes, err := e.Modes(t.Context(), i, []string{"/bin/sh", "/bin/busybox", "/bin/none"})
	if err != nil || modes[0].String() != "Lrwxr-xr-x" || modes[1].Perm() != 0o755 || modes[2].IsRegular() {
		t.Errorf("%v, error %v", modes, err)
	}
	for reference, pull := range map[string]sandbox.PullPolicy{"localhost/none:1": sandbox.PullNever, "127.0.0.1:1/none:1": sandbox.PullMissing} {
		if _, err := e.Resolve(t.Context(), reference, pull); sandbox.CauseOf(err) != sandbox.CauseImage {
			t.Errorf("%s: %v", reference, err)
		}
	}
	empty, err := e.Resolve(t.Context(), "localhost/empty:test", sandbox.PullMissing)
	if err != nil {
		t.Fatal(err)
	}
	box = create(t, e, newSpec(t, func(s *sandbox.Spec) { s.Image = empty }))
	if _, err := box.Exec(t.Context(), sandbox.Exec{Script: "true", Dir: "/work", User: user}); sandbox.CauseOf(err) != sandbox.CauseImage {
		t.Errorf("an image without a shell: %v", err)
	}
	gone := newSpec(t, func(s *sandbox.Spec) { s.Image.ID = "sha256:" + strings.Repeat("0", 64) })
	if _, err := e.Create(t.Context(), gone); sandbox.CauseOf(err) != sandbox.CauseImage {
		t.Errorf("an image that is gone: %v", err)
	}
	other := open(t, func(c *kubernetes.Config) { c.InitImage = "localhost/none:1" })
	if _, err := other.Create(t.Context(), newSpec(t)); sandbox.CauseOf(err) != sandbox.CauseEngine || !strings.Contains(err.Error(), "engine.kubernetes.image") {
		t.Errorf("belljar's own image is gone: %v", err)
	}
}

// Another process takes an image as it was resolved a moment ago, until no node has it.
func TestImagesAreRemembered(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := func(c *kubernetes.Config) { c.Dir, c.Start = dir, time.Minute }
	first, err := open(t, in).Resolve(t.Context(), baseImage, sandbox.PullMissing)
	if err != nil {
		t.Fatal(err)
	}
	other := open(t, in, func(c *kubernetes.Config) { c.Start = time.Millisecond }) // too short for a pod
	if i, err := other.Resolve(t.Context(), baseImage, sandbox.PullMissing); err != nil || i.ID != first.ID {
		t.Errorf("%+v, error %v", i, err)
	}
	if _, err := other.Resolve(t.Context(), baseImage, sandbox.PullAlways); err == nil {
		t.Error("it was not resolved again")
	}
	e := open(t, in)
	if _, err := e.Create(t.Context(), newSpec(t, func(s *sandbox.Spec) { s.Image.ID = "sha256:" + strings.Repeat("0", 64) })); sandbox.CauseOf(err) != sandbox.CauseImage {
		t.Errorf("%v", err)
	}
	if _, err := open(t, in, func(c *kubernetes.Config) { c.Start = time.Millisecond }).Resolve(t.Context(), baseImage, sandbox.PullMissing); err == nil {
		t.Error("it is remembered though a pod of it could not be made")
	}
}

func TestEvidence(t *testing.T) {
	t.Parallel()
	e := open(t)
	box := create(t, e, newSpec(t))
	if _, status := run(t, box, "tail /dev/zero"); status != 137 {
		t.Errorf("out of memory: status %d", status)
	}
	if c, err := box.Counters(t.Context()); err != nil || c.OOMKills == 0 || c.Source != "cgroup" || c.MaxMemoryBytes < 100<<20 || c.CPUSeconds == 0 {
		t.Errorf("%+v, error %v", c, err)
	}
	box = create(t, e, newSpec(t))
	run(t, box, "head -c 10m /dev/zero >/tmp/x")
	if c, err := box.Counters(t.Context()); err != nil || !slices.Equal(c.DiskFull, []string{"/tmp"}) {
		t.Errorf("%+v, error %v", c, err)
	}
	box = create(t, e, newSpec(t)) // the cluster's kubelet has podPidsLimit 512
	run(t, box, "i=0; while [ $i -lt 600 ]; do sleep 600 & i=$((i+1)); done 2>/dev/null")
	if c, err := box.Counters(t.Context()); err != nil || c.PidsLimitHits == 0 {
		t.Errorf("%+v, error %v", c, err)
	}
}

// A node's log has a record for each line that a container writes: of output with many lines it gets few.
func TestLogOfManyLines(t *testing.T) {
	t.Parallel()
	box := create(t, open(t), newSpec(t))
	if out, status := run(t, box, "yes | head -c 4000000"); status != 0 || out != strings.Repeat("y\n", 2_000_000) {
		t.Errorf("status %d, %d bytes", status, len(out))
	}
	if n := strings.Count(mustKubectl(t, "-n", namespace, "logs", podOf(t, box)), "\n"); n > 4000 {
		t.Errorf("the log has %d lines", n)
	}
}

// wantLost expects the end of a command whose pod was ended by another, within that time.
func wantLost(t *testing.T, box sandbox.Container, p sandbox.Running, within time.Duration, reason string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	status, err := p.Wait(ctx)
	if sandbox.CauseOf(err) != sandbox.CauseEngineLost || !strings.Contains(err.Error(), reason) || ctx.Err() != nil {
		t.Errorf("status %d, error %v, want %q", status, err, reason)
	}
	select {
	case <-box.Lost():
	case <-ctx.Done():
		t.Error("it is not lost")
	}
	if _, err := box.Exec(t.Context(), sandbox.Exec{Script: "true", Dir: "/work", User: user}); sandbox.CauseOf(err) != sandbox.CauseEngineLost {
		t.Errorf("after that: %v", err)
	}
}

// evict evicts a pod.
func evict(t *testing.T, in, name string) {
	t.Helper()
	cmd := exec.Command("sh", "-c", fmt.Sprintf(`echo '{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"%s","namespace":"%s"}}' | "$CLUSTER_PROGRAM" kubectl create --raw /api/v1/namespaces/%[2]s/pods/%[1]s/eviction -f -`, name, in))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func TestPodEndsOtherwise(t *testing.T) {
	t.Parallel()
	e := open(t)
	t.Run("deleted", func(t *testing.T) {
		box := create(t, e, newSpec(t))
		p, _ := begin(t, box, "sleep 100")
		mustKubectl(t, "-n", namespace, "delete", "pod", podOf(t, box), "--wait=false")
		wantLost(t, box, p, 20*time.Second, "deleted")
	})
	t.Run("evicted", func(t *testing.T) {
		box := create(t, e, newSpec(t))
		p, _ := begin(t, box, "sleep 100")
		evict(t, namespace, podOf(t, box))
		wantLost(t, box, p, 20*time.Second, "EvictionByEvictionAPI")
	})
	t.Run("evicted, where the kernel has killed a process before", func(t *testing.T) {
		box := create(t, e, newSpec(t))
		if _, status := run(t, box, "tail /dev/zero"); status != 137 {
			t.Errorf("out of memory: status %d", status)
		}
		p, _ := begin(t, box, "sleep 100")
		evict(t, namespace, podOf(t, box))
		wantLost(t, box, p, 20*time.Second, "EvictionByEvictionAPI")
	})
	t.Run("deadline", func(t *testing.T) {
		box := create(t, e, newSpec(t))
		p, _ := begin(t, box, "sleep 100")
		mustKubectl(t, "-n", namespace, "patch", "pod", podOf(t, box), "-p", `{"spec":{"activeDeadlineSeconds":1}}`)
		wantLost(t, box, p, 30*time.Second, "DeadlineExceeded")
	})
}

func TestQuota(t *testing.T) {
	t.Parallel()
	const name = "belljar-test-quota"
	own := namespace + "-quota"
	if err := makeNamespace(own); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kubectl("delete", "namespace", own, "--wait=false") })
	mustKubectl(t, "-n", own, "create", "quota", name, "--hard=pods=1")
	e := open(t, func(c *kubernetes.Config) { c.Namespace = own })
	spec := newSpec(t)
	var err error
	var box sandbox.Container
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(time.Second) { // until the quota counts
		if box, err = e.Create(t.Context(), spec); err == nil {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	_, err = e.Create(t.Context(), newSpec(t))
	var busy *sandbox.Error
	if !errors.As(err, &busy) || busy.Cause != sandbox.CauseBusy || busy.RetryAfter == 0 || !strings.Contains(err.Error(), "exceeded quota") {
		t.Errorf("%v", err)
	}
	if err := box.Remove(t.Context()); err != nil {
		t.Error(err)
	}
	if left := left(own); strings.Contains(left, "pod/") {
		t.Error(left)
	}
}

func TestNoRoom(t *testing.T) {
	t.Parallel()
	e := open(t, func(c *kubernetes.Config) {
		c.Start, c.Pods.NodeSelector = 20*time.Second, map[string]string{"no": "such"}
	})
	_, err := e.Create(t.Context(), newSpec(t))
	if sandbox.CauseOf(err) != sandbox.CauseBusy || !strings.Contains(err.Error(), "Unschedulable") {
		t.Errorf("%v", err)
	}
}
