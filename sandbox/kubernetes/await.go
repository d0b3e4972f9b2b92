package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/kube"
)

const (
	// watchPause is between two watches: the API server may be restarting.
	watchPause = 100 * time.Millisecond
	// slowAnswer is after how long a request without an answer counts as one that broke.
	slowAnswer = time.Second
)

// silence is the end of a wait in which the API server did not answer in the end: what was seen of a pod may be long ago.
type silence struct{ last error }

func (s *silence) Error() string { return s.last.Error() }

// follow calls seen with each later state of a pod, until it returns true or ctx ends, whatever connections break meanwhile: then the error
// is also a *silence, if the last request broke. A pod that is gone has none: then seen gets the last one.
func (e *Engine) follow(ctx context.Context, pod *kube.Pod, seen func(pod *kube.Pod, gone bool) (done bool)) error {
	name, uid, version := pod.Metadata.Name, pod.Metadata.UID, pod.Metadata.ResourceVersion
	var broke error // how the request before ended
	var denied denials
	for {
		var err error
		done, asked := false, time.Now()
		look := func(now *kube.Pod, gone bool) bool {
			if now.Metadata.UID == uid {
				pod, version = now, now.Metadata.ResourceVersion
			} else {
				gone = true
			}
			done = seen(pod, gone) || gone
			return done
		}
		if version == "" { // the API server does not know any more what came after it
			var now kube.Pod
			err = e.client.Get(ctx, kube.PodPath(e.namespace, name), nil, &now)
			if err == nil || kube.CodeOf(err) == http.StatusNotFound {
				look(&now, err != nil)
			}
		}
		if version != "" && !done {
			err = e.client.WatchPod(ctx, e.namespace, name, version, func(ev kube.Event) bool { return look(&ev.Pod, ev.Type == "DELETED") })
		}
		after, passes := again(err)
		if denied.pass(err) {
			after, passes = startingPause, true
		}
		switch {
		case done:
			return nil
		case ctx.Err() != nil:
			switch {
			case errors.Is(err, kube.ErrWatching):
				return ctx.Err()
			case time.Since(asked) > slowAnswer:
				broke = err
			}
			if broke != nil {
				return errors.Join(ctx.Err(), &silence{broke})
			}
			return ctx.Err()
		case kube.CodeOf(err) == http.StatusGone:
			version, err = "", nil // that is an answer
		case !passes:
			return err
		}
		broke = err
		select {
		case <-time.After(max(watchPause, after)):
		case <-ctx.Done():
		}
	}
}

// awaitRunning waits until the main container of a pod runs that was just made.
func (e *Engine) awaitRunning(ctx context.Context, pod *kube.Pod, spec sandbox.Spec) (*kube.Pod, error) {
	late, cancel := context.WithTimeout(ctx, e.config.Start)
	defer cancel()
	var why error
	err := e.follow(late, pod, func(now *kube.Pod, gone bool) (done bool) {
		pod = now
		switch {
		case gone:
			why = goneError(now)
			return true
		case runs(now):
			return true
		}
		why, done = startError(now, spec)
		return done
	})
	switch {
	case why != nil:
		return nil, why
	case err == nil:
		return pod, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case late.Err() != nil:
		return nil, lateOrSilent(err, pod, e.config.Start)
	}
	return nil, callError(err, "waiting for pod %s", pod.Metadata.Name)
}

// statusOf is the state of a container of a pod.
func statusOf(list []kube.ContainerStatus, name string) (s kube.ContainerStatus) {
	if i := slices.IndexFunc(list, func(s kube.ContainerStatus) bool { return s.Name == name }); i >= 0 {
		return list[i]
	}
	return s
}

func runs(pod *kube.Pod) bool {
	return pod.Status != nil && pod.Metadata.DeletionTimestamp == nil && statusOf(pod.Status.ContainerStatuses, mainContainer).State.Running != nil
}

// said is a reason and a message as one text.
func said(reason, message string) string {
	if message == "" {
		return reason
	}
	return fmt.Sprintf("%s: %s", reason, message)
}
