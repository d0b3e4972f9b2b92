//go:build !linux

package hostprog

import "syscall"

// groupAttr is for a process group of its own.
func groupAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
