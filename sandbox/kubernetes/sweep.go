package kubernetes

import (
	"context"
	"errors"
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
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var list kube.LeaseList
	query := map[string][]string{"labelSelector": {labelManaged + "=" + managedBy}}
	if err := e.client.Get(ctx, kube.LeasesPath(e.namespace), query, &list); err != nil {
		return nil, callError(err, "listing leases of namespace %q", e.namespace)
	}
	all := map[string]kube.Lease{}
	for _, l := range list.Items {
		all[l.Metadata.Name] = l
	}
	return all, nil
}

// lives reports whether a lease is one of a process that runs.
func (e *Engine) lives(l kube.Lease) bool {
	return !l.Ended(e.client.Now()) && !e.gone(l.Spec.HolderIdentity)
}

// orphaned reports whether a pod has no owner any more: its process ended, and it is no session's that runs.
func (e *Engine) orphaned(pod kube.Pod, owners map[string]kube.Lease) bool {
	owner, known := owners[pod.Metadata.Labels[labelOwner]]
	if known && e.lives(owner) {
		return false
	}
	return pod.Metadata.Labels[labelKind] != "session" || pod.Status == nil || pod.Status.Phase != "Running"
}

func deadlineOf(pod kube.Pod) time.Time {
	at, _ := time.Parse(time.RFC3339, pod.Metadata.Annotations[noteDeadline]) // zero: another program removed it
	return at
}

// Sweep deletes the namespace's pods without an owner: those past their deadline, and those of belljar processes
// that have ended, of any host. It returns how many.
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
		if late := !at.IsZero() && e.client.Now().After(at); !late && !e.orphaned(pod, owners) {
			continue
		}
		if err := e.delete(ctx, pod.Metadata.Name, pod.Metadata.UID, 1); err != nil {
			errs = append(errs, callError(err, "deleting pod %s", pod.Metadata.Name))
			continue
		}
		removed++
	}
	for name, l := range owners {
		if !e.lives(l) {
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
