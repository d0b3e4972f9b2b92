package kubernetes

import (
	"context"
	"errors"
	"net/http"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/kube"
)

// grace is how long a request to make a pod may go on after its context has ended: else it would be unknown whether there is one.
const grace = 5 * time.Second

// makeTries and makePause are for a request that met another one at the same quota.
const (
	makeTries = 3
	makePause = 50 * time.Millisecond
)

// make has the API server make a pod. It is waited for, so that there is something to delete.
func (e *Engine) make(ctx context.Context, pod *kube.Pod, spec sandbox.Spec) (*kube.Pod, error) {
	patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })
	defer stop()
	var made kube.Pod
	err := e.client.Create(patient, kube.PodsPath(e.namespace), pod, &made)
	for try := 1; passes(err) && try < makeTries && ctx.Err() == nil; try++ {
		time.Sleep(time.Duration(try) * makePause)
		err = e.client.Create(patient, kube.PodsPath(e.namespace), pod, &made)
	}
	if err == nil {
		return &made, nil
	}
	refused, is := errors.AsType[*kube.StatusError](err)
	if !is || refused.Code >= http.StatusInternalServerError { // it may have been made all the same
		e.deleteUnanswered(ctx, pod)
	}
	if is && refused.Reason == reasonExists {
		return nil, engineError(nil, "a command with the ID %q is already running", spec.Command).As(sandbox.CauseInvalid).Hint("leave out the ID, and belljar chooses one")
	}
	return nil, orCanceled(ctx, callError(err, "creating a pod in namespace %q", e.namespace))
}

// TimeToRun is how long a pod takes from the request for it until the API server says that it runs: what making a container is measured
// beside. The pod is deleted.
func (e *Engine) TimeToRun(ctx context.Context, spec sandbox.Spec) (time.Duration, error) {
	lease, err := e.leases.ofProcess(ctx)
	if err != nil {
		return 0, err
	}
	pod, began := e.pod(spec, lease), time.Now()
	made, err := e.make(ctx, pod, spec)
	if err != nil {
		return 0, err
	}
	_, err = e.awaitRunning(ctx, made, spec)
	took := time.Since(began)
	return took, errors.Join(err, e.deleteDead(ctx, made.Metadata.Name, made.Metadata.UID, true)) // no command ran in it
}

// deleteUnanswered deletes the pod that was made by a request without an answer, now or later.
func (e *Engine) deleteUnanswered(ctx context.Context, pod *kube.Pod) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	d := doom{name: pod.Metadata.Name, maker: pod.Metadata.Annotations[noteMaker], until: time.Now().Add(madeWithin)}
	if !e.dispose(ctx, d) {
		e.doom(d)
	}
}
