package kubernetes

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"belljar/sandbox"
	"belljar/sandbox/internal/kube"
)

// claims are the volumes of PersistentVolumeClaims, each once, whatever it is mounted at. Their mounts are not recursively read-only,
// which old nodes cannot do: a pod in which anything is mounted below one is refused (see extraMounts).
func claims(asked []sandbox.Mount) (volumes []kube.Volume, mounts []kube.VolumeMount) {
	for _, m := range asked {
		i := slices.IndexFunc(volumes, func(v kube.Volume) bool { return v.PersistentVolumeClaim.ClaimName == m.Source })
		if i < 0 {
			i = len(volumes)
			volumes = append(volumes, kube.Volume{Name: "claim-" + strconv.Itoa(i), PersistentVolumeClaim: &kube.Claim{ClaimName: m.Source, ReadOnly: true}})
		}
		if m.Writable {
			volumes[i].PersistentVolumeClaim.ReadOnly = false
		}
		mounts = append(mounts, kube.VolumeMount{Name: volumes[i].Name, MountPath: m.Target, ReadOnly: !m.Writable})
	}
	return volumes, mounts
}

// unlikeAsked says which mount is not there, or can be written to though it was asked for read-only; "" is none. API servers leave out
// what they do not know, webhooks change pods, and a link in the image leads elsewhere.
func unlikeAsked(mountinfo string, asked []sandbox.Mount) string {
	all := mountsOf(mountinfo)
	for _, a := range asked {
		there := false
		for _, m := range all {
			if m.at == a.Target && !m.readOnly && !a.Writable {
				return fmt.Sprintf("it can write to volume %q at %s, which was to be read-only", a.Source, a.Target)
			}
			there = there || m.at == a.Target
		}
		if !there {
			return fmt.Sprintf("it has no volume %q at %s", a.Source, a.Target)
		}
	}
	return ""
}

// noClaim is the claim of a pod that does not exist, as the scheduler says. Everything else that it says of claims may pass.
func noClaim(pod *kube.Pod) string {
	for _, v := range pod.Spec.Volumes {
		if c := v.PersistentVolumeClaim; c != nil && strings.Contains(unscheduled(pod).Message, fmt.Sprintf("persistentvolumeclaim %q not found", c.ClaimName)) {
			return c.ClaimName
		}
	}
	return ""
}
