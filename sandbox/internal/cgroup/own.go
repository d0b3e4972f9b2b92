package cgroup

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// hierarchies are the directories under which a group has a directory: the one of
// version 2, or those of version 1. With an error they are not known, which does not mean that there are none.
func hierarchies() (dirs []string, err error) {
	if isKind(Root, unix.CGROUP2_SUPER_MAGIC) {
		return []string{Root}, nil
	}
	entries, err := os.ReadDir(Root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("looking for the control groups: %w", err)
	}
	for _, entry := range entries {
		dir := filepath.Join(Root, entry.Name())
		if entry.IsDir() && isKind(dir, unix.CGROUP_SUPER_MAGIC) {
			dirs = append(dirs, dir)
		}
	}
	return dirs, nil
}

func isKind(dir string, magic int64) bool {
	var fs unix.Statfs_t
	return unix.Statfs(dir, &fs) == nil && fs.Type == magic
}

// Make makes a new group directly below the root of every hierarchy, and returns its
// directories. After an error there is none.
func Make(name string) (dirs []string, err error) {
	share()
	all, err := hierarchies()
	if err != nil {
		return nil, err
	}
	for _, dir := range all {
		dir = filepath.Join(dir, name)
		err := os.Mkdir(dir, 0o755)
		if err == nil {
			err = os.Chmod(dir, 0o755) // whatever the umask is: a container may read its own
		}
		if err != nil {
			Remove(name)
			return nil, fmt.Errorf("making a control group: %w", err)
		}
		inheritCPUs(dir)
		dirs = append(dirs, dir)
	}
	if len(dirs) == 0 {
		return nil, errors.New("making a control group: none are mounted at " + Root)
	}
	return dirs, nil
}

// inheritCPUs gives a new group the processors and memory nodes of the one above: with version 1 it has none, and no
// process can enter it.
func inheritCPUs(dir string) {
	for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
		has, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || len(strings.TrimSpace(string(has))) > 0 || isKind(dir, unix.CGROUP2_SUPER_MAGIC) {
			continue
		}
		if above, err := os.ReadFile(filepath.Join(filepath.Dir(dir), name)); err == nil {
			os.WriteFile(filepath.Join(dir, name), above, 0o644) // if it fails, so does the runtime, which says more
		}
	}
}

// Own is the group that was made under that name, nil if it is gone. With an error it is not known.
func Own(name string) (*Group, error) {
	all, err := hierarchies()
	if err != nil {
		return nil, err
	}
	var lines strings.Builder
	for _, dir := range all {
		controllers := filepath.Base(dir)
		if dir == Root {
			controllers = ""
		}
		switch _, err := os.Stat(filepath.Join(dir, name)); {
		case err == nil:
			fmt.Fprintf(&lines, "0:%s:/%s\n", controllers, name)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("looking for a control group: %w", err)
		}
	}
	return Parse(lines.String(), name), nil
}

// Made is when the group was made, or last changed by who made it; zero where that is not known.
func (g *Group) Made() (when time.Time) {
	if info, err := os.Stat(g.Pids); err == nil {
		when = info.ModTime()
	}
	return when
}

// Names are the groups directly below a root whose names have that beginning. With an error some may be missing.
func Names(prefix string) (names []string, err error) {
	all, err := hierarchies()
	if err != nil {
		return nil, err
	}
	for _, dir := range all {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return names, fmt.Errorf("looking for control groups: %w", err)
		}
		for _, entry := range entries {
			if entry.IsDir() && strings.HasPrefix(entry.Name(), prefix) && !slices.Contains(names, entry.Name()) {
				names = append(names, entry.Name())
			}
		}
	}
	return names, nil
}

// removeTries and removePause bound how long killed processes may take to leave a group.
const (
	removeTries = 2500
	removePause = 2 * time.Millisecond
)

// Remove kills what is in a group that was made under that name, and removes it. One
// that is gone is no error.
func Remove(name string) (err error) {
	dirs, err := hierarchies()
	if err != nil {
		return err
	}
	for i := range dirs {
		dirs[i] = filepath.Join(dirs[i], name)
	}
	for range removeTries {
		var errs []error
		dirs = slices.DeleteFunc(dirs, func(dir string) bool {
			err := unix.Rmdir(dir)
			if _, gone := os.Lstat(dir); errors.Is(err, unix.EROFS) && gone != nil { // it says so also where there is none
				err = gone
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, fmt.Errorf("removing a control group: %w", &fs.PathError{Op: "rmdir", Path: dir, Err: err}))
				return false
			}
			return true
		})
		if err = cmp.Or(errs...); err == nil { // one tells: in the others it is the same
			return nil
		}
		for _, dir := range dirs { // all: it is frozen in one hierarchy, and in the others, too
			kill(dir)
		}
		time.Sleep(removePause)
	}
	return err
}

// Kill kills what is in the container's groups.
func (g *Group) Kill() {
	for _, dir := range slices.Compact([]string{g.V2, g.Pids, g.Memory, g.Freezer}) { // of v2 all are one
		if dir != "" {
			kill(dir)
		}
	}
}

// kill kills what is in a group. Frozen processes die once they are thawed.
func kill(dir string) {
	for file, word := range map[string]string{"cgroup.kill": "1", "cgroup.freeze": "0", "freezer.state": "THAWED"} {
		if file, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY, 0); err == nil {
			file.WriteString(word)
			file.Close()
		}
	}
	text, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	for field := range strings.FieldsSeq(string(text)) {
		if pid, err := strconv.Atoi(field); err == nil && pid > 0 {
			killIn(dir, pid)
		}
	}
}

// killIn kills a process, unless another one has its PID by now.
func killIn(dir string, pid int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err == nil && strings.Contains(string(text), filepath.Base(dir)) {
		unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
}

// note is the attribute of a group that holds what Note wrote. Only root can write it.
const note = "trusted.belljar"

// Note writes a text to a group. It goes with the group.
func (g *Group) Note(text []byte) error {
	if err := unix.Setxattr(g.Pids, note, text, 0); err != nil {
		return fmt.Errorf("writing a note to control group %s: %w", g.Pids, err)
	}
	return nil
}

// maxNote is the most that the kernel keeps in one attribute.
const maxNote = 64 << 10

// ReadNote reads what Note wrote, nil if there is nothing.
func (g *Group) ReadNote() ([]byte, error) {
	text := make([]byte, maxNote)
	n, err := unix.Getxattr(g.Pids, note, text)
	switch {
	case errors.Is(err, unix.ENODATA), errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading the note of control group %s: %w", g.Pids, err)
	}
	return text[:n], nil
}
