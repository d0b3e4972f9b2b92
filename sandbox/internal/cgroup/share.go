package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// share lets groups below the root of version 2 have the controllers. Where the kernel refuses, the runtime says
// what is missing.
func share() {
	if isKind(Root, unix.CGROUP2_SUPER_MAGIC) {
		shareOf(Root)
	}
}

func shareOf(dir string) {
	control := filepath.Join(dir, "cgroup.subtree_control")
	for range shareTries {
		text, err := os.ReadFile(control)
		on := strings.Fields(string(text))
		if err != nil || !slices.ContainsFunc(needed, func(c string) bool { return !slices.Contains(on, c) }) {
			return
		}
		err = os.WriteFile(control, []byte("+"+strings.Join(needed, " +")), 0)
		if !errors.Is(err, unix.EBUSY) || leave(dir) != nil {
			return
		}
	}
}

// shareTries is how often processes may begin in the root while it is left.
const shareTries = 10

// ownGroup is the group of what was in the root.
const ownGroup = "init"

// leave moves all processes of the root into a group of their own: the kernel gives no controllers to the groups
// below one that has processes. That is so in a container, whose root is none to the kernel: it was made for the
// processes in it. The machine's own root is exempt.
func leave(root string) error {
	to := filepath.Join(root, ownGroup)
	if err := os.Mkdir(to, 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	text, err := os.ReadFile(filepath.Join(root, "cgroup.procs"))
	if err != nil {
		return err
	}
	for pid := range strings.FieldsSeq(string(text)) {
		err := os.WriteFile(filepath.Join(to, "cgroup.procs"), []byte(pid), 0)
		if err != nil && !errors.Is(err, unix.ESRCH) { // it has ended
			return err
		}
	}
	return nil
}
