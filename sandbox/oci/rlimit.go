package oci

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"belljar/sandbox"
	"belljar/sandbox/internal/lockdown"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// rlimits are those of a container's processes, at most as high as this process may have them: without rights to raise
// a limit, nothing can start with a higher one.
func rlimits(l sandbox.Limits, userns bool) (list []specs.POSIXRlimit) {
	add := func(r lockdown.Rlimit, most unix.Rlimit) {
		list = append(list, specs.POSIXRlimit{Type: "RLIMIT_" + strings.ToUpper(r.Name), Soft: min(uint64(r.Soft), most.Max), Hard: min(uint64(r.Hard), most.Max)})
	}
	unlimited := unix.Rlimit{Max: unix.RLIM_INFINITY}
	raises := mayRaise()
	for _, r := range append(lockdown.Rlimits(l), lockdown.OtherRlimits(release(), userns)...) {
		most := unlimited
		if !raises && unix.Getrlimit(slices.Index(rlimitNames, r.Name), &most) != nil {
			continue
		}
		add(r, most)
	}
	return list
}

// checkFiles refuses a limit of open files that is promised, and that this process may not give.
func checkFiles(l sandbox.Limits) error {
	var most unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &most) != nil || uint64(l.Files) <= most.Max {
		return nil
	}
	raise := "raise belljar's own limit: ulimit -Hn"
	if mayRaise() {
		text, _ := os.ReadFile("/proc/sys/fs/nr_open")
		bound, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
		if err != nil || uint64(l.Files) <= bound {
			return nil
		}
		most.Max, raise = bound, "raise sysctl fs.nr_open"
	}
	return engineError(nil, "limits.files is %d, and no process of this belljar may have more than %d files open", l.Files, most.Max).As(sandbox.CauseInvalid).
		Hint("lower limits.files, or " + raise)
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
