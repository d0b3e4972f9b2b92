package docker

import (
	"context"
	"errors"
	"net/http/httptrace"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"belljar/internal/target"
	"belljar/sandbox"
	"belljar/sandbox/internal/bindmount"
	"belljar/sandbox/internal/lockdown"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/client"
)

const (
	callTimeout = 10 * time.Second // for one call that does no work
	grace       = 5 * time.Second  // for a running call after its context is cancelled
)

// Create implements sandbox.Engine.
func (e *Engine) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Container, error) {
	if err := e.checkMounts(ctx, spec.Mounts); err != nil {
		return nil, err
	}
	root, err := e.checkRoot(ctx, spec)
	if err != nil {
		return nil, err
	}
	host, err := hostConfig(spec)
	if err != nil {
		return nil, err
	}
	judged, release, err := e.bindSources(spec.Mounts)
	if err != nil {
		return nil, err
	}
	defer release()
	for i, b := range judged {
		host.Mounts[i].Source = b.Path
	}
	if err := e.seals().err; err != nil && spec.Session != "" {
		return nil, engineError(err, "saving the key that identifies this user's sessions").Hint("set XDG_STATE_HOME to a writable directory")
	}
	e.events.start(ctx)
	program, _ := e.chooseInit(spec.Runtime)
	o := order{spec, root, host, judged}
	box, err := e.create(ctx, o, program)
	switch first, is := errors.AsType[*initError](err); {
	case is && o.byInitOnly():
		err = first.error // there is no other way
	case is:
		if box, err = e.create(ctx, o, ""); err == nil {
			e.giveUpInit(spec.Runtime, first)
		}
	}
	if err != nil {
		return nil, err
	}
	return box, nil
}

// order is a container to make.
type order struct {
	sandbox.Spec
	root   string // see box
	host   *container.HostConfig
	judged []bindmount.Source // of its mounts
}

// byInitOnly is box.byInitOnly.
func (o order) byInitOnly() bool { return o.Root || o.Limits.Disk > 0 }

// create makes and starts a container with that program as its init, or, with "", with a
// keeper. No container stays behind with an error.
func (e *Engine) create(ctx context.Context, o order, program string) (*box, error) {
	// A cancelled request does not stop the engine from making the container: let the
	// call finish, so that there is something to remove.
	patient, cancel := outlive(ctx, grace)
	defer cancel()
	id, unguard, err := e.createContainer(ctx, patient, o, program)
	if err != nil {
		return nil, err
	}
	box := newBox(e, id, e.events.add(id))
	box.spec, box.root, box.keeperUID = o.Spec, o.root, lockdown.KeeperFor(o.User)
	if program != "" {
		box.init = &ownInit{}
	}
	if err = box.boundRoot(patient); err == nil {
		err = box.start(patient)
	}
	if err == nil {
		err = box.checkContained()
	}
	if err == nil {
		err = box.checkMounted(patient, o.judged)
	}
	if err == nil {
		err = box.checkUserFilesStay()
	}
	if err == nil || patient.Err() != nil { // then the engine's own error is only that it was not waited for
		err = ctx.Err()
	}
	if err != nil {
		failed := box.abandon(ctx)
		if failed == nil {
			unguard()
			return nil, err
		}
		return nil, engineError(errors.Join(err, failed), "removing a container that did not start").Hint("see: belljar ps")
	}
	unguard()
	return box, nil
}

// createContainer has the engine make a container. The guard removes it if this process
// dies before unguard is called, which happens when its keeper runs or it is removed.
func (e *Engine) createContainer(ctx, patient context.Context, o order, program string) (id string, unguard func(), err error) {
	spec := o.Spec
	var asked atomic.Bool
	patient = httptrace.WithClientTrace(patient, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { asked.Store(true) }})
	name := "belljar-" + strings.ToLower(spec.Command)
	labels := e.labels(spec, o.root)
	labels[labelSeal] = e.seals().seal(name, labels)
	config, own := containerConfig(spec, labels, e.endsWithUs(spec)), *o.host
	host := &own
	if program != "" {
		withInit(config, host, spec, program, e.endsWithUs(spec))
	}
	undo := e.withoutNetwork(spec, config, host)
	if spec.Limits.Disk > 0 {
		if undo, err = nil, e.withoutFiles(config, host); err != nil {
			return "", nil, err
		}
	}
	e.guardNew(labels[labelSeal], name)
	unguard = func() { e.unguard(labels[labelSeal]) }
	made, err := e.client.ContainerCreate(patient, config, host, &network.NetworkingConfig{}, nil, name)
	if undo != nil && errdefs.IsInvalidArgument(err) {
		undo() // the engine does not see the file, or another error occurred
		made, err = e.client.ContainerCreate(patient, config, host, &network.NetworkingConfig{}, nil, name)
		e.noHosts.Store(err == nil)
	}
	switch {
	case err == nil:
		return made.ID, unguard, nil
	case asked.Load() && !errdefs.IsConflict(err) && !errdefs.IsInvalidArgument(err) && !errdefs.IsNotFound(err):
		// An engine that refused or was not reached made nothing, and the name may
		// be another container's; if it did not answer, it may have made one.
		removed, failed := e.removeUnanswered(ctx, name, labels[labelSeal])
		if removed || failed == nil && !client.IsErrConnectionFailed(err) && patient.Err() == nil {
			unguard() // there is none, or the engine said that it failed
		}
		if patient.Err() != nil && failed == nil {
			return "", nil, ctx.Err()
		}
		return "", nil, errors.Join(createError(err, spec), failed)
	}
	unguard()
	if program != "" && errdefs.IsInvalidArgument(err) {
		return "", nil, e.unlessProven(spec.Runtime, createError(err, spec)) // the engine may not see the program
	}
	return "", nil, createError(err, spec)
}

// checkMounts refuses volumes, mounts with an engine on another host, and those that contain the
// engine's socket, which makes its user root on this host, or its root directory. Policy
// refuses their usual places; these may be elsewhere.
func (e *Engine) checkMounts(ctx context.Context, mounts []sandbox.Mount) error {
	if len(mounts) == 0 {
		return nil
	}
	if err := target.CheckNoVolumes("docker", mounts); err != nil {
		return err
	}
	if !e.local() {
		return engineError(nil, "mounts need an engine on this host, but %s is on another", e.Host()).As(sandbox.CauseInvalid).
			Hint("pass files on stdin")
	}
	ctx, cancel := context.WithTimeout(ctx, e.callTime())
	defer cancel()
	about, err := e.client.Info(ctx)
	if err != nil {
		return engineError(err, "asking the engine for its root directory").Hint("see: belljar doctor")
	}
	socket, root := resolved(strings.TrimPrefix(e.Host(), "unix://")), resolved(about.DockerRootDir)
	for _, m := range mounts {
		what := ""
		switch {
		case below(m.Source, socket):
			what = "the engine's socket " + socket
		case below(m.Source, root), below(root, m.Source):
			what = "the engine's root directory " + root
		default:
			continue
		}
		return engineError(nil, "mount %q denied: it overlaps with %s", m.Source, what).As(sandbox.CauseDenied).Hint("mount a directory without it")
	}
	return nil
}

func resolved(file string) string {
	if file, err := filepath.EvalSymlinks(file); err == nil {
		return file
	}
	return file
}

// below reports whether file is dir, or in it.
func below(dir, file string) bool {
	relative, err := filepath.Rel(dir, file)
	return err == nil && filepath.IsLocal(relative)
}

// outlive is a context that ends a while after ctx does.
func outlive(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(d):
			cancel()
		case <-longer.Done():
		}
	})
	return longer, func() { stop(); cancel() }
}

func createError(err error, spec sandbox.Spec) error {
	switch {
	case errdefs.IsNotFound(err):
		return engineError(nil, "image %q no longer exists", spec.Image.Reference).As(sandbox.CauseImage).Hint("run the command again")
	case errdefs.IsConflict(err):
		return engineError(nil, "a command with the ID %q is already running", spec.Command).As(sandbox.CauseInvalid).Hint("leave out the ID, and belljar chooses one")
	case errdefs.IsInvalidArgument(err):
		return engineError(err, "the engine rejects the container").As(sandbox.CauseInvalid).Hint("check runtime, network, limits and mounts")
	}
	return engineError(err, "creating the container").Hint("see: belljar doctor")
}

func noShellError(err error, spec sandbox.Spec) error {
	if spec.Session != "" {
		return engineError(err, "image %q has no working sh and sleep", spec.Image.Reference).As(sandbox.CauseImage).
			Hint("a session needs both: use an image that has them")
	}
	return engineError(err, "image %q has no working sh", spec.Image.Reference).As(sandbox.CauseImage).
		Hint("belljar runs each command as sh -c: use an image with a shell")
}

// noShell reports whether the container ended because its init found no sh to
// run: the engine has started the container by then, and init's status is as a
// shell's, 126 or 127, or 1 for what is no program. Its keeper's is 0. On a busy
// host init may still be about to.
func (b *box) noShell(ctx context.Context, aboutTo bool) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	about, err := b.engine.client.ContainerInspect(ctx, b.id)
	if err == nil && about.State.Running && !aboutTo {
		return false
	}
	now := b.watch.until(ctx, func(s state) bool { return s.died || s.missed })
	return (now.died || now.missed) && slices.Contains([]int{1, 126, 127}, now.status)
}
