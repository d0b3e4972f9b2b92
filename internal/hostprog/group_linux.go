package hostprog

import "syscall"

// groupAttr is for a new process group, whose first process is killed
// when belljar dies.
func groupAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
