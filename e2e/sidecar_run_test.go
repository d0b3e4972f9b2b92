package e2e

import (
	"syscall"
	"testing"

	"github.com/creack/pty"
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
	a.types("stty size\r")
	a.sees("33 101\r\n")
	if err := pty.Setsize(a.keys, &pty.Winsize{Cols: 60, Rows: 20}); err != nil {
		t.Fatal(err)
	}
	a.types("until [ \"$(stty size)\" = '20 60' ]; do sleep 0.1; done; echo re''sized\r")
	a.sees("resized\r\n")
	a.types("echo $TERM-$PAGER; test -t 0 && test -t 1 && test -t 2 && echo t''ty\r")
	a.sees("vt220-cat\r\ntty\r\n")
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
	a := s.remoteRun("--timeout", "3s")
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
