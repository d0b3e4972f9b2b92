package kubernetes

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/failure"
	"belljar/sandbox/internal/kube"
)

// pullReasons are those of a container that waits for its image, and does not get it.
var pullReasons = []string{"ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ErrImagePull", "ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed"}

// noImage reports whether a container does not get its image.
func noImage(w *kube.Waiting) bool {
	return w != nil && slices.Contains(pullReasons, w.Reason) && !throttled(w)
}

// throttled reports whether it is a kubelet's own limit of pulls (registryPullQPS) that a container waits for, which passes. Its ErrImagePull
// has these words, and the ImagePullBackOff after that quotes them.
func throttled(w *kube.Waiting) bool {
	return w != nil && slices.Contains(pullReasons, w.Reason) && strings.Contains(w.Message, "pull QPS exceeded")
}

// makeReasons are those of a container that its runtime does not make, or not start.
var makeReasons = []string{"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}

// noDirectory reports whether a runtime says that it cannot mount something where the image has no directory. containerd says of such a
// container that it has ended. A node that cannot mount the image itself says neither.
func noDirectory(message string) bool {
	return strings.Contains(message, "to rootfs") || strings.Contains(message, "ot a directory")
}

// text is what Kubernetes says, as an error that is one line.
func text(reason, message string) error { return errors.New(failure.OneLine(said(reason, message))) }

// startError says why a pod will not run, if that is known by now.
func startError(pod *kube.Pod, spec sandbox.Spec) (err error, yes bool) {
	s := pod.Status
	if s == nil {
		return nil, false
	}
	if name := noClaim(pod); name != "" {
		return engineError(nil, "volume %q: there is no PersistentVolumeClaim of that name in namespace %q", name, pod.Metadata.Namespace).As(sandbox.CauseInvalid).
			Hint("create it, or name another one: kubectl get pvc -n " + pod.Metadata.Namespace), true
	}
	over := s.Phase == "Failed" || s.Phase == "Succeeded"
	if pod.Metadata.DeletionTimestamp != nil || over && ofPod(pod) != "" {
		return goneError(pod), true
	}
	if slices.ContainsFunc(slices.Concat(s.InitContainerStatuses, s.ContainerStatuses), func(c kube.ContainerStatus) bool { return isUnknown(c.State.Terminated) }) {
		return engineError(nil, "the pod ended before it ran: its node does not know how, as after a restart").As(sandbox.CauseEngineLost).Hint("run the command again; see: kubectl describe nodes"), true
	}
	for _, own := range s.InitContainerStatuses {
		if own.Name != initContainer {
			if err := foreignError(own, pod.Metadata.Namespace); err != nil {
				return err, true
			}
			continue
		}
		if w := own.State.Waiting; noImage(w) {
			return engineError(text(w.Reason, w.Message), "starting a container of belljar's own image").Hint("check engine.kubernetes.image, its path and its pull secrets"), true
		}
		if t := own.State.Terminated; starved(t) {
			return starvedError(t, spec), true
		} else if t != nil && (t.ExitCode != 0 || t.Signal != 0) {
			return engineError(text(t.Reason, t.Message), "copying belljar's init into the pod: exit status %d", t.ExitCode).
				Hint("set engine.kubernetes.image to an image of this belljar's version; see: belljar doctor"), true
		}
	}
	main := statusOf(s.ContainerStatuses, mainContainer)
	if w := main.State.Waiting; w != nil {
		switch {
		case noImage(w):
			return engineError(text(w.Reason, w.Message), "getting image %q", spec.Image.Reference).As(sandbox.CauseImage).
				Hint("check its name, and that the nodes can pull it: engine.kubernetes.pull_secrets"), true
		case slices.Contains(makeReasons, w.Reason) && noDirectory(w.Message):
			return makeError(w.Reason, w.Message, spec), true
		} // other reasons to make no container may pass, as those of a node that has too much to do
	}
	if t := main.State.Terminated; starved(t) {
		return starvedError(t, spec), true
	} else if t != nil {
		if t.Reason == "StartError" && noDirectory(t.Message) {
			return makeError(t.Reason, t.Message, spec), true
		}
		return engineError(text(t.Reason, t.Message), "the pod's init ended before a command: exit status %d", t.ExitCode).
			Hint("set engine.kubernetes.image to an image of this belljar's version; see: belljar doctor"), true
	}
	if over {
		return engineError(text(s.Reason, s.Message), "the pod ended before it ran").Hint("see: kubectl describe nodes"), true
	}
	return nil, false
}

// foreignError says what is wrong with an init container that another program added, nil where nothing is.
func foreignError(c kube.ContainerStatus, namespace string) error {
	w, t := c.State.Waiting, c.State.Terminated
	switch {
	case noImage(w):
		return engineError(text(w.Reason, w.Message), "getting the image of init container %q, which belljar did not ask for", c.Name).Hint(webhookHint("init containers", namespace))
	case t != nil && (t.ExitCode != 0 || t.Signal != 0):
		return engineError(text(t.Reason, t.Message), "init container %q, which belljar did not ask for, ended: exit status %d", c.Name, t.ExitCode).
			Hint(webhookHint("init containers", namespace))
	}
	return nil
}

// webhookHint is for what belljar did not ask for.
func webhookHint(what, namespace string) string {
	return "look for an admission webhook that adds " + what + ", and leave out namespace " + namespace
}

// unscheduled is why no node has a pod yet, as far as the scheduler said.
func unscheduled(pod *kube.Pod) (why kube.Condition) {
	for _, c := range pod.Status.Conditions {
		if c.Type == "PodScheduled" && c.Status != "True" {
			why = c
		}
	}
	return why
}

// starved reports whether a container ended as its memory is too little to begin with. Kubelets say it by the exit status alone where they
// did not see the kernel's event, and runc in words where it had not begun.
func starved(t *kube.Terminated) bool {
	return t != nil && !isUnknown(t) && (t.Reason == "OOMKilled" || t.ExitCode == killed || strings.Contains(t.Message, "OOM-killed"))
}

// isUnknown reports whether a kubelet does not know how a container ended: then it gives it 137 as its exit status.
func isUnknown(t *kube.Terminated) bool { return t != nil && t.Reason == "ContainerStatusUnknown" }

func starvedError(t *kube.Terminated, spec sandbox.Spec) error {
	return engineError(text(t.Reason, t.Message), "the pod's init was killed before a command, most likely as memory ran out, of which limits.memory allows %s",
		sandbox.FormatSize(spec.Limits.Memory)).Hint("raise limits.memory")
}

func makeError(reason, message string, spec sandbox.Spec) error {
	for _, m := range spec.Mounts {
		if strings.Contains(message, fmt.Sprintf("to rootfs at %q", m.Target)) {
			return engineError(text(reason, message), "mount target %q: the image has a file there, or it cannot be created", m.Target).As(sandbox.CauseInvalid).
				Hint("choose a target such as /work/name")
		}
	}
	return engineError(text(reason, message), "starting a container of image %q", spec.Image.Reference).As(sandbox.CauseImage).
		Hint("check that the image's paths /tmp, /work and /dev are directories, if they exist")
}

// goneError says why a pod is gone, or will be in a moment, that did not run yet.
func goneError(pod *kube.Pod) error {
	if why := ofPod(pod); why != "" {
		return engineError(nil, "the pod ended before it ran: %s", why).As(sandbox.CauseEngineLost).Hint("run the command again; see: kubectl describe nodes")
	}
	return engineError(nil, "another program deleted the pod before it ran").As(sandbox.CauseEngineLost).Hint("run the command again")
}

// lateOrSilent is lateError for a wait that ended with err: what a pod seemed to wait for while nothing more was heard of it is no reason.
func lateOrSilent(err error, pod *kube.Pod, limit time.Duration) error {
	late := lateError(pod, limit)
	if silent, is := errors.AsType[*silence](err); is {
		return engineError(silent, "the API server does not answer; last seen: %s", late.Message).Hint("check that the cluster answers: kubectl get pods; see: belljar doctor")
	}
	return late
}

// lateError says what a pod that does not run in time waits for.
func lateError(pod *kube.Pod, limit time.Duration) *sandbox.Error {
	took := sandbox.FormatDuration(limit)
	if pod == nil || pod.Status == nil {
		return engineError(nil, "the pod did not run after %s, and nothing is known of it", took).Hint("see: belljar doctor")
	}
	if c := unscheduled(pod); c.Type != "" {
		what, next := "no node had room for the pod for %s", "wait until other pods have ended, or add nodes; check engine.kubernetes.node_selector and tolerations"
		if slices.ContainsFunc(pod.Spec.Volumes, func(v kube.Volume) bool { return v.PersistentVolumeClaim != nil }) {
			what, next = "no node had room for the pod, or could mount its volumes, for %s", next+"; see: kubectl get pvc -n "+pod.Metadata.Namespace
		}
		busy := engineError(text(c.Reason, c.Message), what, took).As(sandbox.CauseBusy).Hint(next)
		busy.RetryAfter = busyFor
		return busy
	}
	if slices.ContainsFunc(pod.Status.Conditions, func(c kube.Condition) bool { return c.Type == "PodReadyToStartContainers" && c.Status == "False" }) {
		events := "see why: kubectl get events -n " + pod.Metadata.Namespace
		if pod.Spec.HostUsers != nil {
			return engineError(nil, "the pod did not run after %s: its node gave it no sandbox, for which it asks for a user namespace", took).
				Hint(events + "; the nodes' runtime may know none: set engine.kubernetes.user_namespaces to false")
		}
		return engineError(nil, "the pod did not run after %s: its node gave it no sandbox, which takes its volumes, network and runtime", took).Hint(events)
	}
	for _, c := range append(slices.Clone(pod.Status.InitContainerStatuses), pod.Status.ContainerStatuses...) {
		if w := c.State.Waiting; throttled(w) {
			busy := engineError(text(w.Reason, w.Message), "the pod did not run after %s: its node pulls as many images as it may", took).As(sandbox.CauseBusy).
				Hint("run the command again; raise registryPullQPS of the kubelets")
			busy.RetryAfter = busyFor
			return busy
		} else if w != nil {
			return engineError(text(w.Reason, w.Message), "the pod did not run after %s: container %q waits", took, c.Name).Hint("see: kubectl describe pod; belljar doctor")
		}
	}
	return engineError(nil, "the pod did not run after %s", took).Hint("see: kubectl describe pod; belljar doctor")
}
