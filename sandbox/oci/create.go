package oci

import (
	"context"
	"encoding/base64"
	"os"
	"path/filepath"
	"sync"
	"time"

	"belljar/internal/boxinit"
	"belljar/sandbox"
	"belljar/sandbox/internal/bindmount"
	"belljar/sandbox/internal/boxlink"
	"belljar/sandbox/internal/lockdown"
	"belljar/sandbox/internal/userns"

	"golang.org/x/sys/unix"
)

const (
	// startTimeout is how long a container may take to start, also on a busy host.
	startTimeout = time.Minute

	// callTimeout is for what does no work.
	callTimeout = 10 * time.Second
)

// Create implements sandbox.Engine.
func (e *Engine) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Container, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := e.check(spec); err != nil {
		return nil, err
	}
	m := &making{engine: e, spec: spec, id: newID()}
	defer m.close()
	m.watched.Go(e.watchOver)
	defer m.watched.Wait()
	var err error
	if m.runtime, err = e.runtimeFor(spec); err != nil {
		return nil, err
	}
	if e.user != nil && ownKernel(m.runtime) {
		return nil, engineError(nil, "runtime %q works only for root here", spec.Runtime).As(sandbox.CauseInvalid).Hint("run belljar as root, or use crun or runc")
	}
	if err := m.open(ctx); err != nil {
		return nil, err
	}
	box, err := m.start(ctx)
	if err != nil {
		return nil, err
	}
	return box, nil
}

// making is a container that is being made, and the files that it takes.
type making struct {
	engine  *Engine
	spec    sandbox.Spec
	id      string
	runtime string

	held   *os.File // the image's root
	users  map[string]string
	ids    *userns.Range // nil but with Spec.Root
	dir    string        // of the image's root
	trees  trees         // none where only a user namespace of ours may make them
	judged []bindmount.Source

	watched sync.WaitGroup // until the guard was started
}

// close closes what the runtime has its own of by now.
func (m *making) close() {
	if m.held != nil {
		m.held.Close()
	}
	if m.ids != nil {
		m.ids.Close()
	}
	m.trees.close()
}

// trees are detached mounts: the image's root, the init's program and the sources of mounts.
type trees struct {
	root, init int
	sources    []int
}

func (t *trees) close() {
	for _, fd := range append([]int{t.root, t.init}, t.sources...) {
		if fd > 0 {
			unix.Close(fd)
		}
	}
	*t = trees{}
}

// open opens the image and all that is mounted.
func (m *making) open(ctx context.Context) error {
	dir, held, err := m.engine.config.Roots.Root(ctx, m.spec.Image.ID)
	if err != nil {
		return err
	}
	m.held, m.dir = held, dir
	root, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return engineError(err, "opening the root of image %q", m.spec.Image.Reference).OfImage("run the command again")
	}
	defer unix.Close(root)
	if err := checkImage(dir, root, m.spec); err != nil {
		return err
	}
	if err := checkTargets(root, m.spec); err != nil {
		return err
	}
	if m.users, err = userFiles(root, m.spec); err != nil {
		return err
	}
	if m.engine.user == nil {
		if err := m.cloneRoot(ctx, root); err != nil {
			return err
		}
		if m.trees.init, err = clone(int(m.engine.init.Fd())); err != nil {
			return engineError(err, "preparing the init").Hint("see: belljar doctor")
		}
	}
	for _, mount := range m.spec.Mounts {
		if err := m.source(mount); err != nil {
			return err
		}
	}
	return nil
}

// source opens a mount's source. What is mounted is the open file, wherever its path leads by then.
func (m *making) source(mount sandbox.Mount) error {
	if own := m.engine.config.Dir; below(mount.Source, own) || below(own, mount.Source) {
		return engineError(nil, "mount %q denied: it overlaps with belljar's own directory %s", mount.Source, own).As(sandbox.CauseDenied).Hint("mount a directory without it")
	}
	fd, id, err := bindmount.OpenSource(mount.Source)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if m.engine.user == nil {
		tree, err := clone(fd)
		if err != nil {
			return engineError(err, "preparing mount source %q", mount.Source).Hint("see: belljar doctor")
		}
		m.trees.sources = append(m.trees.sources, tree)
	}
	m.judged = append(m.judged, bindmount.Source{Path: mount.Source, Judged: id})
	return nil
}

// below reports whether file is dir, or in it.
func below(dir, file string) bool {
	relative, err := filepath.Rel(dir, file)
	return err == nil && filepath.IsLocal(relative)
}

// start makes the container's control group, and starts the runtime.
func (m *making) start(ctx context.Context) (b *box, err error) {
	e := m.engine
	m.watched.Wait()
	b = newBox(e, m.id, e.user.group(groupName(e.owner, m.id)), m.record())
	b.spec = m.spec
	dirs, err := b.makeGroup()
	if err != nil {
		return nil, joined(engineError(err, "making the container").Hint(groupHint(err)), e.removeGroup(b.name))
	}
	defer func() {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			err = joined(err, b.abandon())
		}
		if b.run != nil {
			b.run.close()
		}
		if err != nil {
			b = nil
		}
	}()
	if err := b.limit(dirs); err != nil {
		return b, engineError(err, "limiting the container").Hint("see: belljar doctor")
	}
	if b.link, err = m.launch(b, dirs); err != nil {
		return b, engineError(err, "starting the container").Hint("see: belljar doctor")
	}
	if err := b.hello(ctx); err != nil {
		return b, err
	}
	if !b.record.ownKernel() { // this host does not see its mounts: see checkCovered
		if err := b.check(m.judged); err != nil {
			return b, err
		}
	}
	if m.spec.Session != "" && !b.record.Own {
		if err := b.link.Stay(ctx); err != nil {
			return b, b.startError(err)
		}
	}
	return b, nil
}

func (m *making) record() record {
	e, s := m.engine, m.spec
	r := record{
		Dir: e.dir, Owner: e.sessionOwner(), Print: s.Print(), Command: s.Command, Session: s.Session, Pool: s.Pool, Own: s.Session != "" && e.config.OwnSessions,
		Image: sandbox.Image{Reference: s.Image.Reference, ID: s.Image.ID, Digest: s.Image.Digest}, User: s.User,
		Keeper: lockdown.KeeperFor(s.User), Created: time.Now(), Deadline: s.Deadline,
		Dirs: append(lockdown.WritableDirs(s), "/dev/shm"), Runtime: m.runtime, Root: s.Root, Writable: s.Limits.Disk > 0,
	}
	if s.Limits.Disk > 0 {
		r.Dirs = append(r.Dirs, "/")
	}
	switch {
	case m.ids != nil:
		r.IDs = m.ids.First
	case e.user != nil:
		r.IDs, r.Limits = e.user.ids.Offset(), e.user.limits()
	}
	return r
}

// launch starts the runtime, and connects to the init to be.
func (m *making) launch(b *box, groups []string) (*boxlink.Link, error) {
	init := boxinit.Config{Carrier: boxinit.Socket, UID: b.record.Keeper}
	own := b.record.ownKernel()
	if own {
		init.Carrier = boxinit.Frames
	}
	session := m.spec.Session != ""
	if session {
		init.Carrier, init.Deadline = boxinit.Listener, m.spec.Deadline.Unix()
		if own {
			init.Carrier = boxinit.Channels
		}
	}
	init.Root = m.spec.Root
	config, err := config(m.spec, m.id, b.name, init, b.record.IDs)
	if err != nil {
		return nil, err
	}
	if b.record.Limits != "" {
		config.Linux.CgroupsPath, config.Linux.Resources = "", nil
	}
	p, err := profileOf(m.spec.Root)
	if err != nil {
		return nil, err
	}
	if own {
		forSentry(config)
	} else if known := m.engine.filter.of(b.record.Runtime, p); known != nil {
		config.Annotations = map[string]string{filterAnnotation: base64.StdEncoding.EncodeToString(known)}
	}
	l := &launch{
		dir: b.record.private(), runtime: m.runtime, id: m.id, config: config, users: m.users, groups: groups,
		lower: m.trees.root, init: m.trees.init, sources: m.trees.sources, listens: session, holds: []*os.File{m.held},
	}
	if err := m.layer(l); err != nil {
		return nil, err
	}
	first, err := l.connect(own)
	if err != nil {
		return nil, err
	}
	if user := m.engine.user; user != nil {
		b.run, err = user.start(l, m)
	} else {
		b.run, err = l.start()
	}
	l.closeTheirs() // of a pipe or socket with an end here, too, the other end is never told
	if err != nil {
		first.Close()
		return nil, err
	}
	b.watch()
	if !b.record.Own {
		return linkOver(first), nil
	}
	// While the first connection is open, the init runs. It is the engine's: handles on the
	// session come and go.
	m.engine.keep(m.id, first)
	return b.record.reach(b.run.private)
}
