package lockdown

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/moby/profiles/seccomp"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// hostwide are calls that take of what the kernel bounds for the whole host only, which one container could use up.
// Programs go without where a kernel lacks them. io_setup takes fs.aio-max-nr.
var hostwide = []string{"io_setup"}

// Seccomp is moby's current profile without those: an old engine's own
// allows io_uring and vsock. With root, commands may be user 0.
func Seccomp(root bool) *seccomp.Seccomp {
	s := seccomp.DefaultProfile()
	for _, rule := range s.Syscalls {
		rule.Names = slices.DeleteFunc(rule.Names, func(name string) bool { return slices.Contains(hostwide, name) })
	}
	missing := uint(unix.ENOSYS)
	s.Syscalls = append(s.Syscalls, &seccomp.Syscall{LinuxSyscall: specs.LinuxSyscall{Names: hostwide, Action: specs.ActErrno, ErrnoRet: &missing}})
	if root {
		spareInit(s)
	}
	return s
}

// itself are calls that change how the kernel treats a process, and the arguments with which they mean none but the caller's.
// The first one or two name it: 0 is the caller.
var itself = map[string][]specs.LinuxSeccompArg{
	"prlimit64":          {{Index: 0, Op: specs.OpEqualTo}},
	"sched_setscheduler": {{Index: 0, Op: specs.OpEqualTo}},
	"sched_setparam":     {{Index: 0, Op: specs.OpEqualTo}},
	"sched_setattr":      {{Index: 0, Op: specs.OpEqualTo}},
	"sched_setaffinity":  {{Index: 0, Op: specs.OpEqualTo}},
	"setpriority":        {{Index: 0, Op: specs.OpLessEqual, Value: unix.PRIO_PGRP}, {Index: 1, Op: specs.OpEqualTo}},
	"ioprio_set":         {{Index: 0, Op: specs.OpLessEqual, Value: ioprioGroup}, {Index: 1, Op: specs.OpEqualTo}},
}

// ioprioGroup is IOPRIO_WHO_PGRP of ioprio_set(2), after which comes IOPRIO_WHO_USER.
const ioprioGroup = 2

// spareInit keeps root from other processes than the caller. It can become the init's user, who may change those of the
// init: with no processor time left, that would end, or not answer.
func spareInit(s *seccomp.Seccomp) {
	for _, rule := range s.Syscalls {
		rule.Names = slices.DeleteFunc(rule.Names, func(name string) bool { return itself[name] != nil })
	}
	s.Syscalls = slices.DeleteFunc(s.Syscalls, func(rule *seccomp.Syscall) bool { return len(rule.Names) == 0 })
	for _, name := range slices.Sorted(maps.Keys(itself)) { // sorted: a filter's name is its digest
		s.Syscalls = append(s.Syscalls, &seccomp.Syscall{LinuxSyscall: specs.LinuxSyscall{Names: []string{name}, Action: specs.ActAllow, Args: itself[name]}})
	}
}

// SeccompFor is Seccomp of this host and architecture, for a container with these capabilities.
func SeccompFor(capabilities []string, root bool) (*specs.LinuxSeccomp, error) {
	text, err := json.Marshal(Seccomp(root))
	if err != nil {
		return nil, fmt.Errorf("encoding the seccomp profile: %w", err)
	}
	s, err := seccomp.LoadProfile(string(text), &specs.Spec{Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{Bounding: capabilities}}})
	if err != nil {
		return nil, fmt.Errorf("making the seccomp profile: %w", err)
	}
	return s, nil
}
