package oci

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"belljar/sandbox/internal/cgroup"
	"belljar/sandbox/internal/lockdown"

	"golang.org/x/sys/unix"
)

// What a container's private directory holds. It is a file system in memory, mounted in a
// mount namespace that only the container's runtime is in, and goes with that.
const (
	rootDir    = "root"   // an overlay of the image's root, and upper
	lowerDir   = "lower"  // the image's root
	upperDir   = "upper"  // what the image lacks: files, and the directories of mounts
	workDir    = "work"   // the overlay's own
	initFile   = "init"   // the init's program
	usersFile  = "users"  // the user namespace of a container with a root user
	stateDir   = "state"  // the runtime's
	groupsDir  = "cgroup" // the container's control group, as it sees it
	logFile    = "log"    // what the runtime and the init say
	socketFile = "socket" // where a session's init takes clients

	privateSize = "size=16m,nr_inodes=1024"
)

// sourceName is the file or directory that a mount's source is bound to.
func sourceName(i int) string { return fmt.Sprintf("mount%d", i) }

// prepare fills the private directory, and goes there: paths below are relative.
func (l *launch) prepare() error {
	mode := ",mode=700"
	if l.layer != nil {
		mode = ",mode=711" // the runtime enters it as the container's root, too
	}
	unix.Umask(0o022) // of this thread, or of a process that becomes the runtime: the modes below are what commands see
	if err := unix.Mount("belljar", l.dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, privateSize+mode); err != nil {
		return fmt.Errorf("mounting a directory in memory at %s: %w", l.dir, err)
	}
	if err := unix.Chdir(l.dir); err != nil {
		return err
	}
	dirs := []string{rootDir, lowerDir, stateDir, groupsDir, upperDir, workDir}
	if l.layer != nil {
		dirs[4], dirs = l.layer.Layer, dirs[:5]
	}
	for _, dir := range dirs {
		if err := unix.Mkdir(dir, 0o755); err != nil {
			return fmt.Errorf("making directory %s: %w", dir, err)
		}
	}
	if err := l.binds(); err != nil {
		return err
	}
	if err := l.files(); err != nil {
		return err
	}
	if err := l.bindGroups(); err != nil {
		return err
	}
	if err := l.mountRoot(); err != nil {
		return err
	}
	return l.openDirs()
}

func (l *launch) mountRoot() error {
	if l.layer != nil {
		return l.layer.Mount()
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", lowerDir, upperDir, workDir)
	if err := unix.Mount("overlay", rootDir, "overlay", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("mounting the image's root: %w", err)
	}
	return nil
}

// openDirs lets every user write to the directories in memory, whatever modes the image's
// directories of these names have: runc gives them on, and crun does not. What is not there yet,
// or is no directory, is the runtime's to make or to refuse.
func (l *launch) openDirs() error {
	root, err := unix.Open(rootDir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("opening the container's root: %w", err)
	}
	defer unix.Close(root)
	how := unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	for _, m := range l.config.Mounts {
		if m.Type != "tmpfs" || !slices.Contains(m.Options, "mode=1777") {
			continue
		}
		dir, err := unix.Openat2(root, m.Destination, &how)
		if err != nil {
			continue
		}
		var s unix.Stat_t
		if err = unix.Fstat(dir, &s); err == nil && s.Mode&0o7777 != 0o1777 {
			err = unix.Fchmod(dir, 0o1777)
		}
		unix.Close(dir)
		if err != nil {
			return fmt.Errorf("opening %s to all users: %w", m.Destination, err)
		}
	}
	return nil
}

// files are config.json, and those of /etc that Docker gives a container without a network, or that
// the runtime reads.
func (l *launch) files() error {
	config, err := json.Marshal(l.config)
	if err != nil {
		return fmt.Errorf("encoding the container's configuration: %w", err)
	}
	if err := os.WriteFile("config.json", config, 0o644); err != nil {
		return err
	}
	upper, own := upperDir, func(string) error { return nil }
	if l.layer != nil {
		if err := l.layer.MountLayer(); err != nil {
			return err
		}
		upper, own = l.layer.Upper(), l.layer.Own
	}
	etc, err := makeEtc(upper, own)
	if err != nil {
		return err
	}
	files := map[string]string{"hosts": lockdown.Hosts, "hostname": l.config.Hostname + "\n", "resolv.conf": ""}
	maps.Copy(files, l.users)
	for name, text := range files {
		name = filepath.Join(etc, name)
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return err
		}
		if err := own(name); err != nil {
			return err
		}
	}
	return nil
}

// makeEtc makes the image's /etc in the upper layer: where its link leads, and with the owners and modes of the image's
// directories, which these replace.
func makeEtc(upper string, own func(string) error) (etc string, err error) {
	at, err := etcOf(lowerDir)
	if err != nil {
		return "", err
	}
	dir := ""
	for name := range strings.SplitSeq(at, "/") {
		dir = filepath.Join(dir, name)
		etc = filepath.Join(upper, dir)
		if err := makeLike(etc, filepath.Join(lowerDir, dir), own); err != nil {
			return "", fmt.Errorf("making directory %s: %w", etc, err)
		}
	}
	return etc, nil
}

// makeLike makes a directory that is like another one, if that is there.
func makeLike(dir, other string, own func(string) error) error {
	if err := unix.Mkdir(dir, 0o755); err != nil {
		return err
	}
	var s unix.Stat_t
	err := unix.Lstat(other, &s)
	if errors.Is(err, unix.ENOENT) {
		return own(dir)
	}
	if err != nil {
		return err
	}
	if unix.Lchown(dir, int(s.Uid), int(s.Gid)) != nil { // the user namespace does not have that user
		if err := own(dir); err != nil {
			return err
		}
	}
	return unix.Chmod(dir, s.Mode&0o7777)
}

// binds mounts what comes from the host, each from an open file: no path leads to it
// that could lead elsewhere by now.
func (l *launch) binds() error {
	if err := attach(l.lower, lowerDir); err != nil {
		return err
	}
	if err := attach(l.init, initFile); err != nil {
		return err
	}
	for i, fd := range l.sources {
		if err := attach(fd, sourceName(i)); err != nil {
			return err
		}
	}
	if l.namespace == nil {
		return nil
	}
	if err := os.WriteFile(usersFile, nil, 0o600); err != nil {
		return err
	}
	if err := unix.Mount(fdPath(l.namespace), usersFile, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("binding the user namespace: %w", err)
	}
	return nil
}

// bindGroups mounts the container's control group, read-only: one directory, or one for each
// hierarchy of v1, next to the links that name hierarchies of several controllers.
func (l *launch) bindGroups() error {
	for _, dir := range l.groups {
		to := groupsDir
		if len(l.groups) > 1 {
			hierarchy, _, _ := strings.Cut(strings.TrimPrefix(dir, cgroup.Root+"/"), "/")
			to = filepath.Join(to, hierarchy)
			if err := unix.Mkdir(to, 0o755); err != nil {
				return fmt.Errorf("making directory %s: %w", to, err)
			}
		}
		if err := unix.Mount(dir, to, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("binding %s: %w", dir, err)
		}
		if err := unix.Mount("", to, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
			return fmt.Errorf("protecting %s: %w", dir, err)
		}
	}
	if len(l.groups) <= 1 {
		return nil
	}
	entries, _ := os.ReadDir(cgroup.Root)
	for _, entry := range entries {
		name := filepath.Join(cgroup.Root, entry.Name())
		if target, err := os.Readlink(name); err == nil && filepath.Base(target) == target {
			unix.Symlink(target, filepath.Join(groupsDir, entry.Name()))
		}
	}
	return nil
}

// attach mounts a detached mount at a name, which it makes unless it is there.
func attach(tree int, name string) error {
	var s unix.Stat_t
	if err := unix.Fstat(tree, &s); err != nil {
		return err
	}
	var err error
	if s.Mode&unix.S_IFMT == unix.S_IFDIR {
		err = unix.Mkdir(name, 0o700)
	} else {
		err = os.WriteFile(name, nil, 0o600)
	}
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, name, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("binding %s: %w", name, err)
	}
	return nil
}
