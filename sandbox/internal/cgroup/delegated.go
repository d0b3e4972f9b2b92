package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Delegated is the path of a group below which this process's user may make groups, and move processes into
// them: the same in all hierarchies. It is where this process is, or, with version 2, the group above.
func Delegated() (string, error) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	own := paths(string(text))
	dirs, err := hierarchies()
	if err != nil {
		return "", err
	}
	if len(dirs) == 0 {
		return "", errors.New("none are mounted at " + Root)
	}
	if dirs[0] == Root {
		return delegatedV2(Root, own[""])
	}
	return delegatedV1(dirs, own)
}

// paths are those of /proc/PID/cgroup, by controller.
func paths(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for controller := range strings.SplitSeq(parts[1], ",") {
			all[strings.TrimPrefix(controller, "name=")] = parts[2]
		}
	}
	return all
}

func delegatedV1(dirs []string, own map[string]string) (string, error) {
	at := ""
	for _, dir := range dirs {
		controller, _, _ := strings.Cut(filepath.Base(dir), ",")
		is := own[controller]
		if at == "" {
			at = is
		}
		if is != at {
			return "", fmt.Errorf("this process is in group %s of one hierarchy and %s of another", at, is)
		}
		if err := writable(filepath.Join(dir, is)); err != nil {
			return "", err
		}
	}
	return at, nil
}

// needed are the controllers without which there are no limits.
var needed = []string{"cpu", "memory", "pids"}

// delegatedV2 is the group above the process's own: one that has processes cannot have limited ones below.
func delegatedV2(root, own string) (string, error) {
	at := path.Dir(path.Clean("/" + own))
	dir := filepath.Join(root, at)
	for _, name := range []string{"", "cgroup.procs", "cgroup.subtree_control"} {
		if err := writable(filepath.Join(dir, name)); err != nil {
			return "", err
		}
	}
	has, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return "", err
	}
	control := filepath.Join(dir, "cgroup.subtree_control")
	on, err := os.ReadFile(control)
	if err != nil {
		return "", err
	}
	for _, controller := range needed {
		switch {
		case slices.Contains(strings.Fields(string(on)), controller):
		case !slices.Contains(strings.Fields(string(has)), controller):
			return "", fmt.Errorf("controller %s is not delegated to %s", controller, dir)
		default:
			if err := os.WriteFile(control, []byte("+"+controller), 0); err != nil {
				return "", fmt.Errorf("turning on controller %s: %w", controller, err)
			}
		}
	}
	return at, nil
}

func writable(name string) error {
	if err := unix.Access(name, unix.W_OK); err != nil {
		return fmt.Errorf("this user may not write to %s: %w", name, err)
	}
	return nil
}
