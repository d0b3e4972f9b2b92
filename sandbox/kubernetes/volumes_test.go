//go:build kubernetes

package kubernetes_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"belljar/policy"
	"belljar/sandbox"
	"belljar/sandbox/kubernetes"
	runners "belljar/sandbox/local"
)

// claim makes a PersistentVolumeClaim and its volume: a directory of the node, which is this machine.
func claim(t testing.TB, name string) (dir string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "belljar-volume-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil { // root's, as a new volume is
		t.Fatal(err)
	}
	volume := namespace + "-" + name
	t.Cleanup(func() {
		mustKubectl(t, "-n", namespace, "delete", "pvc", name)
		mustKubectl(t, "delete", "pv", volume)
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	apply(t, fmt.Sprintf(`
apiVersion: v1
kind: PersistentVolume
metadata: {name: %[1]s}
spec:
  capacity: {storage: 1Mi}
  accessModes: [ReadWriteMany]
  persistentVolumeReclaimPolicy: Retain
  storageClassName: ""
  claimRef: {namespace: %[2]s, name: %[3]s}
  local: {path: %[4]s}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: Exists}]}]}}
---
`, volume, namespace, name, dir)+claimText(name, "ReadWriteMany", ""))
	mustKubectl(t, "-n", namespace, "wait", "pvc/"+name, "--for=jsonpath={.status.phase}=Bound", "--timeout=1m")
	return dir
}

func claimText(name, mode, class string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {namespace: %s, name: %s}
spec: {accessModes: [%s], storageClassName: %q, resources: {requests: {storage: 1Mi}}}
`, namespace, name, mode, class)
}

func mounting(mounts ...sandbox.Mount) func(*sandbox.Spec) {
	return func(s *sandbox.Spec) { s.Mounts = mounts }
}

func TestVolumes(t *testing.T) {
	t.Parallel()
	dir := claim(t, "shared.cache")
	e := open(t)

	writes := create(t, e, newSpec(t, mounting(sandbox.Mount{Source: "shared.cache", Target: "/data", Writable: true})))
	for script, want := range map[string]string{
		"echo one >/data/file && mkdir /data/dir && cat /data/file": "one\n",
		"id -u; id -g; id -G": "65534\n65534\n65534\n", // fsGroup adds none
		"for d in /tmp /work /dev/shm; do echo x >$d/f && cat $d/f; done": "x\nx\nx\n",
		"for d in /tmp /work /dev/shm; do stat -f -c %T $d; done":         "tmpfs\ntmpfs\ntmpfs\n",
		"touch /x 2>&1 | grep -c Read-only":                               "1\n",
	} {
		if out, _ := run(t, writes, script); out != want {
			t.Errorf("%s: %q, want %q", script, out, want)
		}
	}
	if text, err := os.ReadFile(dir + "/file"); string(text) != "one\n" {
		t.Errorf("the volume has %q, error %v", text, err)
	}

	reads := create(t, e, newSpec(t, mounting(sandbox.Mount{Source: "shared.cache", Target: "/work"})))
	if out, _ := run(t, reads, "cat file; touch /work/x /work/dir/x 2>&1 | grep -c Read-only; echo x >file"); !strings.HasPrefix(out, "one\n2\n") || !strings.Contains(out, "Read-only") {
		t.Errorf("read-only: %q", out)
	}

	both := create(t, e, newSpec(t, mounting(sandbox.Mount{Source: "shared.cache", Target: "/out", Writable: true}, sandbox.Mount{Source: "shared.cache", Target: "/work/in"})))
	if out, _ := run(t, both, "echo two >/out/file; cat in/file; touch in/x 2>&1 | grep -c Read-only; touch beside && ls"); out != "two\n1\nbeside\nin\n" {
		t.Errorf("two mounts: %q", out)
	}
}

// What a claim cannot give is told: by a cause of its own at once, where it does not exist, and else in Kubernetes' words.
func TestVolumesThatCannotBeMounted(t *testing.T) {
	t.Parallel()
	began := time.Now()
	_, err := open(t).Create(t.Context(), newSpec(t, mounting(sandbox.Mount{Source: "none", Target: "/data"})))
	var is *sandbox.Error
	if !errors.As(err, &is) || is.Cause != sandbox.CauseInvalid || !strings.Contains(is.Message, `volume "none": there is no PersistentVolumeClaim of that name in namespace "`+namespace) || !strings.Contains(is.Hint, "kubectl get pvc") {
		t.Errorf("no claim: %v", err)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("no claim: told after %s", took)
	}

	late := open(t, func(c *kubernetes.Config) { c.Start = 20 * time.Second })
	apply(t, claimText("unbound", "ReadWriteOnce", "none"))
	gone := claim(t, "gone")
	if err := os.Remove(gone); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mustKubectl(t, "-n", namespace, "delete", "pvc", "unbound") })
	for name, want := range map[string]struct {
		cause sandbox.Cause
		words []string
	}{
		"unbound": {sandbox.CauseBusy, []string{"unbound immediate PersistentVolumeClaims", "kubectl get pvc"}},
		"gone":    {sandbox.CauseEngine, []string{"its node gave it no sandbox, which takes its volumes", "kubectl get events"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := late.Create(t.Context(), newSpec(t, mounting(sandbox.Mount{Source: name, Target: "/data"})))
			for _, words := range want.words {
				if sandbox.CauseOf(err) != want.cause || !strings.Contains(err.Error(), words) {
					t.Error(err)
				}
			}
		})
	}
}

// A mount is where it was asked for, or there is none: commands may have made links in a volume.
func TestTargetsOfVolumes(t *testing.T) {
	t.Parallel()
	e := open(t)
	dir := claim(t, "linked")
	if err := os.Symlink("/opt", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	for target, want := range map[string]struct {
		cause sandbox.Cause
		words string
	}{
		"/bin/busybox": {sandbox.CauseInvalid, `mount target "/bin/busybox": the image has a file there`},
		"/data/link":   {sandbox.CauseEngine, `it has no volume "linked" at /data/link (choose a target without a symbolic link`},
	} {
		_, err := e.Create(t.Context(), newSpec(t, mounting(sandbox.Mount{Source: "linked", Target: "/data"}, sandbox.Mount{Source: "linked", Target: target, Writable: true})))
		if sandbox.CauseOf(err) != want.cause || !strings.Contains(err.Error(), want.words) {
			t.Errorf("%s: %v", target, err)
		}
	}
}

// By the allow list, from the profile to the pod.
func TestVolumesByPolicy(t *testing.T) {
	t.Parallel()
	claim(t, "allowed")
	claim(t, "other")
	e := open(t)
	l := &runners.Local{Engine: e, Images: e, StateDir: t.TempDir()}
	defer l.Close()
	p := sandbox.Defaults().Profile
	p.Image, p.Pool.Max = baseImage, sandbox.NoPool
	p.Policy = policy.Rules{Mounts: []policy.MountRule{{Volume: "allowed", Target: "/data", Mode: policy.ReadWrite}, {Source: "/", Mode: policy.ReadWrite}}}
	l.Profiles = map[string]sandbox.Profile{"default": p}
	r, err := sandbox.Run(t.Context(), l, sandbox.Command{Script: "echo x >/data/f; cat /data/f", Mounts: []sandbox.Mount{{Source: "allowed", Target: "/data", Writable: true}}})
	if err != nil || string(r.Stdout.Head) != "x\n" {
		t.Errorf("allowed: %q, error %v", r.Stderr.Head, err)
	}
	_, err = sandbox.Run(t.Context(), l, sandbox.Command{Script: "true", Mounts: []sandbox.Mount{{Source: "other", Target: "/data"}}})
	if sandbox.CauseOf(err) != sandbox.CauseDenied || !strings.Contains(err.Error(), `mount "other:/data:ro" denied: no rule in mounts.allow`) {
		t.Errorf("another: %v", err)
	}
}
