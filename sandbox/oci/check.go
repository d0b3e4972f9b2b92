package oci

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"belljar/internal/target"
	"belljar/sandbox"
	"belljar/sandbox/internal/bindmount"
	"belljar/sandbox/internal/failure"
	"belljar/sandbox/internal/lockdown"

	scoped "github.com/containerd/continuity/fs"
	"golang.org/x/sys/unix"
)

// check refuses what this engine does not have.
func (e *Engine) check(spec sandbox.Spec) error {
	if spec.User.UID < 0 || spec.User.UID == 0 && !spec.Root {
		return rootError()
	}
	if spec.Network != "none" && spec.Network != "" {
		return engineError(nil, "network %q does not exist: an engine without a daemon has only none", spec.Network).As(sandbox.CauseInvalid).
			Hint("use network none, or Docker: engine.kind docker")
	}
	if err := target.CheckNoVolumes("oci", spec.Mounts); err != nil {
		return err
	}
	if err := e.user.check(spec); err != nil {
		return err
	}
	return checkFiles(spec.Limits)
}

// checkImage refuses an image where what every container has would be mounted elsewhere, or
// nowhere.
func checkImage(dir string, root int, spec sandbox.Spec) error {
	for _, name := range []string{"/proc", "/sys", "/dev", "/tmp", "/work"} {
		if isDir, err := has(root, name); err != nil || !isDir {
			return engineError(err, "%s of image %q cannot be used as a directory", name, spec.Image.Reference).
				OfImage("make it a directory in the image, or remove it")
		}
	}
	if err := checkEtc(dir, root, spec); err != nil {
		return err
	}
	for _, volume := range spec.Image.Volumes { // each gets a mount, wherever the image's links lead
		at, err := scoped.RootPath(dir, volume)
		if err == nil {
			at, err = filepath.Rel(dir, at)
		}
		top, _, _ := strings.Cut(at, "/")
		if err != nil || slices.Contains([]string{".", "proc", "sys", "dev"}, top) {
			return engineError(err, "image %q declares a volume at %.256q, which cannot be masked", spec.Image.Reference, volume).
				OfImage("choose another image")
		}
	}
	return nil
}

// checkEtc refuses an image whose /etc, in which every container has files of its own, is no directory, or leads where those
// would be covered.
func checkEtc(dir string, root int, spec sandbox.Spec) error {
	at, err := etcOf(dir)
	fits := err == nil
	if fits && at != "etc" {
		covers := slices.Concat([]string{"/proc", "/sys", "/dev", "/tmp", "/work"}, slices.Collect(maps.Keys(lockdown.Tmpfs(spec))))
		fits = at != "." && !slices.ContainsFunc(covers, func(c string) bool { return below(c, "/"+at) })
	}
	if fits {
		fits, err = has(root, at)
	}
	if err != nil || !fits {
		return engineError(err, "/etc of image %q cannot be used as a directory", spec.Image.Reference).
			OfImage("make it a directory in the image, or a link to one that nothing is mounted at, or remove it")
	}
	return nil
}

// etcOf is where /etc leads in an image's root, which it is relative to.
func etcOf(dir string) (string, error) {
	at, err := scoped.RootPath(dir, "/etc")
	if err != nil {
		return "", err
	}
	return filepath.Rel(dir, at)
}

// has reports whether a path of an image is a directory, or could be made one. A link in it
// is the error unix.ELOOP.
func has(root int, name string) (dir bool, err error) {
	file, err := inRoot(root, name, unix.O_PATH, unix.RESOLVE_NO_SYMLINKS)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer file.Close()
	info, err := file.Stat()
	return err == nil && info.IsDir(), err
}

// maxUserFile bounds an image's /etc/passwd and /etc/group.
const maxUserFile = 1 << 20

// userFiles are copies of an image's /etc/passwd and /etc/group. A runtime opens both as root when
// it starts the init, without looking at what they are: on a FIFO, or a link to a device, it would
// hang. So it gets files, wherever the image's lead.
func userFiles(root int, spec sandbox.Spec) (map[string]string, error) {
	all := map[string]string{}
	for _, name := range []string{"passwd", "group"} {
		text, err := readFile(root, "/etc/"+name, maxUserFile)
		if err != nil {
			return nil, engineError(err, "reading /etc/%s of image %q", name, spec.Image.Reference).
				OfImage("make it a regular file in the image, or remove it")
		}
		link, err := inRoot(root, "/etc/"+name, unix.O_PATH|unix.O_NOFOLLOW, 0)
		if text == nil && missing(err) {
			continue
		}
		if err == nil {
			link.Close()
		}
		all[name] = string(text) // also where a link leads to nothing now
	}
	return all, nil
}

// checkTargets refuses targets that the image does not fit: links, and files where
// directories are needed. What is below another mount is the runtime's to judge.
func checkTargets(root int, spec sandbox.Spec) error {
	for i, t := range bindmount.Targets(spec) {
		if covered(spec, t.Path) {
			if err := checkBelow(spec, t); err != nil {
				return err
			}
			continue
		}
		file, err := inRoot(root, t.Path, unix.O_PATH, unix.RESOLVE_NO_SYMLINKS)
		dir := true // what has to be there, if anything is
		if i < len(spec.Mounts) {
			info, err := os.Stat(spec.Mounts[i].Source)
			dir = err != nil || info.IsDir()
		}
		fits := errors.Is(err, fs.ErrNotExist)
		if err == nil {
			info, failed := file.Stat()
			file.Close()
			fits = failed == nil && info.IsDir() == dir
		}
		switch {
		case failure.Shortage(err):
			return engineError(err, "looking for %s %q in the image", t.What, t.Path).Hint("see: belljar doctor")
		case errors.Is(err, unix.ELOOP):
			return t.LinkError()
		case !fits:
			return engineError(nil, "%s %q: the image has a file where the source is a directory (or the reverse), or the target cannot be created", t.What, t.Path).
				As(sandbox.CauseInvalid).Hint("choose a target such as /work/name, without a symbolic link in its path")
		}
	}
	return nil
}

// checkBelow refuses a target below another mount that goes through a link there. What a command
// changes since is looked for in the container (see bindmount.CheckMounted), where this host sees its mounts.
func checkBelow(spec sandbox.Spec, t bindmount.Target) error {
	for _, m := range spec.Mounts {
		rest, below := strings.CutPrefix(t.Path, strings.TrimSuffix(m.Target, "/")+"/")
		if !below {
			continue
		}
		dir, err := unix.Open(m.Source, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			continue // that is another error
		}
		file, err := inRoot(dir, rest, unix.O_PATH, unix.RESOLVE_NO_SYMLINKS)
		unix.Close(dir)
		if err == nil {
			file.Close()
		}
		if errors.Is(err, unix.ELOOP) {
			return t.LinkError()
		}
	}
	return nil
}

// covered reports whether a path is below another mount.
func covered(spec sandbox.Spec, name string) bool {
	dirs := []string{}
	for dir := range lockdown.Tmpfs(spec) {
		dirs = append(dirs, dir)
	}
	for _, m := range spec.Mounts {
		dirs = append(dirs, m.Target)
	}
	return slices.ContainsFunc(dirs, func(dir string) bool {
		return dir != name && strings.HasPrefix(name, strings.TrimSuffix(dir, "/")+"/")
	})
}
