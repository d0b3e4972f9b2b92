package boxinit

import (
	"os/exec"
	"syscall"
	"testing"

	"belljar/internal/boxinit/wire"
)

// A signal that was not sent, as no file could be opened, is not said to be.
func TestASignalWithoutFilesIsAnError(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	none := syscall.Rlimit{Cur: 0, Max: limit.Max}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	request := wire.SignalRequest{PID: uint32(cmd.Process.Pid), Signal: uint32(syscall.SIGKILL)}
	without := signalOne(request)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if without != syscall.EMFILE {
		t.Errorf("without files: %v", without)
	}
	if errno := signalOne(request); errno != 0 {
		t.Error(errno)
	}
	cmd.Wait()
	if errno := signalOne(request); errno != 0 {
		t.Errorf("to one that is gone: %v", errno)
	}
}
