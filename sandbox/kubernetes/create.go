package kubernetes

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"path"
	"slices"
	"strings"

	"belljar/internal/boxinit"
	"belljar/internal/target"
	"belljar/sandbox"
	"belljar/sandbox/internal/kube"
	"belljar/sandbox/internal/lockdown"
)

// check refuses what a pod cannot have.
func (e *Engine) check(spec sandbox.Spec) error {
	switch {
	case spec.Root:
		return engineError(nil, "root in a pod would be root on the node").As(sandbox.CauseInvalid).Hint("use engine.kind oci, which gives it a user namespace, or another user")
	case spec.Limits.Disk > 0:
		return engineError(nil, "Kubernetes cannot bound what is written to a container's root file system").As(sandbox.CauseInvalid).
			Hint("use engine.kind oci, or rootfs: read-only")
	case spec.User.UID <= 0:
		return rootError()
	case spec.Network != "none" && spec.Network != "":
		return engineError(nil, "network %q does not exist: a pod's commands have no network", spec.Network).As(sandbox.CauseInvalid).Hint("use network none")
	}
	for _, m := range spec.Mounts {
		if !target.Volume(m.Source) {
			return engineError(nil, "mount %q: a pod sees no files of belljar's host", m.Source).As(sandbox.CauseInvalid).
				Hint("copy files: belljar session cp, or files and collect of the HTTP API; or mount a PersistentVolumeClaim by its name")
		}
	}
	return nil
}

func rootError() error {
	return engineError(nil, "commands may not run as root").As(sandbox.CauseInvalid).Hint("give a UID above 0")
}

// Create implements sandbox.Engine.
func (e *Engine) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Container, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := e.check(spec); err != nil {
		return nil, err
	}
	b, err := e.create(ctx, spec)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// create makes a pod, and attaches to it. No pod stays behind with an error.
func (e *Engine) create(ctx context.Context, spec sandbox.Spec) (b *box, err error) {
	lease, err := e.leases.ofProcess(ctx)
	if err != nil {
		return nil, orCanceled(ctx, err)
	}
	pod := e.pod(spec, lease)
	made, err := e.make(ctx, pod, spec)
	if err != nil {
		return nil, err
	}
	b = newBox(e, e.record(spec, made))
	b.spec = spec
	if err = cmp.Or(ctx.Err(), e.addedError(pod, made)); err == nil {
		err = b.start(ctx, made)
	}
	if err != nil {
		if sandbox.CauseOf(err) == sandbox.CauseImage {
			e.forget(spec.Image)
		}
		return nil, errors.Join(orCanceled(ctx, err), b.abandon())
	}
	e.waits(b)
	return b, nil
}

// orCanceled is the end of ctx, if that came first.
func orCanceled(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// start waits until the pod runs, and attaches to its init.
func (b *box) start(ctx context.Context, made *kube.Pod) error {
	l, err := b.open(ctx, made)
	if err != nil {
		return err
	}
	b.use(l)
	own := b.engine.endsWithUs(b.spec)
	if b.spec.Session != "" && own {
		l.AddUser() // the engine: it ends with its connection
	}
	if err := b.checkInside(ctx, l); err != nil {
		return err
	}
	if !own {
		if err := l.Stay(ctx); err != nil {
			return engineError(err, "starting the session").Hint("see: belljar doctor")
		}
	}
	return nil
}

// open connects to a pod that was just made. Once a session's is recorded, others of this process may find it, as who lists
// sessions does: they wait for this link.
func (b *box) open(ctx context.Context, made *kube.Pod) (*link, error) {
	if b.spec.Session == "" {
		return b.connect(ctx, made)
	}
	done, err := b.engine.leases.reaching(ctx, b.record.UID)
	if err != nil {
		return nil, err
	}
	defer done()
	hold, err := b.claim(ctx)
	if err != nil {
		return nil, err
	}
	l, err := b.connect(ctx, made)
	switch {
	case hold == nil:
	case err != nil:
		hold.release()
	default:
		hold.serves(l)
	}
	return l, err
}

// connect waits until a pod runs, and attaches to its init.
func (b *box) connect(ctx context.Context, made *kube.Pod) (*link, error) {
	pod, err := b.engine.awaitRunning(ctx, made, b.spec)
	if err != nil {
		return nil, err
	}
	b.node = pod.Spec.NodeName
	l, err := b.engine.attach(ctx, b.record.Name, b.record.UID)
	if err != nil {
		return nil, b.attachError(ctx, err)
	}
	return l, nil
}

// claim records a session's pod before it runs: one that runs and is in no record no one would end before its deadline. Where
// others may see it, it takes the lease, too.
func (b *box) claim(ctx context.Context) (hold *lease, err error) {
	if err := b.engine.records.add(b.engine, b.record); err != nil {
		return nil, engineError(err, "recording the session").Hint("set XDG_STATE_HOME to a writable directory")
	}
	if !b.engine.endsWithUs(b.spec) {
		if hold, err = b.engine.leases.take(ctx, b.record.UID); err != nil {
			return nil, err
		}
	}
	if err := b.tell(ctx); err != nil {
		if hold != nil {
			hold.release()
		}
		return nil, engineError(err, "recording the session for other replicas").Hint("try again later")
	}
	return hold, nil
}

// tell tells who is to know of a session.
func (b *box) tell(ctx context.Context) error {
	if b.engine.told == nil {
		return nil
	}
	text, err := json.Marshal(b.record)
	if err != nil {
		return err
	}
	return b.engine.told(ctx, b.record.Session, string(text))
}

// attachError explains why a pod that runs could not be attached to.
func (b *box) attachError(ctx context.Context, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	var pod kube.Pod
	if b.engine.client.Get(ctx, kube.PodPath(b.engine.namespace, b.record.Name), nil, &pod) == nil {
		if why, failed := startError(&pod, b.spec); failed {
			return why
		}
	}
	var refused *kube.StatusError
	if errors.As(err, &refused) {
		return callError(err, "attaching to pod %s", b.record.Name)
	}
	if errors.Is(err, errSilent) {
		return engineError(err, "starting the pod's init").Hint("its node may have too much to do: run the command again; see: belljar doctor")
	}
	return engineError(err, "starting the pod's init").Hint("set engine.kubernetes.image to an image of this belljar's version; see: belljar doctor")
}

// addedError refuses a pod that got other mounts than were asked for. At the look at an image, they would be taken for its volumes.
func (e *Engine) addedError(asked, made *kube.Pod) error {
	var added []string
	for _, c := range made.Spec.Containers {
		for _, m := range c.VolumeMounts {
			if c.Name == mainContainer && !slices.Contains(asked.Spec.Containers[0].VolumeMounts, m) {
				added = append(added, m.MountPath)
			}
		}
	}
	if len(added) == 0 {
		return nil
	}
	return e.mountsError(added)
}

func (e *Engine) mountsError(extra []string) error {
	return engineError(nil, "the pod has mounts that belljar did not ask for: %s", strings.Join(extra, ", ")).
		Hint(webhookHint("volumes", e.namespace))
}

// checkInside refuses a pod that has other mounts than it was to have, or no user namespace where it was to have one: API servers leave out
// what they do not know, and webhooks change pods.
func (b *box) checkInside(ctx context.Context, l *link) error {
	texts, err := l.Texts(ctx, "/proc/1/mountinfo", "/proc/1/uid_map")
	if err != nil || texts[0] == "" {
		return engineError(err, "looking at the pod's mounts").Hint("see: belljar doctor")
	}
	return b.judge(texts[0], texts[1])
}

func (b *box) judge(mountinfo, uidMap string) error {
	if b.engine.config.Pods.UserNamespaces && !boxinit.OwnUsers(uidMap) {
		return engineError(nil, "the pod has no user namespace, which engine.kubernetes.user_namespaces asks for").
			Hint("use a cluster that knows hostUsers: false, or set it to false; see: belljar doctor")
	}
	var own []string
	for dir := range lockdown.Tmpfs(b.spec) {
		own = append(own, path.Clean(dir))
	}
	if unlike := unlikeAsked(mountinfo, b.spec.Mounts); unlike != "" {
		return engineError(nil, "the pod does not have the mounts that belljar asked for: %s", unlike).
			Hint("choose a target without a symbolic link in its path, and look for an admission webhook that changes volumes")
	}
	if extra := extraMounts(mountinfo, own, b.spec.Mounts); len(extra) > 0 {
		return b.engine.mountsError(extra)
	}
	return nil
}
