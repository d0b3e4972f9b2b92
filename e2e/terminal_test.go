package e2e

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// atTerminal is belljar at a person's terminal.
type atTerminal struct {
	t      *testing.T
	cmd    *exec.Cmd
	keys   *os.File // the person's end of the terminal
	its    *os.File // belljar's end: held open, so that its modes can be seen
	before unix.Termios
	exited chan error
	keeps  bool // its container, which is a session's

	mu      sync.Mutex
	screen  bytes.Buffer // output that is not waited for yet
	all     bytes.Buffer
	changed chan struct{}
}

var usualSize = &pty.Winsize{Cols: 101, Rows: 33}

// sitDown starts belljar at a new terminal.
func sitDown(t *testing.T, args ...string) *atTerminal {
	t.Helper()
	return sitDownTo(t, exec.Command(binary, args...))
}

// sitDownTo starts a command that has a terminal for all streams that are not set.
func sitDownTo(t *testing.T, cmd *exec.Cmd) *atTerminal {
	t.Helper()
	needEngine(t)
	keys, its, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	a := &atTerminal{t: t, keys: keys, its: its, exited: make(chan error, 1), changed: make(chan struct{})}
	if err := pty.Setsize(keys, usualSize); err != nil {
		t.Fatal(err)
	}
	a.before = a.modes()
	a.cmd = cmd
	a.cmd.Env = append(os.Environ(), "TERM=vt220")
	if a.cmd.Stdin == nil {
		a.cmd.Stdin = its
	}
	if a.cmd.Stderr == nil {
		a.cmd.Stderr = its
	}
	a.cmd.Stdout = its
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 1}
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() { io.Copy(a, keys) })
	all.Go(func() { a.exited <- a.cmd.Wait() })
	t.Cleanup(func() {
		a.cmd.Process.Kill()
		its.Close()
		keys.Close()
		all.Wait()
	})
	return a
}

func (a *atTerminal) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	close(a.changed)
	a.changed = make(chan struct{})
	a.all.Write(p)
	return a.screen.Write(p)
}

func (a *atTerminal) modes() unix.Termios {
	a.t.Helper()
	modes, err := unix.IoctlGetTermios(int(a.its.Fd()), unix.TCGETS)
	if err != nil {
		a.t.Fatal(err)
	}
	return *modes
}

// raw reports whether keys go through as they are.
func (a *atTerminal) raw() bool { return a.modes().Lflag&(unix.ISIG|unix.ICANON|unix.ECHO) == 0 }

// sees waits until text was written since the last text that was waited for.
func (a *atTerminal) sees(text string) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	for {
		a.mu.Lock()
		_, rest, found := bytes.Cut(a.screen.Bytes(), []byte(text))
		if found {
			a.screen.Next(a.screen.Len() - len(rest))
			a.mu.Unlock()
			return
		}
		changed, screen := a.changed, a.screen.String()
		a.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			a.t.Fatalf("waiting for %q, the screen has %q", text, screen)
		}
	}
}

func (a *atTerminal) types(keys string) {
	a.t.Helper()
	if _, err := io.WriteString(a.keys, keys); err != nil {
		a.t.Fatal(err)
	}
}

// ends waits for belljar's end, with that status, nothing left behind, and the
// terminal as it was.
func (a *atTerminal) ends(status int) {
	a.t.Helper()
	select {
	case err := <-a.exited:
		if code := exitCode(a.t, err); code != status {
			a.t.Errorf("exit %d, want %d", code, status)
		}
	case <-time.After(patience):
		a.mu.Lock()
		defer a.mu.Unlock()
		a.t.Fatalf("it does not end; the screen has %q", &a.screen)
	}
	if left := owned(a.cmd.Process.Pid); left != "" && !a.keeps {
		a.t.Errorf("left behind: %s", left)
	}
	if after := a.modes(); after != a.before {
		a.t.Errorf("the terminal is %+v, and was %+v", after, a.before)
	}
}

// shell is a shell at a terminal, which begins with a prompt.
func shell(t *testing.T, flags ...string) *atTerminal {
	t.Helper()
	a := sitDown(t, append(append([]string{"run", "-it", "-e", "PS1=prompt> "}, flags...), "exec sh")...)
	a.sees("prompt> ")
	if !a.raw() {
		t.Error("the terminal is not raw")
	}
	return a
}

// hasTerminal checks that the shell's terminal has the person's size, kind and changes.
func (a *atTerminal) hasTerminal() {
	a.t.Helper()
	a.types("stty size\r")
	a.sees("33 101\r\n")
	if err := pty.Setsize(a.keys, &pty.Winsize{Cols: 60, Rows: 20}); err != nil {
		a.t.Fatal(err)
	}
	a.types("until [ \"$(stty size)\" = '20 60' ]; do sleep 0.1; done; echo re''sized\r")
	a.sees("resized\r\n")
	a.types("echo $TERM-$PAGER; test -t 0 && test -t 1 && test -t 2 && echo t''ty\r")
	a.sees("vt220-cat\r\ntty\r\n")
}

func TestTerminalShell(t *testing.T) {
	t.Parallel()
	a := shell(t)
	a.hasTerminal()
	a.types("sh -c 'echo beg\"\"un; exec sleep 1000'; echo interrup''ted\r")
	a.sees("begun\r\n")
	a.types("\x03")
	a.sees("prompt> ") // and nothing else of what was on that line
	a.types("sh -c 'echo beg\"\"un; exec sleep 1000'\r")
	a.sees("begun\r\n")
	a.types("\x1a") // Ctrl-Z stops the sleep, not belljar
	a.sees("prompt> ")
	a.types("jobs; kill -9 %1; wait %1; echo st''ill\r")
	a.sees("Stopped")
	a.sees("still\r\n")
	a.sees("prompt> ")
	a.types("(exit 9)\r")
	a.sees("(exit 9)\r\n")
	a.sees("prompt> ") // while a command runs, Ctrl-D would be that one's
	a.types("\x04")
	a.ends(9)
}

// A screen larger than any is not asked for.
func TestTerminalSizeIsBounded(t *testing.T) {
	t.Parallel()
	a := shell(t)
	if err := pty.Setsize(a.keys, &pty.Winsize{Cols: 5000, Rows: 3000}); err != nil {
		t.Fatal(err)
	}
	a.types("until [ \"$(stty size)\" = '200 500' ]; do sleep 0.1; done; exit 3\r")
	a.ends(3)
}

func TestTerminalIsRestored(t *testing.T) {
	t.Parallel()
	t.Run("after a timeout", func(t *testing.T) {
		t.Parallel()
		a := shell(t, "--timeout", "15s")
		a.sees("belljar: ")
		a.sees("\r\n")
		a.ends(exitTimeout)
	})
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		t.Run("after "+sig.String(), func(t *testing.T) {
			t.Parallel()
			resetSignal(t, sig)
			a := shell(t)
			a.cmd.Process.Signal(sig)
			a.sees("belljar: canceled by the caller")
			a.ends(exitCanceled)
		})
	}
	t.Run("after three signals", func(t *testing.T) {
		t.Parallel()
		a := shell(t)
		a.cmd.Process.Signal(syscall.SIGTERM)
		eventually(t, "restored", func() bool { return a.modes() == a.before })
		a.cmd.Process.Signal(syscall.SIGTERM)
		a.cmd.Process.Signal(syscall.SIGTERM)
		<-a.exited
		if after := a.modes(); after != a.before {
			t.Errorf("the terminal is %+v, and was %+v", after, a.before)
		}
		eventually(t, "container gone", func() bool { return owned(a.cmd.Process.Pid) == "" })
	})
	t.Run("after an error", func(t *testing.T) {
		t.Parallel()
		a := sitDown(t, "run", "-it", "-w", "/no/such/directory", "true")
		a.sees("belljar: ")
		a.ends(125)
	})
	t.Run("while stopped by a signal", func(t *testing.T) {
		t.Parallel()
		a := shell(t)
		for _, signal := range []syscall.Signal{syscall.SIGTSTP, syscall.SIGSTOP} {
			a.cmd.Process.Signal(signal)
			eventually(t, "stopped", func() bool { return state(a.cmd.Process.Pid) == "T" })
			if signal == syscall.SIGSTOP { // which no program sees: a shell restores its terminal
				if err := unix.IoctlSetTermios(int(a.its.Fd()), unix.TCSETS, &a.before); err != nil {
					t.Fatal(err)
				}
			}
			if after := a.modes(); after != a.before {
				t.Errorf("%v: the terminal is %+v, and was %+v", signal, after, a.before)
			}
			a.cmd.Process.Signal(syscall.SIGCONT)
			eventually(t, "raw", a.raw)
		}
		a.types("exit 4\r")
		a.ends(4)
	})
}

// state is a process's, as ps(1) tells it.
func state(pid int) string {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	_, rest, _ := strings.Cut(string(text), ") ")
	return rest[:min(1, len(rest))]
}

// What is typed after the command's end is the shell's that belljar was run by.
func TestTerminalLeavesKeysToOthers(t *testing.T) {
	t.Parallel()
	a := shell(t)
	a.types("exit 0\r")
	a.sees("exit 0\r\n")
	eventually(t, "restored", func() bool { return a.modes() == a.before })
	a.types("kept\n")
	a.ends(0)
	if err := syscall.SetNonblock(int(a.its.Fd()), true); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 64)
	if n, err := syscall.Read(int(a.its.Fd()), line); err != nil || string(line[:n]) != "kept\n" {
		t.Errorf("%q, %v", line[:max(0, n)], err)
	}
}

// Without -i the keys are ours: Ctrl-C cancels.
func TestTerminalWithoutInput(t *testing.T) {
	t.Parallel()
	a := sitDown(t, "run", "-t", "stty size; cat")
	a.sees("33 101")
	if a.raw() {
		t.Error("the terminal is raw")
	}
	a.types("\x03")
	a.sees("belljar: canceled by the caller")
	a.ends(exitCanceled)
}

func TestTerminalOfProgram(t *testing.T) {
	needEngine(t)
	t.Parallel()
	cmd := exec.Command(binary, "run", "-t", "stty size; echo error >&2; exit 7")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if code := exitCode(t, cmd.Run()); code != 7 || out.String() != "24 80\r\nerror\r\n" || errs.Len() > 0 {
		t.Errorf("exit %d, stdout %q, stderr %q", code, &out, &errs)
	}
	cmd = exec.Command(binary, "run", "-it", "true")
	cmd.Stdin = strings.NewReader("no terminal\n")
	text, err := cmd.CombinedOutput()
	if code := exitCode(t, err); code != 125 || !strings.Contains(string(text), "the input device is not a TTY (leave out -t") {
		t.Errorf("exit %d: %s", code, text)
	}
}
