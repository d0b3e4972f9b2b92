// Command probe tries, from inside a sandbox, what a sandbox must refuse, and
// prints each attempt's error.
package main

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "files" {
		files()
		return
	}
	if len(os.Args) == 3 && os.Args[1] == "setcap" {
		fmt.Println("setcap", unix.Setxattr(os.Args[2], "security.capability", capable, 0))
		return
	}
	for _, attempt := range []struct {
		name string
		do   func() error
	}{
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
		{"read_init", func() error { _, err := os.ReadFile("/proc/1/environ"); return err }},
	} {
		fmt.Println(attempt.name, errno(attempt.do()))
	}
}

// files opens one until it may not, and prints how many.
func files() {
	for n := 3; ; n++ {
		if _, err := unix.Open("/dev/null", unix.O_RDONLY, 0); err != nil {
			fmt.Println(n, errno(err))
			return
		}
	}
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
