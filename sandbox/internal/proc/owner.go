package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Owner names a process so that another one can find out whether it still runs:
// the boot, the PID namespace, the PID and the time it started, which a
// recycled PID does not share.
type Owner struct {
	Host    string // boot ID and PID namespace: within one, PIDs can be compared
	Process string // PID and start time
	Name    string // user and host name: the owner of sessions, also after a restart
}

// ThisProcess is this process.
func ThisProcess() Owner {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	hostname, _ := os.Hostname()
	namespace, _ := os.Readlink("/proc/self/ns/pid")
	process, _ := processName(os.Getpid())
	return Owner{
		Host:    strings.TrimSpace(string(boot)) + "/" + strings.Trim(namespace, "pid:[]"),
		Process: process,
		Name:    fmt.Sprintf("%d@%s", os.Getuid(), hostname),
	}
}

// processName is "" for a process that is gone, or dead and not yet reaped. With an error that is not known.
func processName(pid int) (string, error) {
	p, err := ReadStat(pid)
	switch {
	case IsGone(err), err == nil && !p.Runs():
		return "", nil
	case err != nil:
		return "", err
	}
	return fmt.Sprintf("%d@%d", pid, p.StartTicks), nil
}

// IsGone reports whether an error of reading about a process says that there is none. Any other, such as that this process
// may open no more files, says nothing of it.
func IsGone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) }

// Runs reports whether the process of that host and name runs. One of this host of which that cannot be read does.
func (o Owner) Runs(host, process string) bool {
	var pid int
	if _, err := fmt.Sscanf(process, "%d@", &pid); err != nil || host != o.Host {
		return false
	}
	now, err := processName(pid)
	return err != nil || now == process
}

// Gone reports whether the process of that host and name has certainly ended. Nothing is
// known of processes on another host.
func (o Owner) Gone(host, process string) bool {
	var pid int
	if host != o.Host {
		return false
	}
	if _, err := fmt.Sscanf(process, "%d@", &pid); err != nil {
		return false
	}
	now, err := processName(pid)
	return err == nil && now != process
}
