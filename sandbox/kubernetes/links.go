package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"belljar/sandbox/internal/boxlink"
	"belljar/sandbox/internal/failure"
	"belljar/sandbox/internal/kube"
)

// helloTimeout is how long an init may take to answer for the first time.
const helloTimeout = 20 * time.Second

// askEach is how often an init is asked whether it is there: the kubelet and its runtime end an attachment without any word in four
// hours, and one whose node is gone not for a long time.
const askEach = 30 * time.Second

// outputBurst is how many bytes of a pod's output come as fast as they can, and outputPace how many a second after that. All of them are in
// the pod's log on its node's disk. The kubelet looks for logs to rotate every ten seconds, and compresses them one after the other, for
// all pods: meanwhile they grow, whatever their limit is. A pod whose log passes diskLimit is evicted, and a full disk harms others. The burst
// is as much as the highest limits.output keeps of a command that an untrusted file configures.
const outputBurst, outputPace = 256 << 20, 8 << 20

// errSilent says that an init did not answer in time, or was not reached. It may run all the same.
var errSilent = errors.New("it does not answer in time")

// link is this process's attachment to a pod's init. Its Yield releases the hold of a session.
type link = boxlink.Shared[*kube.Stream]

// attach attaches to the init of a pod that runs, as its one client.
func (e *Engine) attach(ctx context.Context, name, uid string) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, e.hello)
	defer cancel()
	stream, err := e.attachOnce(ctx, name, uid)
	if err != nil && kube.CodeOf(err) == 0 && ctx.Err() != nil {
		return nil, fmt.Errorf("attaching to the pod: %w", errSilent)
	}
	if err != nil {
		return nil, err
	}
	l := &link{Conn: stream}
	if err := l.Greet(ctx); err != nil {
		if said := failure.OneLine(stream.Said()); said != "" {
			err = errors.New(said)
		} else if failed := stream.Failed(); failed != nil {
			err = failed
		} else if ctx.Err() != nil {
			err = errSilent
		}
		return nil, fmt.Errorf("waiting for the pod's init: %w", err)
	}
	l.Pace(outputBurst, outputPace)
	l.Watch(e.askEach)
	e.links.Add(uid, l)
	return l, nil
}

// attachPause is before an attachment that was refused is tried again, and twice as long each time, up to attachPauseMost.
const attachPause, attachPauseMost = 200 * time.Millisecond, 2 * time.Second

// attachOnce attaches as soon as that is not refused any more: the API server, the pod's kubelet or what is between them may be restarting.
// It tries no more once there may have been an attachment, nor where the pod does not run.
func (e *Engine) attachOnce(ctx context.Context, name, uid string) (*kube.Stream, error) {
	var before error
	for pause := attachPause; ; pause = min(2*pause, attachPauseMost) {
		stream, err := e.client.Attach(ctx, e.namespace, name, mainContainer)
		if err == nil {
			return stream, nil
		}
		if ctx.Err() != nil {
			return nil, cmp.Or(before, err)
		}
		after, passes := again(err)
		if !passes || kube.CodeOf(err) == 0 && !undialed(err) || e.doesNotRun(ctx, name, uid) {
			return nil, err
		}
		before = err
		select {
		case <-time.After(max(pause, after)):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// undialed reports whether a request failed before there was a connection for it.
func undialed(err error) bool {
	failed, is := errors.AsType[*net.OpError](err)
	return is && failed.Op == "dial"
}

// doesNotRun reports whether a pod is known to be gone, or not to run.
func (e *Engine) doesNotRun(ctx context.Context, name, uid string) bool {
	var pod kube.Pod
	err := e.client.Get(ctx, kube.PodPath(e.namespace, name), nil, &pod)
	return over(err) || err == nil && (pod.Metadata.UID != uid || !runs(&pod))
}
