package kubernetes

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/kube"

	"github.com/google/go-cmp/cmp"
)

// A claim is one volume, wherever it is mounted, and only what is to be written to can be. The init's container has none.
func TestPodOfVolumes(t *testing.T) {
	e := behind(t, http.NotFound)
	spec := wantSpec()
	plain := e.pod(spec, "lease").Spec
	for name, c := range map[string]struct {
		asked   []sandbox.Mount
		volumes []kube.Volume
		mounts  []kube.VolumeMount
		group   bool
	}{
		"none": {},
		"read-only": {
			asked:   []sandbox.Mount{{Source: "a", Target: "/in"}},
			volumes: []kube.Volume{{Name: "claim-0", PersistentVolumeClaim: &kube.Claim{ClaimName: "a", ReadOnly: true}}},
			mounts:  []kube.VolumeMount{{Name: "claim-0", MountPath: "/in", ReadOnly: true}},
		},
		"twice, and another": {
			asked: []sandbox.Mount{{Source: "a", Target: "/in"}, {Source: "b.c", Target: "/b"}, {Source: "a", Target: "/out", Writable: true}},
			volumes: []kube.Volume{
				{Name: "claim-0", PersistentVolumeClaim: &kube.Claim{ClaimName: "a"}}, {Name: "claim-1", PersistentVolumeClaim: &kube.Claim{ClaimName: "b.c", ReadOnly: true}},
			},
			mounts: []kube.VolumeMount{{Name: "claim-0", MountPath: "/in", ReadOnly: true}, {Name: "claim-1", MountPath: "/b", ReadOnly: true}, {Name: "claim-0", MountPath: "/out"}},
			group:  true,
		},
	} {
		spec.Mounts = c.asked
		got := e.pod(spec, "lease").Spec
		if d := cmp.Diff(append(plain.Volumes[:len(plain.Volumes):len(plain.Volumes)], c.volumes...), got.Volumes); d != "" {
			t.Errorf("%s: volumes: %s", name, d)
		}
		before := plain.Containers[0].VolumeMounts
		if d := cmp.Diff(append(before[:len(before):len(before)], c.mounts...), got.Containers[0].VolumeMounts); d != "" {
			t.Errorf("%s: mounts: %s", name, d)
		}
		if d := cmp.Diff(plain.InitContainers, got.InitContainers); d != "" {
			t.Errorf("%s: the init's: %s", name, d)
		}
		s := got.SecurityContext
		if has := s.FSGroup != nil; has != c.group || has && *s.FSGroup != 50 || (s.FSGroupChangePolicy == "OnRootMismatch") != c.group {
			t.Errorf("%s: %+v", name, s)
		}
	}
	spec.Mounts = []sandbox.Mount{{Source: "a", Target: "/work", Writable: true}} // in the place of the one in memory
	for _, m := range e.pod(spec, "lease").Spec.Containers[0].VolumeMounts {
		if m.MountPath == "/work" && m.Name != "claim-0" {
			t.Errorf("%+v", m)
		}
	}
}

// What was asked for is there, as it was asked for, or the pod is refused.
func TestMountsAreLookedAtFromInside(t *testing.T) {
	const root, memory = "1 0 0:1 / / ro - overlay overlay ro\n", "2 1 0:2 / /tmp rw - tmpfs tmpfs rw\n3 1 0:3 / /work rw - tmpfs tmpfs rw\n"
	b := newBox(behind(t, http.NotFound), record{})
	defer b.Close()
	b.spec.Mounts = []sandbox.Mount{{Source: "a", Target: "/in"}, {Source: "b", Target: "/my out", Writable: true}}
	for name, c := range map[string]struct{ mounts, want string }{
		"as asked":               {"4 1 8:1 / /in ro,relatime shared:1 - ext4 /dev/x rw\n5 1 0:9 / /my\\040out rw - nfs4 host:/x rw\n", ""},
		"the writable one is ro": {"4 1 8:1 / /in ro - ext4 /dev/x rw\n5 1 0:9 / /my\\040out ro - nfs4 host:/x ro\n", ""}, // as its volume may be
		"readOnly was dropped":   {"4 1 8:1 / /in rw,relatime - ext4 /dev/x rw\n5 1 0:9 / /my\\040out rw - nfs4 host:/x rw\n", `it can write to volume "a" at /in`},
		"no word but ro":         {"4 1 8:1 / /in rw,errors=ro,row - ext4 /dev/x rw\n5 1 0:9 / /my\\040out rw - nfs4 host:/x rw\n", `it can write to volume "a" at /in`},
		"a second one over it":   {"4 1 8:1 / /in ro - ext4 /dev/x rw\n6 4 8:2 / /in rw - ext4 /dev/y rw\n5 1 0:9 / /my\\040out rw - nfs4 host:/x rw\n", `it can write to volume "a" at /in`},
		"one is missing":         {"4 1 8:1 / /in ro - ext4 /dev/x rw\n", `it has no volume "b" at /my out`},
		"a link leads away":      {"4 1 8:1 / /etc ro - ext4 /dev/x rw\n5 1 0:9 / /my\\040out rw - nfs4 host:/x rw\n", `it has no volume "a" at /in`},
		"one below it":           {"4 1 8:1 / /in ro - ext4 /dev/x rw\n6 4 8:2 / /in/sub rw - ext4 /dev/y rw\n5 1 0:9 / /my\\040out rw - nfs4 host:/x rw\n", "did not ask for: /in/sub"},
	} {
		err := b.judge(root+memory+c.mounts, "")
		if c.want == "" && err != nil || c.want != "" && (sandbox.CauseOf(err) != sandbox.CauseEngine || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhyAVolumeIsNotMounted(t *testing.T) {
	spec := wantSpec()
	spec.Mounts = []sandbox.Mount{{Source: "x", Target: "/data"}}
	pod := func(now string) *kube.Pod {
		return status(`{"metadata":{"namespace":"ns"},"spec":{"volumes":[{"name":"init","emptyDir":{}},{"name":"claim-0","persistentVolumeClaim":{"claimName":"x"}}]},"status":` + now + `}`)
	}
	unscheduled := func(message string) *kube.Pod {
		return pod(`{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"` + message + `"}]}`)
	}
	err, over := startError(unscheduled(`0/1 nodes are available: persistentvolumeclaim \"x\" not found. preemption: not helpful`), spec)
	if want := `volume "x": there is no PersistentVolumeClaim of that name in namespace "ns" (create it, or name another one: kubectl get pvc -n ns)`; !over || sandbox.CauseOf(err) != sandbox.CauseInvalid || err.Error() != want {
		t.Errorf("over: %v, error %v", over, err)
	}
	for _, message := range []string{
		`0/1 nodes are available: persistentvolumeclaim \"x\" is being deleted`, `0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims`,
		`0/1 nodes are available: persistentvolumeclaim \"y\" not found`, `0/2 nodes are available: 1 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod`,
	} {
		if err, over := startError(unscheduled(message), spec); over {
			t.Errorf("%s: it is not waited for: %v", message, err)
		}
		err := lateError(unscheduled(message), time.Minute)
		if words := strings.ReplaceAll(message, `\`, ""); sandbox.CauseOf(err) != sandbox.CauseBusy || !strings.Contains(err.Error(), words) || !strings.Contains(err.Error(), "or could mount its volumes") || !strings.Contains(err.Error(), "kubectl get pvc -n ns") {
			t.Errorf("%s: %v", message, err)
		}
	}
	err, over = startError(pod(`{"phase":"Failed","containerStatuses":[{"name":"sandbox","state":{"terminated":{"exitCode":128,"reason":"StartError","message":"error mounting \"/v\" to rootfs at \"/data\": not a directory"}}}]}`), spec)
	if !over || sandbox.CauseOf(err) != sandbox.CauseInvalid || !strings.Contains(err.Error(), `mount target "/data": the image has a file there`) {
		t.Errorf("over: %v, error %v", over, err)
	}
}
