package kubernetes

import (
	"cmp"
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/kube"
)

// What the API server says where it refuses a pod. Most of it has no code or reason of its own; each phrase is tried on a real one.
const (
	quotaWords    = "exceeded quota"           // a ResourceQuota is reached
	unknownQuota  = "status unknown for quota" // it is new, and was not counted yet
	quotaFields   = "failed quota"             // it bounds what belljar's pods say nothing of
	rightsWords   = `" cannot `                // of RBAC: User "u" cannot create resource "pods"
	podSecurity   = "violates PodSecurity"
	constraints   = "unable to validate against any security context constraint" // of OpenShift, which has UIDs of its own for each namespace
	noNamespace   = `namespaces "`                                               // … not found
	endingWords   = "because it is being terminated"                             // the namespace
	accountWords  = "looking up service account"                                 // a new namespace has none yet
	startingWords = "not yet ready to handle request"                            // an API server that has just started
	classWords    = "RuntimeClass"                                               // one that is missing
	priorityWord  = "no PriorityClass with name"
	usageWords    = " usage per "                  // a LimitRange's
	ratioWords    = " limit to request ratio per " // the same
	webhookWords  = "denied the request"           // an admission webhook's; a policy's are: denied request
	policyWords   = "denied request"
)

// busyFor is when a quota or a node may have room again.
const busyFor = 5 * time.Second

// reasonExists is that of an object whose name is taken. Other conflicts are those of two requests at once.
const reasonExists = "AlreadyExists"

// passes reports whether a refusal is over in a moment: two requests changed a quota at once, or it, the namespace, or the API server is new.
func passes(err error) bool {
	refused, is := errors.AsType[*kube.StatusError](err)
	isNew := is && slices.ContainsFunc([]string{unknownQuota, accountWords, startingWords}, func(words string) bool { return strings.Contains(refused.Message, words) })
	return is && (refused.Code == http.StatusConflict && refused.Reason != reasonExists || refused.Code == http.StatusForbidden && isNew)
}

// again reports whether a request may do if it is sent again, and how long after: it had no answer, or the API server cannot
// give one now.
func again(err error) (after time.Duration, yes bool) {
	refused, is := errors.AsType[*kube.StatusError](err)
	if !is {
		return 0, true
	}
	return refused.RetryAfter, refused.Code == http.StatusTooManyRequests || refused.Code >= http.StatusInternalServerError
}

const (
	// startingTime is how long an API server that has just started may not know yet who may do what, and startingPause is before it is asked
	// again.
	startingTime, startingPause = 30 * time.Second, time.Second
)

// denials tells refusals of an API server that has just started, which knows no one yet, from those that stay.
type denials struct {
	others bool      // there was an answer to such a request before, or none
	since  time.Time // when the first refusal came of those in a row
}

// isDenial reports whether a request was refused for who asks.
func isDenial(err error) bool {
	code := kube.CodeOf(err)
	return code == http.StatusUnauthorized || code == http.StatusForbidden
}

// pass takes the end of a request, and reports whether it is a refusal that may pass.
func (d *denials) pass(err error) bool {
	switch {
	case !isDenial(err):
		*d = denials{others: true}
		return false
	case d.since.IsZero():
		d.since = time.Now()
	}
	return d.others && time.Since(d.since) < startingTime
}

// callError explains a request that failed.
func callError(err error, doing string, args ...any) error {
	refused, is := errors.AsType[*kube.StatusError](err)
	if !is {
		return engineError(err, doing, args...).Hint("check that the cluster answers: kubectl get pods; see: belljar doctor")
	}
	busy := func(hint string) error {
		e := engineError(err, doing, args...).As(sandbox.CauseBusy).Hint(hint)
		e.RetryAfter = cmp.Or(refused.RetryAfter, busyFor)
		return e
	}
	says := func(words string) bool { return strings.Contains(refused.Message, words) }
	switch code := refused.Code; {
	case code == 403 && says(quotaWords) && neverFits(refused.Message):
		return engineError(err, doing, args...).As(sandbox.CauseInvalid).Hint("ask for less than the namespace's ResourceQuota has in all: kubectl describe quota")
	case code == 403 && says(quotaWords):
		return busy("wait until other pods have ended, or raise the namespace's ResourceQuota")
	case passes(err), code == 429:
		return busy("run the command again")
	case code == 401, code == 403 && says(rightsWords):
		return engineError(err, doing, args...).Hint("docs/kubernetes.md has the rights that belljar needs; see: belljar doctor")
	case code == 403 && says(podSecurity):
		return engineError(err, doing, args...).Hint("belljar's pods are restricted ones: look for what changes them, such as an admission webhook; see: belljar doctor")
	case code == 403 && says(constraints):
		return engineError(err, doing, args...).Hint("bind the ClusterRole system:openshift:scc:nonroot-v2 to the service account default of the pods' namespace, and to belljar's: see docs/kubernetes.md")
	case code == 404 && says(noNamespace):
		return engineError(err, doing, args...).Hint("the namespace does not exist; create it, or correct engine.kubernetes.namespace (for the Leases of replicas: serve.replicas.namespace)")
	case code == 403 && says(endingWords):
		return engineError(err, doing, args...).Hint("the namespace is being deleted; create it again once it is gone, or correct engine.kubernetes.namespace")
	case says(webhookWords), says(policyWords):
		return engineError(err, doing, args...).Hint("ask who keeps the cluster's admission policies to let belljar's pods in; see: belljar doctor")
	case code == 403 && says(quotaFields):
		return engineError(err, doing, args...).Hint("take from the namespace's ResourceQuota what is not of pods, cpu, memory or ephemeral-storage")
	case code == 403 && says(classWords):
		return engineError(err, doing, args...).As(sandbox.CauseInvalid).Hint("name a RuntimeClass of the cluster: kubectl get runtimeclasses")
	case code == 403 && says(priorityWord):
		return engineError(err, doing, args...).As(sandbox.CauseInvalid).Hint("set engine.kubernetes.priority_class to one of the cluster: kubectl get priorityclasses")
	case code == 403 && (says(usageWords) || says(ratioWords)):
		return engineError(err, doing, args...).As(sandbox.CauseInvalid).Hint("keep limits within the namespace's LimitRange: kubectl describe limitrange")
	case code == 400, code == 422:
		return engineError(err, doing, args...).As(sandbox.CauseInvalid).Hint("check engine.kubernetes, runtime, mounts and limits")
	}
	return engineError(err, doing, args...).Hint("see: belljar doctor")
}

// neverFits reports whether a quota has less in all than a pod asks for, by its words: "exceeded quota: NAME, requested: limits.memory=1Gi,
// used: limits.memory=0, limited: limits.memory=512Mi".
func neverFits(words string) bool {
	_, after, _ := strings.Cut(words, "requested: ")
	requested, rest, _ := strings.Cut(after, ", used: ")
	_, limited, _ := strings.Cut(rest, ", limited: ")
	most := amounts(limited)
	for name, amount := range amounts(requested) {
		if limit, bounded := most[name]; bounded && amount > limit {
			return true
		}
	}
	return false
}

// amounts are those of a list such as "limits.cpu=100m,pods=1". What is no amount is left out.
func amounts(list string) map[string]float64 {
	all := map[string]float64{}
	for pair := range strings.SplitSeq(list, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
		if amount, err := quantity(value); err == nil {
			all[name] = amount
		}
	}
	return all
}

// quantity is a number as Kubernetes writes it: 100m, 2, 1500k or 2Gi.
func quantity(text string) (float64, error) {
	digits := strings.TrimRight(text, "numkKMGTPEi")
	number, err := strconv.ParseFloat(digits, 64)
	suffix := text[len(digits):]
	if power := strings.Index("kMGTPE", strings.TrimSuffix(suffix, "i")); strings.HasSuffix(suffix, "i") {
		if suffix == "Ki" {
			power = 0
		}
		return number * math.Pow(1024, float64(power+1)), err
	} else if suffix != "" && power >= 0 {
		return number * math.Pow(1000, float64(power+1)), err
	}
	return number * map[string]float64{"": 1, "m": 1e-3, "u": 1e-6, "n": 1e-9}[suffix], err
}
