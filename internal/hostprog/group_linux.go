package hostprog

import "syscall"

// groupAttr is for a process group of its own, whose first process is killed
// with us.
func groupAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
