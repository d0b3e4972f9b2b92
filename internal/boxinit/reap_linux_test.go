package boxinit

import (
	"os"
	"syscall"
	"testing"
	"unsafe"
)

// Others may end as fast as they are reaped: in between, clients have their turn.
func TestReapingIsBounded(t *testing.T) {
	const count = mostReaped + 10
	for range count {
		pid, err := syscall.ForkExec("/bin/true", []string{"true"}, &syscall.ProcAttr{Env: os.Environ()})
		if err != nil {
			t.Fatal(err)
		}
		const pPID, keep = 1, 0x01000000 // P_PID, WNOWAIT
		var about [128]byte
		if _, _, errno := syscall.Syscall6(syscall.SYS_WAITID, pPID, uintptr(pid), uintptr(unsafe.Pointer(&about)), syscall.WEXITED|keep, 0, 0); errno != 0 {
			t.Fatal(errno)
		}
	}
	l := &loop{unreaped: true}
	if l.reap(); !l.unreaped || !l.more {
		t.Error("it reaps all at once")
	}
	if l.reap(); l.unreaped || l.more {
		t.Error("it does not know that all are reaped")
	}
	if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err != syscall.ECHILD {
		t.Errorf("%d is left, %v", pid, err)
	}
}
