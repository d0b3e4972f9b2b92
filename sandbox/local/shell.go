package local

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"belljar/sandbox"
)

// bashFiles are where a command finds bash, by the PATH that it begins with.
var bashFiles = []string{"/usr/local/sbin/bash", "/usr/local/bin/bash", "/usr/sbin/bash", "/usr/bin/bash", "/sbin/bash", "/bin/bash"}

// maxCachedModes bounds the files that are remembered.
const maxCachedModes = 10_000

// imageModes are those of images' files. What an image's ID means does not change.
type imageModes struct {
	mu     sync.Mutex
	cached map[[2]string]fs.FileMode // by image and name
}

// modes are those of an image's files, see sandbox.Engine.
func (h *upkeep) modes(ctx context.Context, image sandbox.Image, names []string) ([]fs.FileMode, error) {
	if modes := h.files.known(image, names); modes != nil {
		return modes, nil
	}
	modes, err := h.engine.Modes(ctx, image, names)
	if err != nil {
		return nil, err
	}
	h.files.mu.Lock()
	defer h.files.mu.Unlock()
	if h.files.cached == nil || len(h.files.cached) >= maxCachedModes {
		h.files.cached = map[[2]string]fs.FileMode{}
	}
	for i, name := range names {
		h.files.cached[[2]string{image.ID, name}] = modes[i]
	}
	return modes, nil
}

// known are the modes if all are, and else nil.
func (m *imageModes) known(image sandbox.Image, names []string) []fs.FileMode {
	m.mu.Lock()
	defer m.mu.Unlock()
	modes := make([]fs.FileMode, len(names))
	for i, name := range names {
		var ok bool
		if modes[i], ok = m.cached[[2]string{image.ID, name}]; !ok {
			return nil
		}
	}
	return modes
}

func (h *upkeep) hasBash(ctx context.Context, image sandbox.Image) (bool, error) {
	modes, err := h.modes(ctx, image, bashFiles)
	return slices.ContainsFunc(modes, func(m fs.FileMode) bool { return m.Type()&^fs.ModeSymlink == 0 && m.Perm()&0o111 != 0 }), err
}

// chooseShell has auto be what the image has, since the policy judges a script in the
// language of the shell that runs it.
func (l *Local) chooseShell(ctx context.Context, c sandbox.Command) (sandbox.Command, error) {
	if c.Shell != sandbox.ShellAuto {
		return c, nil
	}
	if err := l.admission.admit(l.Admission); err != nil {
		return c, err
	}
	defer l.admission.release()
	image, err := l.upkeep.images.Resolve(ctx, c.Image, c.Pull)
	has := false
	if err == nil {
		has, err = l.upkeep.hasBash(ctx, image)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return c, canceledEarly(ctx)
	case err != nil:
		return c, err
	}
	if c.Shell = sandbox.ShellSh; has {
		c.Shell = sandbox.ShellBash
	}
	return c, nil
}

// checkShell refuses bash where the image has none. A session's image may be older
// than the one that the command chose its shell by.
func (h *upkeep) checkShell(ctx context.Context, c sandbox.Command, image sandbox.Image) error {
	if c.Shell != sandbox.ShellBash {
		return nil
	}
	has, err := h.hasBash(ctx, image)
	if err == nil && !has {
		err = sandbox.Invalid("use --shell sh, or an image that has bash", "image %q has no bash", image.Reference)
	}
	return err
}

// explainNoBash says so where a command that a shell did not find is bash, and the
// image has none.
func (x *execution) explainNoBash(ctx context.Context) {
	r := &x.result
	if r.ExitCode != 127 || r.Cause != sandbox.CauseExited || r.Message != "" {
		return
	}
	words := strings.Fields(x.command.Script)
	if words[0] != "bash" && !slices.Contains(bashFiles, words[0]) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	if has, err := x.local.upkeep.hasBash(ctx, x.image); err == nil && !has {
		r.Message = fmt.Sprintf("image %q has no bash: the command runs in sh already, so leave bash out, or use an image that has it", x.image.Reference)
		x.notice("%s", r.Message)
	}
}

// suit fits the command to the image of its new container, or refuses what the image
// does not have: the shell, the user or the working directory.
func (x *execution) suit(ctx context.Context, image sandbox.Image) (err error) {
	x.image = image
	if err := x.local.upkeep.checkShell(ctx, x.command, image); err != nil {
		return err
	}
	if x.command.User, err = x.local.upkeep.user(ctx, image, x.command.User); err != nil {
		return err
	}
	x.result.User = x.command.User
	return x.local.upkeep.checkNewDir(ctx, x.command, image)
}
