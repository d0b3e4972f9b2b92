package kubernetes

import (
	"fmt"
	"slices"
	"time"

	"belljar/sandbox/internal/failure"
	"belljar/sandbox/internal/kube"
)

// fate is how a pod ended.
type fate struct {
	known  bool
	silent bool // the API server does not answer
	noNode bool // it says that the pod's node does not
	oom    bool
	ended  bool   // the init ended by itself
	late   bool   // it did so as its session's time was over
	memory bool   // it was killed, perhaps for its memory
	reason string // what Kubernetes says, "" where it says nothing
}

// early is why a pod ended in which the command has not begun, as far as is known, "" where nothing is, and what to do.
func (f fate) early() (why, hint string) {
	const rerun = "run the command again"
	switch {
	case f.oom:
		return "its memory ran out, or its node's", rerun + ", or raise limits.memory"
	case f.reason == "" && f.noNode:
		return "its node does not answer", rerun
	}
	return f.reason, f.again(rerun)
}

// again is the advice to run a command again, with what may help.
func (f fate) again(rerun string) string {
	if f.memory {
		return rerun + "; raise limits.memory if it ends so again"
	}
	return rerun
}

// ofPod is why Kubernetes ends a whole pod, "" where it says nothing.
func ofPod(pod *kube.Pod) (why string) {
	s := pod.Status
	if s == nil {
		return ""
	}
	if s.Reason != "" { // Evicted, DeadlineExceeded, Preempting, NodeLost, OutOfcpu, …
		why = failure.OneLine(said(s.Reason, s.Message))
	}
	for _, c := range s.Conditions { // DisruptionTarget: EvictionByEvictionAPI, PreemptionByScheduler, DeletionByTaintManager, …
		if c.Type == "DisruptionTarget" && c.Status == "True" {
			why = failure.OneLine(said(c.Reason, c.Message))
		}
	}
	return why
}

// fateOf reads that from the pod, which may have ended. Without a word of Kubernetes', an init ended with its only connection, or when its
// session's time was over.
func (b *box) fateOf(pod *kube.Pod) fate {
	var due time.Time
	if b.record.Session != "" {
		due = b.engine.onItsClock(b.record.Deadline)
	}
	f := fateOf(pod, due)
	switch {
	case f.late:
		f.reason = "session.max ended it at " + b.record.Deadline.Format(time.RFC3339)
	case f.ended && b.engine.endsWithUs(b.spec):
		f.reason = "its connection to this process broke"
	case f.ended:
		f.reason = "its init ended"
	}
	return f
}

// fateOf is that without the words for an init that ended by itself, which one of a session does when that is due; zero for none. Why the
// whole pod ended says more than how its container did, and its exit status more than its reason: of one in which the kernel ever killed a
// process for its memory, runtimes say OOMKilled, whatever ended it.
func fateOf(pod *kube.Pod, due time.Time) (f fate) {
	s := pod.Status
	if s == nil {
		return f
	}
	f.reason = ofPod(pod)
	t := statusOf(s.ContainerStatuses, mainContainer).State.Terminated
	// A sweep deletes such a pod then.
	f.late = t != nil && f.reason == "" && t.ExitCode == 0 && !due.IsZero() && t.FinishedAt != nil && !t.FinishedAt.Before(due.Add(-clockError))
	if pod.Metadata.DeletionTimestamp != nil && f.reason == "" && !f.late {
		f.reason = "another program deleted the pod"
	}
	f.known = f.reason != ""
	f.noNode = !f.known && runs(pod) && nodeIsSilent(pod)
	if t != nil {
		f.known, f.oom = true, f.reason == "" && t.Reason == "OOMKilled" && t.ExitCode == killed
		switch {
		case f.reason != "" || f.oom:
		case t.ExitCode == 0:
			f.ended = true
		default:
			f.reason, f.memory = fmt.Sprintf("the container ended: %s, exit status %d", t.Reason, t.ExitCode), t.ExitCode == killed && !isUnknown(t)
			if f.memory { // runtimes do not see each kill of the kernel's; who may end containers of the node can do so, too
				f.reason += ", as where memory ran out"
			}
		}
	}
	return f
}

// nodeIsSilent reports whether who looks after the nodes says that a pod is not ready, and not its kubelet: the former changes that
// condition alone. A kubelet says it where another program's container or gate, which webhooks add, is not ready.
func nodeIsSilent(pod *kube.Pod) bool {
	is := func(kind string) bool {
		return slices.ContainsFunc(pod.Status.Conditions, func(c kube.Condition) bool { return c.Type == kind && c.Status == "False" })
	}
	return is("Ready") && !is("ContainersReady") && len(pod.Spec.ReadinessGates) == 0
}
