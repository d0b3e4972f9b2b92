package e2e

import (
	"syscall"
	"testing"
)

// remoteRun is belljar run -it -H at a person's terminal, with a shell that begins with a
// prompt.
func (s *attacked) remoteRun(flags ...string) *atTerminal {
	s.t.Helper()
	a := sitDown(s.t, append(append([]string{"-H", "unix://" + s.address, "run", "-it", "-e", "PS1=prompt> "}, flags...), "exec sh")...)
	a.sees("prompt> ")
	if !a.raw() {
		s.t.Error("the terminal is not raw")
	}
	return a
}

// A shell at a sidecar is like one here.
func TestSidecarShell(t *testing.T) {
	t.Parallel()
	s := besiege(t, "")
	a := s.remoteRun()
	a.hasTerminal()
	a.types("sh -c 'echo beg\"\"un; exec sleep 1000'; echo interrup''ted\r")
	a.sees("begun\r\n")
	a.types("\x03")
	a.sees("prompt> ")
	a.types("(exit 9)\r")
	a.sees("(exit 9)\r\n")
	a.sees("prompt> ")
	a.types("\x04")
	a.ends(9)
}

// However it ends, the person's terminal is as it was.
func TestSidecarShellIsRestored(t *testing.T) {
	t.Parallel()
	s := besiege(t, ", drain_timeout: 1s")
	a := s.remoteRun("--timeout", "15s")
	a.sees("belljar: ")
	a.ends(exitTimeout)
	a = s.remoteRun()
	a.cmd.Process.Signal(syscall.SIGTERM)
	a.sees("belljar: canceled by the caller")
	a.ends(exitCanceled)
	a = s.remoteRun()
	s.cmd.Process.Signal(syscall.SIGTERM)
	a.sees("belljar: canceled: the sidecar is shutting down")
	a.ends(exitCanceled)
	s.stop(0)
}
