package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const exitDenied = 126

// asking is a configuration whose policy asks about some commands.
func asking(t *testing.T, timeout string) string {
	t.Helper()
	text := `policy:
  ask_timeout: ` + timeout + `
  rules:
    - {name: push, commands: [git push], decision: ask, reason: it publishes}
    - {name: count, commands: [seq], decision: ask, reason: it counts}
    - {name: time, commands: [date], decision: ask}
    - {name: long, commands: [` + strings.Repeat("a", 61) + `], decision: ask}
`
	file := filepath.Join(t.TempDir(), "sandbox.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

const prompt = "allow it? [y]es, once; [N]o ("

func TestApproveOnce(t *testing.T) {
	needEngine(t)
	t.Parallel()
	a := sitDown(t, "run", "--config", asking(t, "1m"), "--description", "release\n1.2 \x1b[2J\u202e", "echo begin; seq -s \u200b 4")
	a.sees("belljar: the policy requires your approval for this command:")
	a.sees("1 | echo begin; seq -s \\u200b 4\r\n        ^ ")
	a.sees("            ^^^^^^^^^^^^^^^")
	a.sees("reason     rule \"count\" at 1:13: it counts")
	a.sees("runs       echo, seq")
	a.sees("in         /work")
	a.sees("purpose    release\r\n             1.2 \\x1b[2J\\u202e")
	a.sees(prompt)
	a.types("what?\r") // which is not an answer
	a.sees(prompt)
	a.types("y\r")
	a.sees("begin\r\n1\u200b2\u200b3\u200b4")
	a.ends(0)
}

func TestApproveDenies(t *testing.T) {
	needEngine(t)
	t.Parallel()
	config := asking(t, "1m")
	for name, keys := range map[string]string{"no": "n\r", "enter": "\r", "end of input": "\x04"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := sitDown(t, "run", "--config", config, "git push")
			a.sees(prompt)
			a.types(keys)
			a.sees("belljar: not approved: rule \"push\" at 1:1, \"git push\": it publishes")
			a.ends(exitDenied)
		})
	}
	t.Run("always, when not offered", func(t *testing.T) {
		t.Parallel()
		a := sitDown(t, "run", "--config", config, "git push")
		a.sees(prompt)
		a.types("a\r")
		a.sees(prompt)
		a.types("n\r")
		a.ends(exitDenied)
	})
	t.Run("interrupt", func(t *testing.T) {
		t.Parallel()
		a := sitDown(t, "run", "--config", config, "git push")
		a.sees(prompt)
		a.types("y\x03")
		a.sees("belljar: canceled before the command was approved")
		a.ends(exitCanceled)
	})
	t.Run("deadline", func(t *testing.T) {
		t.Parallel()
		a := sitDown(t, "run", "--config", asking(t, "10s"), "git push")
		a.sees(prompt)
		a.types("y") // and no Enter
		a.sees("\r\nbelljar: policy requires approval, but no one answered within 10s: rule \"push\"")
		a.ends(exitDenied)
		if err := syscall.SetNonblock(int(a.its.Fd()), true); err != nil {
			t.Fatal(err)
		}
		a.types("\r")
		line := make([]byte, 9)
		eventually(t, "the line", func() bool { n, _ := syscall.Read(int(a.its.Fd()), line); return n > 0 && line[0] == '\n' })
	})
}

// Input typed before a question does not answer it.
func TestApproveIgnoresWhatWasTypedAhead(t *testing.T) {
	needEngine(t)
	t.Parallel()
	a := sitDownTo(t, exec.Command("sh", "-c", `sleep 2; exec "$0" "$@"`, binary, "run", "--config", asking(t, "1m"), "git push"))
	a.types("y\ry\ry")
	a.sees(prompt)
	a.types("\r")
	a.sees("belljar: not approved")
	a.ends(exitDenied)
}

// The answer is read from the terminal, not from the command's stdin.
func TestApproveLeavesStdin(t *testing.T) {
	needEngine(t)
	t.Parallel()
	cmd := exec.Command(binary, "run", "-i", "--config", asking(t, "1m"), "git() { cat; }; git push")
	cmd.Stdin = strings.NewReader("y\nfrom stdin\n")
	a := sitDownTo(t, cmd)
	a.sees(prompt)
	a.types("y\r")
	a.sees("y\r\ny\r\nfrom stdin\r\n")
	a.ends(0)
}

// The question is asked before the command gets the terminal.
func TestApproveThenShell(t *testing.T) {
	needEngine(t)
	t.Parallel()
	a := sitDown(t, "run", "-it", "--config", asking(t, "1m"), "git() { stty size; read x; exit $x; }; git push")
	a.sees(prompt)
	a.types("y\r")
	a.sees("33 101")
	eventually(t, "raw", a.raw)
	a.types("7\r")
	a.ends(7)
}

func TestApproveAlways(t *testing.T) {
	needEngine(t)
	t.Parallel()
	config, session := asking(t, "1m"), fmt.Sprintf("e2e-%d", time.Now().UnixNano())
	t.Cleanup(func() { exec.Command(binary, "session", "rm", session).Run() })
	run := func(script string) *atTerminal {
		a := sitDown(t, "run", "--config", config, "--session", session, script)
		a.keeps = true
		return a
	}
	const prompt = "allow it? [y]es, once; [a]lways in this session; [N]o ("
	a := run("seq 2")
	a.sees("if always  seq by rule \"count\", until the session ends")
	a.sees(prompt)
	a.types("a\r")
	a.sees("1\r\n2\r\n")
	a.ends(0)

	a = run("echo no question; seq 3 5") // nor a prompt
	a.sees("no question\r\n3\r\n")
	a.ends(0)
	if bytes.Contains(a.all.Bytes(), []byte("approval")) {
		t.Errorf("%q", &a.all)
	}

	for _, script := range []string{"seq 2; date", "seq 2; $X"} {
		a = run(script)
		a.sees("allow it?")
		a.types("n\r")
		a.ends(exitDenied)
	}

	removeSession(session)
	a = run("seq 2")
	a.sees(prompt)
	a.types("n\r")
	a.ends(exitDenied)
}

// Without a person at the terminal there is no question, and the command is denied at once.
func TestApproveWithNobody(t *testing.T) {
	needEngine(t)
	t.Parallel()
	config := asking(t, "10m")
	const want = "belljar: policy requires approval, but no one is available to ask: rule \"push\" at 1:1, \"git push\": it publishes (run belljar in the foreground of a terminal, without redirecting stderr, or add --yes"
	t.Run("no terminal", func(t *testing.T) {
		t.Parallel()
		cmd := exec.Command(binary, "run", "--config", config, "git push")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		cmd.Stdin = strings.NewReader("y\n")
		out, err := cmd.CombinedOutput()
		if code := exitCode(t, err); code != exitDenied || !strings.Contains(string(out), want) {
			t.Errorf("exit %d: %s", code, out)
		}
	})
	t.Run("stderr elsewhere", func(t *testing.T) {
		t.Parallel()
		var stderr bytes.Buffer
		cmd := exec.Command(binary, "run", "--config", config, "git push")
		cmd.Stderr = &stderr
		a := sitDownTo(t, cmd)
		a.ends(exitDenied)
		if !strings.Contains(stderr.String(), want) {
			t.Error(stderr.String())
		}
	})
	t.Run("in the background", func(t *testing.T) {
		t.Parallel()
		cmd := exec.Command("sh", "-mc", `"$0" "$@" & wait $!; echo "status $?"`, binary, "run", "--config", config, "git push")
		a := sitDownTo(t, cmd)
		a.sees(want)
		a.sees("status 126")
		a.ends(0)
	})
}

// A stopped question is asked again; one that continues in the
// background is not answered.
func TestApproveIsStopped(t *testing.T) {
	needEngine(t)
	t.Parallel()
	config := asking(t, "1m")
	for _, test := range []struct{ then, sees, types, status string }{
		{"fg", prompt, "y\r", "status 0"},
		{"bg; wait", "no one is available to ask", "", "status 126"},
	} {
		t.Run(test.then, func(t *testing.T) {
			t.Parallel()
			script := `"$0" "$@"; echo stopped; sleep 0.2; ` + test.then + `; echo "status $?"`
			a := sitDownTo(t, exec.Command("sh", "-mc", script, binary, "run", "--config", config, "git() { :; }; git push"))
			a.sees(prompt)
			a.types("\x1a")
			a.sees("stopped")
			a.sees(test.sees)
			a.types(test.types)
			if test.types != "" {
				a.sees(test.status)
			}
			a.ends(0)
		})
	}
}
