package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"belljar/sandbox"

	"golang.org/x/sys/unix"
)

// identity identifies a file whatever its name.
type identity struct{ dev, ino uint64 }

// mountSource is what is mounted, made safe from a command with a writable mount,
// which could put a link into the engine's way (renameat2(2), RENAME_EXCHANGE)
// between the policy check and the mount.
type mountSource struct {
	source string // for the engine
	judged identity
	bind   string // ours of it, or ""
}

// bindSources makes the sources of mounts safe. release removes the binds, once
// the container has its own.
func (e *Engine) bindSources(mounts []sandbox.Mount) (all []mountSource, release func(), err error) {
	release = func() {
		for _, b := range all {
			unbind(b.bind)
		}
	}
	binder := e.binder(mounts)
	for _, m := range mounts {
		b, err := binder.bind(m)
		if err != nil {
			release()
			return nil, nil, err
		}
		all = append(all, b)
	}
	return all, release, nil
}

// bind makes a bind of the source. If that is impossible, the source must be one that no
// command could replace it.
func (h binder) bind(m sandbox.Mount) (mountSource, error) {
	fd, id, err := openSource(m.Source)
	if err != nil {
		return mountSource{}, err
	}
	defer unix.Close(fd)
	path, err := h.bindFile(fd)
	switch {
	case err == nil:
		return mountSource{path, id, path}, nil
	case m.Steady:
		return mountSource{m.Source, id, ""}, nil
	}
	return mountSource{}, engineError(err, "mount source %q is in a directory that commands can write to: one could replace it during the mount", m.Source).
		as(sandbox.CauseDenied).hint("mount that directory itself, or set mode ro in its mounts.allow rule, or run belljar as root on the engine's host")
}

// openSource opens a mount's source. Its path was resolved for the policy check: if there
// is a link in it now, something was swapped.
func openSource(source string) (fd int, id identity, err error) {
	fd, id, mode, err := open(unix.AT_FDCWD, source, unix.RESOLVE_NO_SYMLINKS)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, id, engineError(nil, "mount source %q does not exist", source).as(sandbox.CauseInvalid).hint("create it first")
	}
	if kind := mode & unix.S_IFMT; err == nil && kind != unix.S_IFDIR && kind != unix.S_IFREG {
		unix.Close(fd)
		err = errors.New("it is neither a directory nor a regular file")
	}
	if err != nil {
		return 0, id, engineError(err, "mount source %q changed after the policy check", source).as(sandbox.CauseDenied).hint("make sure that nothing writes to the directories above the source")
	}
	return fd, id, nil
}

// checkMounted compares what was mounted with what the policy checked, where this process
// can see it: the engine may see other files.
func (b *box) checkMounted(ctx context.Context, judged []mountSource) error {
	targets := b.targets()
	if len(targets) == 0 {
		return nil
	}
	root := b.inspector.root()
	if root == nil {
		return b.checkTargets(ctx)
	}
	defer root.Close()
	for i, t := range targets {
		fd, id, _, err := open(int(root.Fd()), strings.TrimPrefix(t.path, "/"), unix.RESOLVE_IN_ROOT|unix.RESOLVE_NO_SYMLINKS)
		if err == nil {
			unix.Close(fd)
		}
		switch {
		case errors.Is(err, unix.ELOOP):
			return t.linkError()
		case i < len(judged) && (err != nil || id != judged[i].judged):
			return engineError(err, "mount source %q changed while it was mounted", b.spec.Mounts[i].Source).as(sandbox.CauseDenied).hint("make sure that nothing writes to the directories above the source")
		case err != nil:
			return engineError(err, "checking %s %q in the container", t.what, t.path).hint("see: belljar doctor")
		}
	}
	return nil
}

// mountPoint is where a command asked for a mount or tmpfs.
type mountPoint struct{ what, path string }

// targets are those of the mounts, in their order, and then of tmpfs.
func (b *box) targets() (all []mountPoint) {
	for _, m := range b.spec.Mounts {
		all = append(all, mountPoint{"mount target", m.Target})
	}
	for _, dir := range b.spec.Tmpfs {
		all = append(all, mountPoint{"tmpfs", dir})
	}
	return all
}

// linkError refuses a target that goes through a link: the policy checked the path as it
// was written.
func (t mountPoint) linkError() error {
	return engineError(nil, "%s %q goes through a symbolic link in the image or in another mount", t.what, t.path).as(sandbox.CauseDenied).
		hint("use the path that the link points to")
}

// targetError explains a mount that the runtime cannot make, and is nil for other
// errors. The engine passes it on as text only, as if the keeper's program were wrong.
func targetError(err error, spec sandbox.Spec) error {
	_, at, found := strings.Cut(err.Error(), `to rootfs at "`)
	if at, _, _ = strings.Cut(at, `"`); !found || len(spec.Mounts)+len(spec.Tmpfs) == 0 {
		return nil
	}
	const hint = "choose a target such as /work/name, without a symbolic link in its path"
	if slices.ContainsFunc(spec.Mounts, func(m sandbox.Mount) bool { return m.Target == at }) {
		return engineError(nil, "mount target %q: the image has a file where the source is a directory (or the reverse), or the target cannot be created", at).as(sandbox.CauseInvalid).hint(hint)
	}
	if slices.Contains(spec.Tmpfs, at) {
		return engineError(nil, "cannot create tmpfs %q in the container", at).as(sandbox.CauseInvalid).hint("choose a directory such as /var/tmp, without a symbolic link in its path")
	}
	return engineError(nil, "cannot mount %q in the container next to the requested mounts: a target may be a link in the image", at).as(sandbox.CauseInvalid).hint(hint)
}

// checkTargets looks for links in targets from inside, with what sh itself can do.
// Nothing has run there yet that could have changed them.
func (b *box) checkTargets(ctx context.Context) error {
	var script strings.Builder
	var env []string
	test := func(operator, p string, target int) {
		fmt.Fprintf(&script, "[ %s \"$P%d\" ] && echo %d\n", operator, len(env), target)
		env = append(env, fmt.Sprintf("P%d=%s", len(env), p))
	}
	targets := b.targets()
	for i, t := range targets {
		test("! -e", t.path, i) // there may be a link in a directory that the keeper cannot read
		for p := path.Clean(t.path); p != "/"; p = path.Dir(p) {
			test("-h", p, i)
		}
	}
	said, err := b.scriptOutput(ctx, script.String()+"echo looked", env)
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(said, "\n")
	if i, err := strconv.Atoi(first); err == nil && i >= 0 && i < len(targets) {
		return targets[i].linkError()
	}
	if first != "looked" {
		return engineError(nil, "cannot check the mount targets in the container").hint("see: belljar doctor")
	}
	return nil
}

// scriptOutput runs a short script as the keeper's user, and returns what it printed.
func (b *box) scriptOutput(ctx context.Context, script string, env []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var said headBuffer
	exec, err := b.exec(ctx, sandbox.Exec{
		Script: script, Dir: "/", Env: env, User: sandbox.User{UID: b.keeperUID, GID: b.keeperUID}, Stdout: &said, Stderr: io.Discard,
	})
	if err != nil {
		return "", err
	}
	defer func() { exec.close(); b.forget(exec) }()
	select {
	case <-exec.copied:
		return string(said), nil
	case <-ctx.Done():
		return "", engineError(ctx.Err(), "checking mount targets").hint("see: belljar doctor")
	}
}

// headBuffer keeps the beginning of what is written.
type headBuffer []byte

func (b *headBuffer) Write(p []byte) (int, error) {
	*b = append(*b, p[:min(len(p), 1<<10-len(*b))]...)
	return len(p), nil
}

// open opens a file to identify it, not to read it.
func open(dir int, path string, resolve uint64) (fd int, id identity, mode uint32, err error) {
	fd, err = unix.Openat2(dir, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: resolve})
	if err != nil {
		return 0, id, 0, err
	}
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil {
		unix.Close(fd)
		return 0, id, 0, err
	}
	return fd, identity{s.Dev, s.Ino}, s.Mode, nil
}
