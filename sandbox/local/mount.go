package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"belljar/internal/names"
	"belljar/internal/ownfile"
	"belljar/internal/target"
	"belljar/sandbox"
)

// resolveMounts resolves the sources, so that the policy judges what would be
// mounted and not its name, and asks the policy.
func resolveMounts(mounts []sandbox.Mount, policy sandbox.Policy) ([]sandbox.Mount, error) {
	resolved := make([]sandbox.Mount, 0, len(mounts))
	for _, m := range mounts {
		if !path.IsAbs(m.Target) || strings.ContainsAny(m.Target, "\x00:") {
			return nil, sandbox.Invalid("write an absolute path inside the container", "mount target %q", m.Target)
		}
		m.Target = path.Clean(m.Target)
		source, err := resolveSource(m, policy)
		if err != nil {
			return nil, err
		}
		m.Source = source
		if policy == nil {
			return nil, &sandbox.Error{Cause: sandbox.CauseDenied, Message: fmt.Sprintf("mount of %q: the profile has no policy, so no mount is allowed", m.Source)}
		}
		if err := policy.CheckMount(m); err != nil {
			return nil, err
		}
		m.Steady = target.Volume(m.Source) || !policy.Writable(filepath.Dir(m.Source))
		resolved = append(resolved, m)
	}
	return resolved, nil
}

// checkVolumeUser refuses a writable volume for another group than that of the profile's user, own: an engine may make all files of a
// volume that is mounted to write those of the command's group.
func checkVolumeUser(c sandbox.Command, own sandbox.User) error {
	if own.Name != "" {
		own, _ = names.ParseUser(own.Name)
	}
	if c.User == own || c.User.Name == "" && own.Name == "" && c.User.GID == own.GID {
		return nil
	}
	for _, m := range c.Mounts {
		if m.Writable && target.Volume(m.Source) {
			return sandbox.Invalid("leave the user out, or mount the volume read-only", "volume %q: only the group of the profile's user may write to it, and user %q may be of another one", m.Source, c.User.String())
		}
	}
	return nil
}

func resolveSource(m sandbox.Mount, policy sandbox.Policy) (string, error) {
	if target.Volume(m.Source) { // whatever has that name in a directory of this host
		return m.Source, nil
	}
	if !filepath.IsAbs(m.Source) || strings.ContainsRune(m.Source, 0) {
		return "", sandbox.Invalid("write the whole path, or the name of a volume", "mount source %q is neither an absolute path nor the name of a volume", m.Source)
	}
	source, err := followLinks(filepath.Clean(m.Source), policy)
	if errors.Is(err, fs.ErrNotExist) {
		return "", sandbox.Invalid("create it first: belljar never creates a mount's source", "mount source %q does not exist", m.Source)
	}
	if err != nil {
		return "", err
	}
	info, err := os.Lstat(source)
	if err != nil {
		return "", &sandbox.Error{Cause: sandbox.CauseInvalid, Message: fmt.Sprintf("checking mount source %q", source), Err: err}
	}
	if !info.IsDir() && !info.Mode().IsRegular() {
		return "", &sandbox.Error{Cause: sandbox.CauseDenied, Message: fmt.Sprintf("mount source %q is a %s", source, kind(info.Mode())), Hint: "only directories and regular files are mounted"}
	}
	return source, nil
}

// followLinks resolves a path link by link, and refuses a link in a directory that
// commands may write: one command could have planted it, so that a mount of the next
// one shows the link's target.
func followLinks(source string, policy sandbox.Policy) (string, error) {
	resolved, err := ownfile.Walk(source, func(name string) (fs.FileInfo, error) {
		about, err := os.Lstat(name)
		if err == nil && about.Mode()&fs.ModeSymlink != 0 && policy != nil && policy.Writable(filepath.Dir(name)) {
			err = &sandbox.Error{Cause: sandbox.CauseDenied, Message: fmt.Sprintf("mount source %q leads through the link %q, which a command could have made", source, name),
				Hint: "name the directory itself"}
		}
		return about, err
	})
	if err != nil && sandbox.CauseOf(err) != sandbox.CauseDenied {
		err = &sandbox.Error{Cause: sandbox.CauseInvalid, Message: fmt.Sprintf("resolving mount source %q", source), Err: err, Hint: "name the directory itself"}
	}
	return resolved, err
}

func kind(m fs.FileMode) string {
	switch {
	case m&fs.ModeSocket != 0:
		return "socket"
	case m&fs.ModeDevice != 0:
		return "device"
	case m&fs.ModeNamedPipe != 0:
		return "named pipe"
	}
	return "special file"
}
