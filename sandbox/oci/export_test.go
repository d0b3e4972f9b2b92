package oci

import (
	"errors"
	"os"
	"strings"

	"belljar/sandbox"
	"belljar/sandbox/internal/cgroup"
	"belljar/sandbox/internal/proc"
)

// Left are the names of the control groups of this process's containers.
func Left() []string {
	names, err := cgroup.Names(strings.TrimSuffix(groupName(proc.ThisProcess(), ""), "-"))
	if err != nil {
		panic(err)
	}
	return names
}

// Parts are the PIDs of a container's runtime and of its first process.
func Parts(c sandbox.Container) (runtime, first int) {
	r := c.(*box).record
	return r.Parent.PID, r.First.PID
}

// Keeper is the user of a container's init.
func Keeper(c sandbox.Container) int { return c.(*box).record.Keeper }

// Filter is the filter that an engine has for its runtime, of containers with a root user or without.
func Filter(e *Engine, root bool) []byte {
	p, err := profileOf(root)
	if err != nil {
		panic(err)
	}
	return e.filter.of(e.runtime, p)
}

// Runs is how many processes there are in the control group of a container.
func Runs(id string) (n int) {
	names, _ := cgroup.Names(groupPrefix)
	for _, name := range names {
		if group, _ := cgroup.Own(name); strings.HasSuffix(name, id) && group != nil {
			list, _ := group.Processes()
			n += len(list)
		}
	}
	return n
}

// OnSpareThread calls a function on a thread that ends with its goroutine.
func OnSpareThread(f func()) { onSpareThread(f) }

// MayRaise reports whether this process may raise limits of resources.
func MayRaise() bool { return mayRaise() }

// CheckImage refuses an image with that root directory.
func CheckImage(dir string, spec sandbox.Spec) error {
	root, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return checkImage(dir, int(root.Fd()), spec)
}

// Joined is an error of two parts.
func Joined() error {
	return joined(nil, errors.New("first"), nil, engineError(nil, "second").Hint("hint"))
}

// GroupHint is what to do where no control group can be made.
func GroupHint(err error) string { return groupHint(err) }
