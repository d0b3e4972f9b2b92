package kubernetes

import (
	"context"
	"crypto/rand"
	"strings"
	"time"

	"belljar/internal/boxinit"
	"belljar/sandbox"
	"belljar/sandbox/internal/kube"
)

// Inside is what a pod of the namespace can do by its node's rules alone: none of belljar's init restricts it.
type Inside struct {
	Seccomp bool   // it has a filter
	Locked  bool   // it has no capability, and can get none
	Reaches bool   // it reaches the API server: nothing enforces a NetworkPolicy that denies it
	Network string // what came of that
}

// tryPath is where a container leaves its last words, which its status has.
const tryPath = "/dev/termination-log"

// LookInside runs a pod of belljar's own image, like those of commands, that tries what it can do.
func (e *Engine) LookInside(ctx context.Context, runtime string) (in Inside, err error) {
	ctx, cancel := context.WithTimeout(ctx, e.config.Start)
	defer cancel()
	spec := sandbox.Spec{
		Command: "inside-" + strings.ToLower(rand.Text()), Image: sandbox.Image{Reference: e.config.InitImage, ID: e.config.InitImage}, User: lookUser, Runtime: runtime,
		Deadline: time.Now().Add(lookTime), Limits: sandbox.Limits{Memory: lookMemory, CPUs: 1, Pids: 32, Tmp: lookTmp, Files: 64},
	}
	lease, err := e.leases.ofProcess(ctx)
	if err != nil {
		return in, err
	}
	pod := e.pod(spec, lease)
	pod.Metadata.Labels[labelKind] = "image"
	main := &pod.Spec.Containers[0]
	main.ImagePullPolicy, main.Command = e.config.Pull, []string{e.config.InitPath, boxinit.TryArg, tryPath, ""}
	main.Stdin, main.StdinOnce = false, false
	made, err := e.make(ctx, pod, spec)
	if err != nil {
		return in, err
	}
	said, err := e.lastWords(ctx, made, spec)
	if failed := e.deleteOrDoom(context.WithoutCancel(ctx), made.Metadata.Name, made.Metadata.UID, 0); err == nil {
		err = failed
	}
	if err != nil {
		return in, err
	}
	tried, ok := boxinit.ParseTried(said)
	if !ok {
		return in, engineError(text("it said", said), "a pod of belljar's image did not try what it can do").Hint("set engine.kubernetes.image to an image of this belljar's version")
	}
	return Inside{
		Seccomp: tried.Seccomp, Locked: tried.NoPrivileges && strings.Trim(tried.Capabilities, "0") == "", Reaches: tried.Network == boxinit.Open, Network: tried.Network,
	}, nil
}

// lastWords waits for the end of a pod's main container, and returns what that left in tryPath.
func (e *Engine) lastWords(ctx context.Context, pod *kube.Pod, spec sandbox.Spec) (said string, err error) {
	var why error
	err = e.follow(ctx, pod, func(now *kube.Pod, gone bool) (done bool) {
		pod = now
		if now.Status != nil {
			if t := statusOf(now.Status.ContainerStatuses, mainContainer).State.Terminated; t != nil {
				said = t.Message
				return true
			}
		}
		if gone {
			why = goneError(now)
			return true
		}
		why, done = startError(now, spec)
		return done
	})
	switch {
	case err == nil:
		return said, why
	case ctx.Err() != nil:
		return "", lateError(pod, e.config.Start)
	}
	return "", callError(err, "waiting for pod %s", pod.Metadata.Name)
}
