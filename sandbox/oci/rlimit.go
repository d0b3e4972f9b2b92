package oci

import (
	"slices"
	"strings"

	"belljar/sandbox"
	"belljar/sandbox/internal/lockdown"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// rlimits are those of a container's processes. Those that lockdown.Rlimits does not promise are as high as this process
// may have them: without rights to raise a limit, nothing can start with a higher one.
func rlimits(l sandbox.Limits, userns bool) (list []specs.POSIXRlimit) {
	add := func(r lockdown.Rlimit, most unix.Rlimit) {
		list = append(list, specs.POSIXRlimit{Type: "RLIMIT_" + strings.ToUpper(r.Name), Soft: min(uint64(r.Soft), most.Max), Hard: min(uint64(r.Hard), most.Max)})
	}
	unlimited := unix.Rlimit{Max: unix.RLIM_INFINITY}
	for _, r := range lockdown.Rlimits(l) {
		add(r, unlimited)
	}
	raises := mayRaise()
	for _, r := range lockdown.OtherRlimits(release(), userns) {
		most := unlimited
		if !raises && unix.Getrlimit(slices.Index(rlimitNames, r.Name), &most) != nil {
			continue
		}
		add(r, most)
	}
	return list
}

// rlimitNames are in the order of their numbers.
var rlimitNames = []string{
	unix.RLIMIT_CPU: "cpu", unix.RLIMIT_FSIZE: "fsize", unix.RLIMIT_DATA: "data", unix.RLIMIT_STACK: "stack", unix.RLIMIT_CORE: "core",
	unix.RLIMIT_RSS: "rss", unix.RLIMIT_NPROC: "nproc", unix.RLIMIT_NOFILE: "nofile", unix.RLIMIT_MEMLOCK: "memlock", unix.RLIMIT_AS: "as",
	unix.RLIMIT_LOCKS: "locks", unix.RLIMIT_SIGPENDING: "sigpending", unix.RLIMIT_MSGQUEUE: "msgqueue", unix.RLIMIT_NICE: "nice",
	unix.RLIMIT_RTPRIO: "rtprio", unix.RLIMIT_RTTIME: "rttime",
}

// mayRaise reports whether this process may raise limits of resources (capabilities(7), CAP_SYS_RESOURCE).
func mayRaise() bool {
	var data [2]unix.CapUserData
	err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0])
	return err == nil && data[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0
}

// release is the kernel's.
func release() string {
	var u unix.Utsname
	unix.Uname(&u)
	return unix.ByteSliceToString(u.Release[:])
}
