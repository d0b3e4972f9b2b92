package boxinit

import (
	"io"
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

// In a pod that PodSecurity restricts, no process has a capability. So the init is the commands' user.
// What keeps it from them is the kernel: no signal without a handler reaches a first process from
// inside, and it takes those that have one (see withstand); nor can another process read or trace one that is not
// dumpable. A command can still lower the limits of its resources (prlimit(2)), and so end itself with the container.

// stayAlone makes this program an init that has no capability.
func (c Config) stayAlone() (step string, errno syscall.Errno) {
	if os.Getuid() != c.UID || os.Geteuid() != c.UID {
		return "being the commands' user", syscall.EPERM
	}
	for resource, most := range map[int]int64{syscall.RLIMIT_CORE: -1, syscall.RLIMIT_NOFILE: c.Files, syscall.RLIMIT_FSIZE: c.FileSize} {
		if most == 0 {
			continue
		}
		limit := syscall.Rlimit{Cur: uint64(max(0, most)), Max: uint64(max(0, most))}
		if err := syscall.Setrlimit(resource, &limit); err != nil {
			return "limiting resources", errnoOf(err)
		}
	}
	if errno := hide(); errno != 0 {
		return "hiding", errno
	}
	if c.NoSockets {
		return "forbidding sockets", forbidSockets()
	}
	return "", 0
}

const (
	prSetNoNewPrivs = 38

	seccompSetModeFilter  = 1
	seccompFilterAllTasks = 1
	seccompAllow          = 0x7fff0000
	seccompErrno          = 0x00050000

	sysIOURingSetup = 425 // the same on all architectures
	foreignABI      = 0x40000000
)

// instruction is struct sock_filter.
type instruction struct {
	code   uint16
	jt, jf uint8
	k      uint32
}

// machine is what a filter has to know of an architecture.
type machine struct{ arch, socket, seccomp, ioSetup uint32 }

var machines = map[string]machine{
	"amd64": {0xc000003e, 41, 317, 206},
	"arm64": {0xc00000b7, 198, 277, 0},
}

// socketFilter lets every call through but those that make sockets of a network, or could: by io_uring, and
// by the calls of another architecture; and io_setup(2), which takes of what the kernel has for the whole node.
func socketFilter(m machine) []instruction {
	const load, jumpEqual, jumpAtLeast, end = 0x20, 0x15, 0x35, 0x06
	refuse := func(errno syscall.Errno) instruction { return instruction{end, 0, 0, seccompErrno | uint32(errno)} }
	return []instruction{
		{load, 0, 0, 4}, // the architecture
		{jumpEqual, 1, 0, m.arch},
		refuse(syscall.ENOSYS),
		{load, 0, 0, 0}, // the call
		{jumpAtLeast, 0, 1, foreignABI},
		refuse(syscall.ENOSYS),
		{jumpEqual, 0, 1, sysIOURingSetup},
		refuse(syscall.ENOSYS),
		{jumpEqual, 0, 1, m.ioSetup},
		refuse(syscall.ENOSYS),
		{jumpEqual, 1, 0, m.socket},
		{end, 0, 0, seccompAllow},
		{load, 0, 0, 16}, // its first argument, the lower half: both architectures are little-endian
		{jumpEqual, 1, 0, syscall.AF_UNIX},
		refuse(syscall.EAFNOSUPPORT),
		{end, 0, 0, seccompAllow},
	}
}

// forbidSockets is for this program and all that it starts.
func forbidSockets() syscall.Errno {
	m, known := machines[runtime.GOARCH]
	if !known {
		return syscall.ENOSYS
	}
	filter := socketFilter(m)
	program := struct {
		size  uint16
		first *instruction
	}{uint16(len(filter)), &filter[0]}
	if _, _, errno := syscall.AllThreadsSyscall6(syscall.SYS_PRCTL, prSetNoNewPrivs, 1, 0, 0, 0, 0); errno != 0 {
		return errno
	}
	_, _, errno := syscall.RawSyscall(uintptr(m.seccomp), seccompSetModeFilter, seccompFilterAllTasks, uintptr(unsafe.Pointer(&program)))
	return errno
}

// copySelf copies this program, as one that every user may run, and ends it.
func copySelf(to string) {
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		die("opening itself", errnoOf(err))
	}
	// A file that is there already was left by a container that was ended halfway.
	file, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o555)
	if err != nil {
		die("creating "+to, errnoOf(err))
	}
	if _, err = io.Copy(file, from); err == nil {
		err = file.Close()
	}
	if err == nil {
		err = os.Chmod(to, 0o555)
	}
	if err != nil {
		die("copying itself", errnoOf(err))
	}
	syscall.Exit(0)
}
