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

// identity tells files apart whatever they are called.
type identity struct{ dev, ino uint64 }

// bound is a mount's source, made safe from a command with a writable mount,
// which could put a link into the engine's way (renameat2(2), RENAME_EXCHANGE)
// between the judging and the mounting.
type bound struct {
	source string // for the engine
	judged identity
	held   string // our bind of it, or ""
}

// bind makes the sources of mounts safe. What is held is let go with release,
// once the container has its own.
func (e *Engine) bind(mounts []sandbox.Mount) (all []bound, release func(), err error) {
	release = func() {
		for _, b := range all {
			letGo(b.held)
		}
	}
	holder := e.holder(mounts)
	for _, m := range mounts {
		b, err := holder.bind(m)
		if err != nil {
			release()
			return nil, nil, err
		}
		all = append(all, b)
	}
	return all, release, nil
}

// bind holds the source. Where that is not possible it must be such that no
// command could replace it.
func (h holder) bind(m sandbox.Mount) (bound, error) {
	fd, id, err := openSource(m.Source)
	if err != nil {
		return bound{}, err
	}
	defer unix.Close(fd)
	held, err := h.hold(fd)
	switch {
	case err == nil:
		return bound{held, id, held}, nil
	case m.Steady:
		return bound{m.Source, id, ""}, nil
	}
	return bound{}, engineError(err, "mount source %q is below a directory that commands may write, and one could swap it for another while it is mounted", m.Source).
		as(sandbox.CauseDenied).hint("mount that directory itself, or give its rule in mounts.allow mode ro, or run belljar as root on the engine's host")
}

// openSource opens what is about to be mounted. The path was resolved when it
// was judged; a link in it by now is a swap.
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
		return 0, id, engineError(err, "mount source %q changed after it was judged", source).as(sandbox.CauseDenied).hint("nothing may write to the directories above a mount's source")
	}
	return fd, id, nil
}

// checkMounted compares what was mounted with what was judged, where it can be
// looked at: an engine may see other files than this process does.
func (b *box) checkMounted(ctx context.Context, judged []bound) error {
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
			return t.linked()
		case i < len(judged) && (err != nil || id != judged[i].judged):
			return engineError(err, "mount source %q changed while it was mounted", b.spec.Mounts[i].Source).as(sandbox.CauseDenied).hint("nothing may write to the directories above a mount's source")
		case err != nil:
			return engineError(err, "looking at %s %q in the container", t.what, t.path).hint("see: belljar doctor")
		}
	}
	return nil
}

// target is where something was asked to be mounted.
type target struct{ what, path string }

// targets are those of the mounts, in their order, and then of tmpfs.
func (b *box) targets() (all []target) {
	for _, m := range b.spec.Mounts {
		all = append(all, target{"mount target", m.Target})
	}
	for _, dir := range b.spec.Tmpfs {
		all = append(all, target{"tmpfs", dir})
	}
	return all
}

// linked refuses what the runtime mounted where a link leads: the path that was
// judged is the one that was asked for.
func (t target) linked() error {
	return engineError(nil, "%s %q goes through a link of the image, or of another mount", t.what, t.path).as(sandbox.CauseDenied).
		hint("write the path that the link leads to")
}

// targetError is what the runtime says of a mount that it cannot make, nil of all
// else. The engine passes that on as text only, and as if the keeper's program were
// wrong.
func targetError(err error, spec sandbox.Spec) error {
	_, at, found := strings.Cut(err.Error(), `to rootfs at "`)
	if at, _, _ = strings.Cut(at, `"`); !found || len(spec.Mounts)+len(spec.Tmpfs) == 0 {
		return nil
	}
	const hint = "choose a target such as /work/name, with no link on its way"
	if slices.ContainsFunc(spec.Mounts, func(m sandbox.Mount) bool { return m.Target == at }) {
		return engineError(nil, "mount target %q: there is a file where the source is a directory, or the other way round, or it cannot be made", at).as(sandbox.CauseInvalid).hint(hint)
	}
	if slices.Contains(spec.Tmpfs, at) {
		return engineError(nil, "tmpfs %q cannot be made in the container", at).as(sandbox.CauseInvalid).hint("choose a directory such as /var/tmp, with no link on its way")
	}
	return engineError(nil, "%q cannot be mounted in the container beside the mounts that were asked for: a target may be a link of the image", at).as(sandbox.CauseInvalid).hint(hint)
}

// checkTargets looks for links in targets from inside, by what sh itself can do.
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
		test("! -e", t.path, i) // where the keeper may not look, there may be a link
		for p := path.Clean(t.path); p != "/"; p = path.Dir(p) {
			test("-h", p, i)
		}
	}
	said, err := b.ask(ctx, script.String()+"echo looked", env)
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(said, "\n")
	if i, err := strconv.Atoi(first); err == nil && i >= 0 && i < len(targets) {
		return targets[i].linked()
	}
	if first != "looked" {
		return engineError(nil, "mount targets cannot be looked at in the container").hint("see: belljar doctor")
	}
	return nil
}

// ask runs a short script as the keeper's user, and says what it wrote.
func (b *box) ask(ctx context.Context, script string, env []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var said brief
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
		return "", engineError(ctx.Err(), "looking at mount targets").hint("see: belljar doctor")
	}
}

// brief is the beginning of what is written.
type brief []byte

func (b *brief) Write(p []byte) (int, error) {
	*b = append(*b, p[:min(len(p), 1<<10-len(*b))]...)
	return len(p), nil
}

// open opens a file to name it, not to read it.
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
