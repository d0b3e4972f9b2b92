//go:build !linux

package hostprog

import "syscall"

// groupAttr is for a new process group.
func groupAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
