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
	GVisor  bool   // its kernel is gVisor's, which is that filter, and tells of none
	Locked  bool   // it has no capability, and can get none
	Users   bool   // it has a user namespace of its own
	Reaches bool   // it reaches the API server: nothing enforces a NetworkPolicy that denies it
	Dropped bool   // nothing answers it there, as where one is enforced
	Network string // what came of that
}

// tryPath is where a container leaves its last words, which its status has.
const tryPath = "/dev/termination-log"

// usersTimeout is how long a pod with a user namespace may take that only tries whether there are any: on nodes without them it never starts.
const usersTimeout = 15 * time.Second

// LookInside runs a pod of belljar's own image, like those of commands, that tries what it can do. With users it has a user
// namespace, too, where that is not configured.
func (e *Engine) LookInside(ctx context.Context, runtime string, users bool) (in Inside, err error) {
	limit := e.config.Start
	if users {
		limit = min(limit, usersTimeout)
	}
	spec := sandbox.Spec{
		Command: "inside-" + strings.ToLower(rand.Text()), Image: sandbox.Image{Reference: e.config.InitImage, ID: e.config.InitImage}, User: lookUser, Runtime: runtime,
		Deadline: e.lookUntil(), Limits: sandbox.Limits{Memory: lookMemory, CPUs: 1, Pids: 32, Tmp: lookTmp, Files: 64},
	}
	lease, err := e.leases.ofProcess(ctx)
	if err != nil {
		return in, err
	}
	pod := e.pod(spec, lease)
	pod.Metadata.Labels[labelKind] = "image"
	if users {
		pod.Spec.HostUsers = new(bool)
	}
	main := &pod.Spec.Containers[0]
	main.ImagePullPolicy, main.Command = e.config.Pull, []string{e.config.InitPath, boxinit.TryArg, tryPath, ""}
	main.Stdin, main.StdinOnce = false, false
	made, err := e.make(ctx, pod, spec)
	if err != nil {
		return in, err
	}
	said, err := e.lastWords(ctx, made, spec, limit)
	if failed := e.deleteDead(ctx, made.Metadata.Name, made.Metadata.UID, true); err == nil {
		err = failed
	}
	if err != nil {
		return in, err
	}
	tried, ok := boxinit.ParseTried(said)
	if !ok {
		return in, engineError(text("it said", said), "a pod of belljar's image did not try what it can do").Hint("set engine.kubernetes.image to an image of this belljar's version")
	}
	return insideOf(tried), nil
}

// insideOf judges what a pod found. gVisor need not tell of no_new_privs, and a pod without a capability in its bounding set can get none.
func insideOf(t boxinit.Tried) Inside {
	none := t.Capabilities != "" && strings.Trim(t.Capabilities, "0") == ""
	return Inside{
		Seccomp: t.Seccomp, GVisor: t.GVisor, Locked: none && (t.NoPrivileges || t.GVisor), Users: t.OwnUsers,
		Reaches: t.Network == boxinit.Open, Dropped: t.Network == boxinit.NoAnswer, Network: t.Network,
	}
}

// lastWords waits for the end of a pod's main container, up to a limit, and returns what that left in tryPath.
func (e *Engine) lastWords(ctx context.Context, pod *kube.Pod, spec sandbox.Spec, limit time.Duration) (said string, err error) {
	late, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var why error
	err = e.follow(late, pod, func(now *kube.Pod, gone bool) (done bool) {
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
		return "", ctx.Err()
	case late.Err() != nil:
		return "", lateOrSilent(err, pod, limit)
	}
	return "", callError(err, "waiting for pod %s", pod.Metadata.Name)
}
