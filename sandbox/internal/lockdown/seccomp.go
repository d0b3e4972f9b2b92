package lockdown

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/moby/profiles/seccomp"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// hostwide are calls that take of what the kernel bounds for the whole host only, which one container could use up.
// Programs go without where a kernel lacks them. io_setup takes fs.aio-max-nr.
var hostwide = []string{"io_setup"}

// Seccomp is moby's current profile without those: an old engine's own
// allows io_uring and vsock.
func Seccomp() *seccomp.Seccomp {
	s := seccomp.DefaultProfile()
	for _, rule := range s.Syscalls {
		rule.Names = slices.DeleteFunc(rule.Names, func(name string) bool { return slices.Contains(hostwide, name) })
	}
	missing := uint(unix.ENOSYS)
	s.Syscalls = append(s.Syscalls, &seccomp.Syscall{LinuxSyscall: specs.LinuxSyscall{Names: hostwide, Action: specs.ActErrno, ErrnoRet: &missing}})
	return s
}

// SeccompFor is Seccomp of this host and architecture, for a container with these capabilities.
func SeccompFor(capabilities []string) (*specs.LinuxSeccomp, error) {
	text, err := json.Marshal(Seccomp())
	if err != nil {
		return nil, fmt.Errorf("encoding the seccomp profile: %w", err)
	}
	s, err := seccomp.LoadProfile(string(text), &specs.Spec{Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{Bounding: capabilities}}})
	if err != nil {
		return nil, fmt.Errorf("making the seccomp profile: %w", err)
	}
	return s, nil
}
