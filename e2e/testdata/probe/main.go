// Command probe tries, from inside a sandbox, what a sandbox must refuse, and
// prints each attempt's error.
package main

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

func main() {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "files":
			open("/dev/null", unix.O_RDONLY)
			return
		case "terminals":
			open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY)
			if len(os.Args) > 2 { // keep them
				unix.Pause()
			}
			return
		case "starve":
			starve()
			return
		}
	}
	if len(os.Args) == 3 && os.Args[1] == "setcap" {
		fmt.Println("setcap", unix.Setxattr(os.Args[2], "security.capability", capable, 0))
		return
	}
	for _, attempt := range []struct {
		name string
		do   func() error
	}{
		{"io_setup", func() error { return call(unix.SYS_IO_SETUP, 1, buffer()) }},
		{"io_uring_setup", func() error { return call(unix.SYS_IO_URING_SETUP, 8, buffer()) }},
		{"socket_vsock", func() error { return socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0) }},
		{"socket_alg", func() error { return socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0) }},
		{"socket_packet", func() error { return socket(unix.AF_PACKET, unix.SOCK_RAW, 0) }},
		{"socket_raw", func() error { return socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP) }},
		{"keyctl", func() error { return call(unix.SYS_KEYCTL, 0, ^uintptr(2)) }},
		{"add_key", func() error { return call(unix.SYS_ADD_KEY, buffer(), buffer()) }},
		{"bpf", func() error { return call(unix.SYS_BPF, 0, buffer(), 64) }},
		{"userfaultfd", func() error { return call(unix.SYS_USERFAULTFD) }},
		{"perf_event_open", func() error { return call(unix.SYS_PERF_EVENT_OPEN, buffer(), 0, ^uintptr(0), ^uintptr(0)) }},
		{"open_by_handle_at", func() error { return call(unix.SYS_OPEN_BY_HANDLE_AT, 0, buffer()) }},
		{"unshare_user", func() error { return unix.Unshare(unix.CLONE_NEWUSER) }},
		{"unshare_mount", func() error { return unix.Unshare(unix.CLONE_NEWNS) }},
		{"mount", func() error { return unix.Mount("x", "/tmp", "tmpfs", 0, "") }},
		{"move_mount", func() error { return call(unix.SYS_MOVE_MOUNT) }},
		{"chroot", func() error { return unix.Chroot("/tmp") }},
		{"init_module", func() error { return call(unix.SYS_INIT_MODULE, buffer(), 8, buffer()) }},
		{"sethostname", func() error { return unix.Sethostname([]byte("x")) }},
		{"setuid", func() error { return unix.Setuid(0) }},
		{"ptrace_init", func() error { return unix.PtraceAttach(1) }},
		{"kill_init", func() error { return unix.Kill(1, unix.SIGSTOP) }},
		{"process_vm_readv_init", func() error {
			local, remote := []unix.Iovec{{Base: new(byte), Len: 1}}, []unix.RemoteIovec{{Base: uintptr(unsafe.Pointer(new(byte))), Len: 1}}
			_, err := unix.ProcessVMReadv(1, local, remote, 0)
			return err
		}},
		{"pidfd_getfd_init", func() error {
			return ofInit(func(pidfd int) error { return call(unix.SYS_PIDFD_GETFD, uintptr(pidfd), 0, 0) })
		}},
		{"setns_init", func() error { return ofInit(func(pidfd int) error { return unix.Setns(pidfd, unix.CLONE_NEWNS) }) }},
		{"read_init", func() error { _, err := os.ReadFile("/proc/1/environ"); return err }},
	} {
		fmt.Println(attempt.name, errno(attempt.do()))
	}
}

// ofInit does something with a descriptor of the container's init.
func ofInit(do func(pidfd int) error) error {
	pidfd, err := unix.PidfdOpen(1, 0)
	if err != nil {
		return err
	}
	defer unix.Close(pidfd)
	return do(pidfd)
}

// open opens a file until it may not, and prints how many files there are then.
func open(name string, flags int) {
	for n := 3; ; n++ {
		if _, err := unix.Open(name, flags, 0); err != nil {
			fmt.Println(n, errno(err))
			return
		}
	}
}

// starve becomes the user of the container's init, as its root can, and tries to take the processor time of that, by each
// call and for each of its threads. It prints what it may do, and what it may do to itself.
func starve() {
	const prioUser, ioprioUser, idle, keeper = 2, 3, 5, 65533
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_KEEPCAPS, 1, 0, 0, 0); err != nil { // what the init has, who changes it must have
		fmt.Println("prctl", errno(err))
		return
	}
	if err := unix.Setresuid(keeper, keeper, keeper); err != nil {
		fmt.Println("setresuid", errno(err))
		return
	}
	var param struct{ priority int32 }
	mask := [16]uint64{1}
	attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: idle}
	limit := unix.Rlimit{Cur: 1, Max: 1}
	of := func(id uintptr) map[string]error {
		return map[string]error{
			"sched_setscheduler": call(unix.SYS_SCHED_SETSCHEDULER, id, idle, uintptr(unsafe.Pointer(&param))),
			"sched_setparam":     call(unix.SYS_SCHED_SETPARAM, id, uintptr(unsafe.Pointer(&param))),
			"sched_setattr":      call(unix.SYS_SCHED_SETATTR, id, uintptr(unsafe.Pointer(&attr)), 0),
			"sched_setaffinity":  call(unix.SYS_SCHED_SETAFFINITY, id, unsafe.Sizeof(mask), uintptr(unsafe.Pointer(&mask))),
			"setpriority":        call(unix.SYS_SETPRIORITY, unix.PRIO_PROCESS, id, 19),
			"ioprio_set":         call(unix.SYS_IOPRIO_SET, 1, id, 3<<13),
			"prlimit64":          call(unix.SYS_PRLIMIT64, id, unix.RLIMIT_CPU, uintptr(unsafe.Pointer(&limit)), 0),
		}
	}
	for id := range uintptr(32) {
		if id == 0 {
			continue // itself
		}
		for name, err := range of(id) {
			if err == nil {
				fmt.Println(name, "of", id)
			}
		}
	}
	for name, err := range map[string]error{
		"setpriority": call(unix.SYS_SETPRIORITY, prioUser, keeper, 19), "setpriority of one's": call(unix.SYS_SETPRIORITY, prioUser, 0, 19),
		"ioprio_set": call(unix.SYS_IOPRIO_SET, ioprioUser, keeper, 3<<13), "ioprio_set of one's": call(unix.SYS_IOPRIO_SET, ioprioUser, 0, 3<<13),
	} {
		if err == nil {
			fmt.Println(name, "of all processes of the user")
		}
	}
	for name, err := range of(0) {
		if err != nil {
			fmt.Println("not even its own:", name, errno(err))
		}
	}
	fmt.Println("done")
}

func call(number uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	if _, _, e := unix.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5]); e != 0 {
		return e
	}
	return nil
}

func socket(family, kind, protocol int) error {
	_, err := unix.Socket(family, kind, protocol)
	return err
}

func buffer() uintptr { return uintptr(unsafe.Pointer(&make([]byte, 256)[0])) }

func errno(err error) string {
	for err != nil {
		if e, ok := err.(unix.Errno); ok { //nolint:errorlint // what is wrapped is looked at by hand
			return unix.ErrnoName(e)
		}
		wrapped, ok := err.(interface{ Unwrap() error })
		if !ok {
			return err.Error()
		}
		err = wrapped.Unwrap()
	}
	return "DONE"
}

// capable is cap_net_raw,cap_setuid+ep: capabilities(7), revision 2.
var capable = []byte{1, 0, 0, 2, 0x80, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
