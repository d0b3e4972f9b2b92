package kubernetes

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"belljar/internal/boxinit"
	"belljar/sandbox"
	"belljar/sandbox/internal/kube"
	"belljar/sandbox/internal/lockdown"
)

// The labels and annotations of every pod. They are for people and for finding pods; belljar
// trusts none of them.
const (
	labelManaged = "app.kubernetes.io/managed-by"
	labelOwner   = "belljar.dev/owner" // the name of its process's Lease
	labelKind    = "belljar.dev/kind"  // command, pool, session or image

	noteCommand  = "belljar.dev/command"
	noteSession  = "belljar.dev/session"
	notePool     = "belljar.dev/pool"
	noteImage    = "belljar.dev/image"
	noteUser     = "belljar.dev/user"
	noteDeadline = "belljar.dev/deadline"
	noteMaker    = "belljar.dev/maker" // tells the pod of one request from that of another

	// noteEvictable lets a cluster autoscaler empty the node of a pod that has no controller.
	noteEvictable = "cluster-autoscaler.kubernetes.io/safe-to-evict"

	managedBy = "belljar"
)

const (
	mainContainer = "sandbox"
	initContainer = "init" // copies the init
	initVolume    = "init"
	initFile      = "belljar"
	copyDir       = "/belljar-init"

	// podGrace is, in seconds, for who else deletes or evicts a pod. With 0 the API server forgets it at once, while it
	// still runs, and with it the reason.
	podGrace = 1

	// deadlineSpare is how much later than the init the kubelet ends a pod.
	deadlineSpare = 30 * time.Second

	// lonelyFor is how much longer than a pod may take to run a session's init waits for who made it: that may have been killed before it
	// knew of the pod.
	lonelyFor = time.Minute

	// diskLimit bounds what a pod takes of its node's disk: the init's program and what the runtime logs. Commands can write to
	// memory only, but what they print is in the pod's log (see outputBurst).
	diskLimit, diskRequest = "2Gi", "64Mi"

	// leastForCopy is the memory of the container that copies the init.
	leastForCopy = 64 << 20
)

// podName is the name of the pod of a command: the same one cannot run twice.
func podName(spec sandbox.Spec) string {
	sum := sha256.Sum256([]byte(spec.Command))
	return "belljar-" + hex.EncodeToString(sum[:10])
}

func kindOf(spec sandbox.Spec) string {
	switch {
	case spec.Session != "":
		return "session"
	case spec.Pool != "":
		return "pool"
	}
	return "command"
}

// endsWithUs reports whether a pod ends with this process.
func (e *Engine) endsWithUs(spec sandbox.Spec) bool {
	return spec.Session == "" || e.config.OwnSessions
}

// pod is the pod for a spec. Every line of its lock-down has a test that looks from inside.
func (e *Engine) pod(spec sandbox.Spec, lease string) *kube.Pod {
	yes, no, grace := true, false, int64(podGrace)
	uid, gid := int64(spec.User.UID), int64(spec.User.GID)
	left := int64(max(1, (time.Until(spec.Deadline)+deadlineSpare)/time.Second))
	p := e.config.Pods
	labels := maps.Clone(p.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[labelManaged], labels[labelOwner], labels[labelKind] = managedBy, lease, kindOf(spec)
	security := &kube.ContainerSecurity{
		AllowPrivilegeEscalation: &no, Privileged: &no, ReadOnlyRootFilesystem: &yes, Capabilities: &kube.Capabilities{Drop: []string{"ALL"}},
	}
	volumes, mounts := directories(spec)
	claims, claimMounts := claims(spec.Mounts)
	volumes, mounts = append(volumes, claims...), append(mounts, claimMounts...)
	pod := &kube.Pod{
		APIVersion: "v1", Kind: "Pod",
		Metadata: kube.Meta{Name: podName(spec), Labels: labels, Annotations: map[string]string{
			noteCommand: spec.Command, noteSession: spec.Session, notePool: spec.Pool, noteImage: spec.Image.Reference,
			noteUser: spec.User.String(), noteDeadline: e.onItsClock(spec.Deadline).Format(time.RFC3339), noteMaker: rand.Text(),
		}},
		Spec: kube.PodSpec{
			RestartPolicy: "Never", TerminationGracePeriodSeconds: &grace, ActiveDeadlineSeconds: &left,
			AutomountServiceAccountToken: &no, EnableServiceLinks: &no,
			DNSPolicy: "None", DNSConfig: &kube.DNSConfig{Nameservers: []string{"127.0.0.1"}}, // nothing of the cluster's
			SecurityContext: &kube.PodSecurity{
				RunAsNonRoot: &yes, RunAsUser: &uid, RunAsGroup: &gid, SeccompProfile: seccomp(p.Seccomp),
			},
			RuntimeClassName: spec.Runtime, NodeSelector: nodes(p.NodeSelector), Tolerations: p.Tolerations, PriorityClassName: p.PriorityClass,
			TopologySpreadConstraints: spread(),
			Volumes:                   append([]kube.Volume{{Name: initVolume, EmptyDir: &kube.EmptyDir{}}}, volumes...),
			InitContainers: []kube.Container{{
				Name: initContainer, Image: e.config.InitImage, ImagePullPolicy: e.config.Pull,
				Command: []string{e.config.InitPath, boxinit.CopyArg, copyDir + "/" + initFile}, SecurityContext: security,
				Resources: resources(spec.Limits, leastForCopy), VolumeMounts: []kube.VolumeMount{{Name: initVolume, MountPath: copyDir}},
			}},
			Containers: []kube.Container{{
				Name: mainContainer, Image: spec.Image.ID, ImagePullPolicy: pullFor(spec.Image.ID), Command: e.initArgs(spec), WorkingDir: "/",
				Stdin: true, StdinOnce: e.endsWithUs(spec), SecurityContext: security, Resources: resources(spec.Limits, 0),
				VolumeMounts:           append([]kube.VolumeMount{{Name: initVolume, MountPath: boxinit.Path, SubPath: initFile, ReadOnly: true}}, mounts...),
				TerminationMessagePath: "/dev/termination-log",
			}},
		},
	}
	if kindOf(spec) == "pool" { // it may run a command by now, which a PodDisruptionBudget is for: belljar may not change pods
		pod.Metadata.Annotations[noteEvictable] = "true"
	}
	if slices.ContainsFunc(spec.Mounts, func(m sandbox.Mount) bool { return m.Writable }) {
		// A new volume belongs to root, which no command is. Without one that is to be written, modes stay as they are.
		pod.Spec.SecurityContext.FSGroup, pod.Spec.SecurityContext.FSGroupChangePolicy = &gid, "OnRootMismatch"
	}
	if p.UserNamespaces {
		pod.Spec.HostUsers = &no
	}
	for _, name := range p.PullSecrets {
		pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, kube.Name{Name: name})
	}
	return pod
}

// onItsClock is a time of this machine's clock on the API server's, which Sweep and, as good as that, the nodes' inits go by.
func (e *Engine) onItsClock(at time.Time) time.Time {
	return e.client.Now().Add(time.Until(at)).UTC()
}

// initArgs are the main process.
func (e *Engine) initArgs(spec sandbox.Spec) []string {
	// The longest file is a little longer than the largest directory: what a full one says is that it is full. The file for
	// the container's last words is on the node's disk, and commands may write to it.
	c := boxinit.Config{Carrier: boxinit.Frames, UID: spec.User.UID, Alone: true, NoSockets: true, Files: spec.Limits.Files, FileSize: spec.Limits.Tmp + 1<<20}
	if spec.Session != "" { // no Sweep ends one that runs
		c.Deadline = e.onItsClock(spec.Deadline).Unix()
		c.Lonely = int64((e.config.Start + lonelyFor) / time.Second)
	}
	return c.Args()
}

// spread asks the scheduler for nodes that have fewer of belljar's pods, so that the loss of a node is that of few. Where that
// cannot be, a pod runs all the same.
func spread() []kube.Spread {
	return []kube.Spread{{
		MaxSkew: 1, TopologyKey: "kubernetes.io/hostname", WhenUnsatisfiable: "ScheduleAnyway",
		LabelSelector: kube.LabelSelector{MatchLabels: map[string]string{labelManaged: managedBy}},
	}}
}

// nodes are those with the labels, and with Linux: of a cluster that has others, their taints keep pods away only where someone gave them any.
func nodes(labels map[string]string) map[string]string {
	all := map[string]string{"kubernetes.io/os": "linux"}
	maps.Copy(all, labels)
	return all
}

func seccomp(profile string) *kube.Seccomp {
	if profile == "" {
		return &kube.Seccomp{Type: "RuntimeDefault"}
	}
	return &kube.Seccomp{Type: "Localhost", LocalhostProfile: profile}
}

// directories are the writable ones, in memory.
func directories(spec sandbox.Spec) (volumes []kube.Volume, mounts []kube.VolumeMount) {
	all := slices.Collect(maps.Keys(lockdown.Tmpfs(spec)))
	slices.Sort(all)
	for i, dir := range append(all, "/dev/shm") {
		name := "dir-" + strconv.Itoa(i)
		volumes = append(volumes, kube.Volume{Name: name, EmptyDir: &kube.EmptyDir{Medium: "Memory", SizeLimit: strconv.FormatInt(wholePages(spec.Limits.Tmp), 10)}})
		mounts = append(mounts, kube.VolumeMount{Name: name, MountPath: path.Clean(dir)})
	}
	return volumes, mounts
}

// wholePages rounds a size up to pages of any node. The kernel does so with a file system in memory, and a kubelet evicts a pod whose
// directory has more in it than its limit.
func wholePages(size int64) int64 {
	const page = 64 << 10
	return (size + page - 1) / page * page
}

// resources are a container's. A scheduler counts all of its memory, and a tenth of its processors.
func resources(l sandbox.Limits, least int64) *kube.Resources {
	memory, cpus := strconv.FormatInt(max(l.Memory, least), 10), max(1, int64(l.CPUs*1000))
	return &kube.Resources{
		Limits:   map[string]string{"memory": memory, "cpu": fmt.Sprintf("%dm", cpus), "ephemeral-storage": diskLimit},
		Requests: map[string]string{"memory": memory, "cpu": fmt.Sprintf("%dm", max(1, cpus/10)), "ephemeral-storage": diskRequest},
	}
}

// pullFor is when a node pulls an image that was resolved. One without a digest of a registry cannot be.
func pullFor(id string) string {
	if strings.HasPrefix(id, "sha256:") {
		return "Never"
	}
	return "IfNotPresent"
}
