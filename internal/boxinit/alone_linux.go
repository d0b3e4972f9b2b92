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
// dumpable; nor, by a filter of calls, can it change its limits or its share of processor time.

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
	return "filtering calls", filterCalls(c.NoSockets)
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
type machine struct {
	arch, socket, seccomp, ioSetup, prlimit, setPriority, setIOPriority uint32

	setScheduler [3]uint32 // in three ways
}

var machines = map[string]machine{
	"amd64": {0xc000003e, 41, 317, 206, 302, 141, 251, [3]uint32{144, 142, 314}},
	"arm64": {0xc00000b7, 198, 277, 0, 261, 140, 30, [3]uint32{119, 118, 274}},
}

const load, jumpEqual, jumpAtLeast, end = 0x20, 0x15, 0x35, 0x06

// argument is where the lower half of a call's argument is: both architectures are little-endian.
func argument(i uint32) uint32 { return 16 + 8*i }

var allow = instruction{end, 0, 0, seccompAllow}

func refuseWith(errno syscall.Errno) instruction {
	return instruction{end, 0, 0, seccompErrno | uint32(errno)}
}

// only is rules for one call, which end it.
func only(call uint32, rules ...instruction) []instruction {
	return append([]instruction{{jumpEqual, 0, uint8(len(rules)), call}}, rules...)
}

// callFilter lets every call through but those of another architecture, and those that change how the kernel treats another process: the
// init could be left without files to wait for, or without processor time. Where another thread may run is not among
// them: that leaves the init its share.
func callFilter(m machine, noSockets bool) []instruction {
	filter := []instruction{
		{load, 0, 0, 4}, // the architecture
		{jumpEqual, 1, 0, m.arch},
		refuseWith(syscall.ENOSYS),
		{load, 0, 0, 0}, // the call
		{jumpAtLeast, 0, 1, foreignABI},
		refuseWith(syscall.ENOSYS),
	}
	filter = append(filter, only(m.prlimit,
		instruction{load, 0, 0, argument(0)}, // the process: 0 is the caller
		instruction{jumpEqual, 5, 0, 0},
		instruction{load, 0, 0, argument(2)}, // the limit that it gets: none
		instruction{jumpEqual, 0, 2, 0},
		instruction{load, 0, 0, argument(2) + 4},
		instruction{jumpEqual, 1, 0, 0},
		refuseWith(syscall.EPERM),
		allow,
	)...)
	filter = append(filter, ownPriority(m.setPriority, prioUser)...)
	filter = append(filter, ownPriority(m.setIOPriority, ioPrioUser)...)
	for _, call := range m.setScheduler {
		filter = append(filter, only(call,
			instruction{load, 0, 0, argument(0)},
			instruction{jumpEqual, 1, 0, 0},
			refuseWith(syscall.EPERM),
			allow,
		)...)
	}
	if noSockets {
		filter = append(filter, socketFilter(m)...)
	}
	return append(filter, allow)
}

// The ways to name processes by their user, of setpriority(2) and ioprio_set(2): those below it are by process and by group.
const prioUser, ioPrioUser = 2, 3

// ownPriority lets a call through for the caller or its group only, not for all of a user.
func ownPriority(call, user uint32) []instruction {
	return only(call,
		instruction{load, 0, 0, argument(0)},
		instruction{jumpAtLeast, 2, 0, user},
		instruction{load, 0, 0, argument(1)},
		instruction{jumpEqual, 1, 0, 0},
		refuseWith(syscall.EPERM),
		allow,
	)
}

// socketFilter refuses the calls that make sockets of a network, or could: by io_uring; and io_setup(2), which takes of what the kernel has
// for the whole node.
func socketFilter(m machine) (filter []instruction) {
	for _, call := range []uint32{sysIOURingSetup, m.ioSetup} {
		filter = append(filter, only(call, refuseWith(syscall.ENOSYS))...)
	}
	return append(filter, only(m.socket,
		instruction{load, 0, 0, argument(0)},
		instruction{jumpEqual, 1, 0, syscall.AF_UNIX},
		refuseWith(syscall.EAFNOSUPPORT),
		allow,
	)...)
}

// filterCalls is for this program and all that it starts.
func filterCalls(noSockets bool) syscall.Errno {
	m, known := machines[runtime.GOARCH]
	if !known {
		return syscall.ENOSYS
	}
	filter := callFilter(m, noSockets)
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
