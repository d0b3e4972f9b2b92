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

	"belljar/sandbox"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
)

const (
	callTimeout = 10 * time.Second // for one call that does no work
	grace       = 5 * time.Second  // for a call under way when its context is cancelled
)

// Create implements sandbox.Engine.
func (e *Engine) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Container, error) {
	if err := e.checkMounts(ctx, spec.Mounts); err != nil {
		return nil, err
	}
	if spec.User.UID <= 0 {
		return nil, rootError()
	}
	host, err := hostConfig(spec)
	if err != nil {
		return nil, err
	}
	judged, release, err := e.bind(spec.Mounts)
	if err != nil {
		return nil, err
	}
	defer release()
	for i, b := range judged {
		host.Mounts[i].Source = b.source
	}
	if err := e.seals().err; err != nil && spec.Session != "" {
		return nil, engineError(err, "keeping the key by which a session is known again").hint("set XDG_STATE_HOME to a directory that can be written")
	}
	e.events.start(ctx)

	// A cancelled request does not stop the engine from making what it asked
	// for: let it finish, so that there is something to remove.
	patient, cancel := outlive(ctx, grace)
	defer cancel()
	id, unwatch, err := e.make(ctx, patient, spec, host)
	if err != nil {
		return nil, err
	}
	box := newBox(e, id, e.events.add(id))
	box.spec, box.keeperUID = spec, keeperFor(spec.User)
	err = box.start(patient)
	if err == nil {
		err = box.checkMounted(patient, judged)
	}
	if err == nil {
		err = box.checkUserFilesStay()
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		failed := box.abandon(ctx)
		if failed == nil {
			unwatch()
		}
		return nil, errors.Join(err, failed)
	}
	unwatch()
	return box, nil
}

// make has the engine make a container. The guard watches it until unwatch is
// called: once it is held, or gone.
func (e *Engine) make(ctx, patient context.Context, spec sandbox.Spec, host *container.HostConfig) (id string, unwatch func(), err error) {
	var asked atomic.Bool
	patient = httptrace.WithClientTrace(patient, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { asked.Store(true) }})
	name := "belljar-" + strings.ToLower(spec.Command)
	labels := e.owner.labels(spec)
	labels[labelSeal] = e.seals().seal(name, labels)
	config := containerConfig(spec, labels)
	alone := e.withoutNetwork(spec, config, host)
	e.watch(labels[labelSeal], name)
	unwatch = func() { e.unwatch(labels[labelSeal]) }
	made, err := e.client.ContainerCreate(patient, config, host, &network.NetworkingConfig{}, nil, name)
	if alone != nil && errdefs.IsInvalidArgument(err) {
		alone() // the engine does not see the file, or something else is wrong
		made, err = e.client.ContainerCreate(patient, config, host, &network.NetworkingConfig{}, nil, name)
		e.noHosts.Store(err == nil)
	}
	switch {
	case err == nil:
		return made.ID, unwatch, nil
	case asked.Load() && !errdefs.IsConflict(err) && !errdefs.IsInvalidArgument(err) && !errdefs.IsNotFound(err):
		// An engine that refused or was not reached made nothing, and the name may
		// be another container's; of one that did not answer that is not known.
		removed, failed := e.unmake(ctx, name, labels[labelSeal])
		if removed {
			unwatch()
		}
		return "", nil, errors.Join(createError(err, spec), failed)
	}
	unwatch()
	return "", nil, createError(err, spec)
}

// checkMounts refuses mounts where none can be, and those that hold what makes
// the engine: its socket, which is root on this host, and its root directory.
// Their usual places are refused by policy; these may be elsewhere.
func (e *Engine) checkMounts(ctx context.Context, mounts []sandbox.Mount) error {
	if len(mounts) == 0 {
		return nil
	}
	if !e.local() {
		return engineError(nil, "mounts need an engine on this host, and %s is another", e.Host()).as(sandbox.CauseInvalid).
			hint("pass files on stdin")
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	about, err := e.client.Info(ctx)
	if err != nil {
		return engineError(err, "asking the engine for its root directory").hint("see: belljar doctor")
	}
	socket, root := resolved(strings.TrimPrefix(e.Host(), "unix://")), resolved(about.DockerRootDir)
	for _, m := range mounts {
		what := ""
		switch {
		case below(m.Source, socket):
			what = "the engine's socket " + socket
		case below(m.Source, root), below(root, m.Source):
			what = "of the engine's root directory " + root
		default:
			continue
		}
		return engineError(nil, "mount %q denied: it holds %s", m.Source, what).as(sandbox.CauseDenied).hint("mount a directory without it")
	}
	return nil
}

func resolved(file string) string {
	if file, err := filepath.EvalSymlinks(file); err == nil {
		return file
	}
	return file
}

// below tells whether file is dir, or in it.
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

// start attaches to the keeper's stdin before there is a keeper, so that there
// is no moment in which it runs without us.
func (b *box) start(ctx context.Context) error {
	if err := b.checkUserFiles(ctx); err != nil {
		return err
	}
	if b.spec.Session == "" {
		if err := b.hold(ctx); err != nil {
			return err
		}
	}
	if err := b.run(ctx); err != nil {
		return err
	}
	about, err := b.engine.inspect(ctx, b.id)
	if err != nil {
		return engineError(err, "inspecting the container").hint("see: belljar doctor")
	}
	b.chooseInspector(about)
	return b.checkGroups()
}

// hold attaches to the keeper's stdin, which keeps the container.
func (b *box) hold(ctx context.Context) error {
	var err error
	b.stdin, err = hijack(ctx, func(ctx context.Context) (types.HijackedResponse, error) {
		return b.engine.client.ContainerAttach(ctx, b.id, container.AttachOptions{Stream: true, Stdin: true})
	})
	if err != nil {
		return engineError(err, "attaching to the container's keeper").hint("see: belljar doctor")
	}
	return nil
}

func createError(err error, spec sandbox.Spec) error {
	switch {
	case errdefs.IsNotFound(err):
		return engineError(nil, "image %q went away", spec.Image.Reference).as(sandbox.CauseImage).hint("run the command again")
	case errdefs.IsConflict(err):
		return engineError(nil, "a command with the ID %q runs already", spec.Command).as(sandbox.CauseInvalid).hint("leave the ID out, so that one is chosen")
	case errdefs.IsInvalidArgument(err):
		return engineError(err, "the engine refuses the container").as(sandbox.CauseInvalid).hint("check runtime, network, limits and mounts")
	}
	return engineError(err, "creating the container").hint("see: belljar doctor")
}

// startError tells a keeper that could not be started from an engine that
// could not start anything: moby answers 400 for the first.
func startError(err error, spec sandbox.Spec) error {
	if refused := targetError(err, spec); refused != nil {
		return refused
	}
	switch {
	case errdefs.IsInvalidArgument(err):
		return noShellError(errors.New(oneLine(err.Error())), spec)
	case errdefs.IsNotFound(err):
		return engineError(err, "the engine does not know a part of the container").as(sandbox.CauseInvalid).hint("see what it knows: docker network ls")
	}
	return engineError(errors.New(oneLine(err.Error())), "starting the container").hint("see: belljar doctor; a mount's target must be a directory, or a file, as its source is")
}

func noShellError(err error, spec sandbox.Spec) error {
	if spec.Session != "" {
		return engineError(err, "image %q has no sh and sleep that run", spec.Image.Reference).as(sandbox.CauseImage).
			hint("a session needs both: use an image that has them")
	}
	return engineError(err, "image %q has no sh that runs", spec.Image.Reference).as(sandbox.CauseImage).
		hint("belljar runs each command as sh -c: use an image with a shell")
}

// noShell tells whether the container ended because its init found no sh to
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
	now := b.watch.until(ctx, func(s seen) bool { return s.died || s.blind })
	return (now.died || now.blind) && slices.Contains([]int{1, 126, 127}, now.status)
}
