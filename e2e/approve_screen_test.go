package e2e

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Input below one question answered another, if two were asked at
// once in one foreground process group. Stderr of one of them is /dev/tty.
func TestApproveOneAtATime(t *testing.T) {
	needEngine(t)
	t.Parallel()
	script := `"$0" "$@" 'seq 41 42' & "$0" "$@" 'seq 61 62' 2>/dev/tty & wait`
	a := sitDownTo(t, exec.Command("sh", "-c", script, binary, "run", "--config", asking(t, "1m")))
	a.sees("allow it?")
	a.sees("\r\nbelljar: another belljar is asking at this terminal; the next question follows when it is answered\r\n")
	first, second := "42", "62"
	a.mu.Lock()
	text := a.all.String()
	a.mu.Unlock()
	if strings.Contains(text, "seq 61 62") {
		first, second = second, first
	}
	if strings.Count(text, "allow it?") != 1 || strings.Contains(text, "seq 4") == strings.Contains(text, "seq 6") {
		t.Errorf("two questions at once: %q", text)
	}
	a.types("n\r")
	a.sees(prompt)
	time.Sleep(300 * time.Millisecond) // longer than the other's polling of the lock
	a.types("y\r")
	a.sees(second + "\r\n")
	a.ends(0)
	a.mu.Lock()
	defer a.mu.Unlock()
	if strings.Contains(a.all.String(), "\n"+first+"\r\n") {
		t.Errorf("the first ran: %q", &a.all)
	}
}

// A command that waits for another's question is denied in time, without its own.
func TestApproveNobodyHasTurn(t *testing.T) {
	needEngine(t)
	t.Parallel()
	config := asking(t, "2s")
	script := `exec 9<&2; flock "$(tty)" "$0" "$@" 'seq 41 42'; echo "status $?"`
	a := sitDownTo(t, exec.Command("sh", "-c", script, binary, "run", "--config", config))
	a.sees("no one answered within 2s")
	a.sees("status 126")
	a.ends(0)
	a.mu.Lock()
	defer a.mu.Unlock()
	if text := a.all.String(); strings.Contains(text, "allow it?") {
		t.Errorf("%q", text)
	}
}

// Hidden text, line drawing and disabled wrapping, left on by an earlier
// command, do not hide a question.
func TestApproveResetsTheTerminal(t *testing.T) {
	needEngine(t)
	t.Parallel()
	const reset = "\x1b[0m\x0f\x1b(B\x1b[?7h"
	a := sitDownTo(t, exec.Command("sh", "-c", `printf '\033[8m\016\033(0\033[?7l\033]0;'; exec "$0" "$@"`, binary, "run", "--config", asking(t, "1m"), "git push"))
	a.sees("\x1b\\" + reset + "belljar: the policy requires")
	a.sees(reset + "belljar: allow it?")
	a.types("?\r")
	a.sees(reset + "belljar: allow it?")
	a.types("n\r")
	a.ends(exitDenied)
}

func TestApproveOnNarrowTerminal(t *testing.T) {
	needEngine(t)
	t.Parallel()
	config := asking(t, "1m")
	at := func(columns int) *atTerminal {
		return sitDownTo(t, exec.Command("sh", "-c", fmt.Sprintf(`stty cols %d; exec "$0" "$@"`, columns), binary, "run", "--config", config, "git push"))
	}
	a := at(19)
	a.sees("belljar: policy requires approval, but the terminal is too narrow to show the question: it has 19 columns: rule \"push\"")
	a.ends(exitDenied)
	a = at(20)
	a.sees("\r\n      1 | git push\r\n")
	a.sees(prompt)
	a.types("n\r")
	a.ends(exitDenied)
}

// A script that is not shown completely cannot be approved for a session.
func TestApproveAlwaysIsNotOffered(t *testing.T) {
	needEngine(t)
	t.Parallel()
	session := fmt.Sprintf("e2e-%d", time.Now().UnixNano())
	a := sitDown(t, "run", "--session", session, "--config", asking(t, "1m"), strings.Repeat("a", 61)+" 1")
	a.sees("if always  not available: a name is longer than 60 bytes")
	a.sees(prompt)
	a.types("a\r")
	a.sees(prompt)
	a.types("n\r")
	a.ends(exitDenied)
}
