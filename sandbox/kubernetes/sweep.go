package kubernetes

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/kube"
	"belljar/sandbox/listing"
)

// delete deletes a pod. One that is gone is no error.
func (e *Engine) delete(ctx context.Context, name, uid string, grace int) error {
	err := e.client.Delete(ctx, kube.PodPath(e.namespace, name), kube.Meta{UID: uid}, grace)
	if err == nil || over(err) {
		return nil
	}
	return err
}

func (e *Engine) exists(ctx context.Context, name, uid string) (bool, error) {
	var pod kube.Pod
	err := e.client.Get(ctx, kube.PodPath(e.namespace, name), nil, &pod)
	if kube.CodeOf(err) == 404 {
		return false, nil
	}
	return err == nil && pod.Metadata.UID == uid, err
}

// owners are the leases of belljar's processes, by their names.
func (e *Engine) owners(ctx context.Context) (map[string]kube.Lease, error) {
	query := map[string][]string{"labelSelector": {labelManaged + "=" + managedBy}}
	list, err := kube.List[kube.Lease](ctx, e.client, kube.LeasesPath(e.namespace), query)
	if err != nil {
		return nil, callError(err, "listing leases of namespace %q", e.namespace)
	}
	all := map[string]kube.Lease{}
	for _, l := range list {
		if isMade(l.Metadata) {
			all[l.Metadata.Name] = l
		}
	}
	return all, nil
}

// lives reports whether a lease is one of a process that runs, or that may run, as far as can be known after an outage.
func (e *Engine) lives(l kube.Lease) bool {
	return (!l.Ended(e.client.Now()) || e.outage.is()) && !e.gone(l.Spec.HolderIdentity)
}

// mayLive is lives for who would remove what a process has: a process of this host may stand still, and one that began a moment ago knows
// of an outage before it only by the leases that were written since.
func (e *Engine) mayLive(l kube.Lease, written time.Time) bool {
	if e.lives(l) {
		return true
	}
	if parts := strings.SplitN(l.Spec.HolderIdentity, " ", 3); len(parts) == 3 && e.owner.Runs(parts[0], parts[1]) {
		return true
	}
	return e.mayRenew(l, written)
}

// mayRenew reports whether a lease may have ended by an outage that this process, which began a moment ago, knows nothing of.
func (e *Engine) mayRenew(l kube.Lease, written time.Time) bool {
	renewed, _ := l.Spec.Renewed()
	return time.Since(e.opened) < outageGrace && !e.gone(l.Spec.HolderIdentity) && !written.After(renewed.Add(leaseFor))
}

// mayHold reports whether a session's lease is one of a process that may be attached to its init.
func (e *Engine) mayHold(ctx context.Context, l kube.Lease) (bool, error) {
	switch {
	case e.lives(l):
		return true, nil
	case !e.mayRenew(l, time.Time{}):
		return false, nil
	}
	before, err := e.writtenBefore(ctx)
	return err != nil || e.mayRenew(l, before), err
}

// writtenBefore is when one of belljar's leases was last written before this process began, as far as is known. It asks once: as long as
// mayRenew wants to know it, nothing newer counts.
func (e *Engine) writtenBefore(ctx context.Context) (time.Time, error) {
	e.outage.mu.Lock()
	known := e.outage.before
	e.outage.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	all, err := e.owners(ctx)
	if err != nil {
		return time.Time{}, err
	}
	at := e.written(slices.Collect(maps.Values(all)))
	e.outage.mu.Lock()
	defer e.outage.mu.Unlock()
	e.outage.before = &at
	return at, nil
}

// written is when the last of the leases was made or renewed, of those at least outageGrace ago: a lease that had ended by then did so in
// no outage. One that was renewed just now says when it was made, at least.
func (e *Engine) written(leases []kube.Lease) (last time.Time) {
	for _, l := range leases {
		renewed, _ := l.Spec.Renewed()
		times := []time.Time{renewed}
		if made := l.Metadata.CreationTimestamp; made != nil {
			times = append(times, *made)
		}
		for _, at := range times {
			if at.After(last) && e.client.Now().Sub(at) > outageGrace {
				last = at
			}
		}
	}
	return last
}

// orphaned reports whether a pod has no owner any more: its process ended, and it is no session's that runs.
func (e *Engine) orphaned(pod kube.Pod, owners map[string]kube.Lease) bool {
	over := pod.Status != nil && (pod.Status.Phase == "Failed" || pod.Status.Phase == "Succeeded")
	owner, known := owners[pod.Metadata.Labels[labelOwner]]
	if known && (e.lives(owner) || !over && e.mayLive(owner, e.written(slices.Collect(maps.Values(owners))))) {
		return false
	}
	return pod.Metadata.Labels[labelKind] != "session" || pod.Status == nil || pod.Status.Phase != "Running"
}

// isOver reports whether a pod is a session's that ended so long ago that who had it has asked why.
func (e *Engine) isOver(pod kube.Pod) bool {
	if pod.Metadata.Labels[labelKind] != "session" || pod.Status == nil {
		return false
	}
	t := statusOf(pod.Status.ContainerStatuses, mainContainer).State.Terminated
	return t != nil && t.FinishedAt != nil && e.client.Now().Sub(*t.FinishedAt) > time.Minute
}

func deadlineOf(pod kube.Pod) time.Time {
	at, _ := time.Parse(time.RFC3339, pod.Metadata.Annotations[noteDeadline]) // zero: another program removed it
	return at
}

// Sweep deletes the namespace's pods without an owner: those past their deadline, and those of belljar processes
// that have ended, of any host. It returns how many, each once.
func (e *Engine) Sweep(ctx context.Context) (int, error) {
	records := e.records.all(e) // a pod is recorded after it was made: later, each record's is there
	pods, err := e.list(ctx, "")
	if err != nil {
		return 0, err
	}
	owners, err := e.owners(ctx) // a pod is made after its lease: later, each pod's is there
	if err != nil {
		return 0, err
	}
	removed, errs, there := 0, []error(nil), map[string]bool{}
	for _, pod := range pods {
		there[pod.Metadata.UID] = true
		at := deadlineOf(pod)
		if pod.Metadata.DeletionTimestamp != nil {
			continue // it is deleted already: its kubelet, which may be away for long, has yet to say that it ended
		}
		if late := !at.IsZero() && e.client.Now().After(at); !late && !e.isOver(pod) && !e.orphaned(pod, owners) {
			continue
		}
		if err := e.delete(ctx, pod.Metadata.Name, pod.Metadata.UID, 1); err != nil {
			errs = append(errs, callError(err, "deleting pod %s", pod.Metadata.Name))
			continue
		}
		removed++
	}
	written := e.written(slices.Collect(maps.Values(owners)))
	for name, l := range owners {
		if !e.mayLive(l, written) {
			e.client.Delete(ctx, kube.LeasePath(e.namespace, name), l.Metadata, 0) // where it fails, the next sweep tries again
		}
	}
	for _, r := range records {
		if !there[r.UID] {
			e.records.remove(e, r.UID)
		}
	}
	return removed, errors.Join(errs...)
}

// List returns belljar's pods in the namespace.
func (e *Engine) List(ctx context.Context) ([]listing.Container, error) {
	pods, err := e.list(ctx, "")
	if err != nil {
		return nil, err
	}
	owners, err := e.owners(ctx) // as in Sweep
	if err != nil {
		return nil, err
	}
	list := []listing.Container{}
	for _, pod := range pods {
		m := pod.Metadata
		c := listing.Container{
			ID: m.UID, State: stateOf(pod), Command: m.Annotations[noteCommand], Session: m.Annotations[noteSession], Pool: m.Annotations[notePool],
			Image: m.Annotations[noteImage], User: m.Annotations[noteUser], Deadline: deadlineOf(pod), Orphaned: e.orphaned(pod, owners),
			Owner: owners[m.Labels[labelOwner]].Spec.HolderIdentity,
		}
		if m.CreationTimestamp != nil {
			c.Created = *m.CreationTimestamp
		}
		list = append(list, c)
	}
	return list, nil
}

func stateOf(pod kube.Pod) string {
	switch {
	case pod.Metadata.DeletionTimestamp != nil:
		return "removing"
	case pod.Status == nil || pod.Status.Phase == "Pending":
		return "created"
	case pod.Status.Phase == "Running":
		return "running"
	}
	return "exited"
}

// FillProcesses fills in what runs in a pod, which the init of one tells that this user's session is in, or this process's command.
func (e *Engine) FillProcesses(ctx context.Context, c *listing.Container) error {
	r, ours := e.records.of(e, c.ID)
	if !ours {
		return engineError(nil, "only the process that made pod %s sees what runs in it", c.ID).Hint("ask that belljar")
	}
	b := newBox(e, r)
	defer b.Close()
	var err error
	c.Runs, err = b.Processes(ctx)
	return err
}

var _ interface {
	sandbox.Engine
	List(context.Context) ([]listing.Container, error)
} = (*Engine)(nil)
