package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
)

// begin starts belljar run with a script that says "started" and goes on, and
// returns when it said so.
func begin(t *testing.T, marker string, flags ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	needEngine(t)
	script := "echo started; : " + marker + "; while :; do sleep 1; done"
	cmd := exec.Command(binary, append(append([]string{"run"}, flags...), script)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "started\n" {
		t.Fatalf("read %q, %v; stderr %q", line, err, &stderr)
	}
	return cmd, &stderr
}

// owned are the containers of one belljar process.
func owned(pid int) string {
	var mine []string
	for line := range strings.Lines(containers()) {
		if strings.Contains(line, "dev.belljar.process="+strconv.Itoa(pid)+"@") {
			mine = append(mine, line)
		}
	}
	return strings.Join(mine, "")
}

func exitCode(t *testing.T, err error) int {
	t.Helper()
	if err == nil {
		return 0
	}
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		t.Fatal(err)
	}
	return exit.ExitCode()
}

func TestKilledBelljarLeavesNothing(t *testing.T) {
	t.Parallel()
	cmd, _ := begin(t, "kill -9")
	if owned(cmd.Process.Pid) == "" {
		t.Fatal("no container carries this process's label")
	}
	cmd.Process.Signal(syscall.SIGKILL)
	cmd.Wait()
	eventually(t, "container gone", func() bool { return owned(cmd.Process.Pid) == "" })
}

// A command must not be able to defeat that by stopping the keeper.
func TestKeeperCannotBeStopped(t *testing.T) {
	needEngine(t)
	t.Parallel()
	out, err := exec.Command(binary, "run", "--timeout", "2s", `for p in /proc/[0-9]*; do kill -STOP ${p#/proc/} 2>&1; kill -KILL ${p#/proc/} 2>&1; done; echo done`).CombinedOutput()
	if err == nil {
		t.Fatalf("the script was meant to stop and kill itself, not the keeper:\n%s", out)
	}
	// It killed itself in passing, which the engine could still tell: the
	// container was alive to say so.
	if code := exitCode(t, err); code != exitKilled && code != exitTimeout {
		t.Fatalf("exit %d\n%s", code, out)
	}
}

const (
	exitTimeout  = 124
	exitCanceled = 130
	exitKilled   = 137
)

func TestSignals(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) {
			resetSignal(t, sig)
			cmd, stderr := begin(t, "signal")
			cmd.Process.Signal(sig)
			if code := exitCode(t, cmd.Wait()); code != exitCanceled {
				t.Errorf("exit %d, stderr %q", code, stderr)
			}
			if !strings.Contains(stderr.String(), "belljar: canceled by the caller") {
				t.Errorf("stderr %q", stderr)
			}
			if left := owned(cmd.Process.Pid); left != "" {
				t.Errorf("left behind: %s", left)
			}
		})
	}
}

func TestTwoSignalsKill(t *testing.T) {
	t.Parallel()
	cmd, stderr := begin(t, "twice")
	cmd.Process.Signal(syscall.SIGINT)
	cmd.Process.Signal(syscall.SIGINT)
	if code := exitCode(t, cmd.Wait()); code != exitCanceled {
		t.Errorf("exit %d, stderr %q", code, stderr)
	}
	eventually(t, "container gone", func() bool { return owned(cmd.Process.Pid) == "" })
}

// A signal while the container is being made undoes what was begun.
func TestSignalBeforeTheStart(t *testing.T) {
	needEngine(t)
	t.Parallel()
	cmd := exec.Command(binary, "run", "--format", "json", "sleep 100")
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "container made", func() bool { return owned(cmd.Process.Pid) != "" })
	cmd.Process.Signal(syscall.SIGINT)
	if code := exitCode(t, cmd.Wait()); code != exitCanceled {
		t.Errorf("exit %d", code)
	}
	var r struct{ Status, Cause string }
	if err := json.Unmarshal(out.Bytes(), &r); err != nil || r.Status != "canceled" || r.Cause != "canceled" {
		t.Errorf("%v: %s", err, &out)
	}
	if left := owned(cmd.Process.Pid); left != "" {
		t.Errorf("left behind: %s", left)
	}
}

func TestClosedTerminal(t *testing.T) {
	needEngine(t)
	t.Parallel()
	cmd := exec.Command(binary, "run", "echo started; sleep 100")
	terminal, err := pty.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(terminal).ReadString('\n'); err != nil || strings.TrimSpace(line) != "started" {
		t.Fatalf("read %q, %v", line, err)
	}
	terminal.Close()
	cmd.Wait()
	eventually(t, "container gone", func() bool { return owned(cmd.Process.Pid) == "" })
}

// A reader that goes away takes the command's purpose with it.
func TestReaderGone(t *testing.T) {
	needEngine(t)
	t.Parallel()
	cmd := exec.Command(binary, "run", "yes")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	out.Close()
	if code := exitCode(t, cmd.Wait()); code != exitCanceled {
		t.Errorf("exit %d", code)
	}
	if left := owned(cmd.Process.Pid); left != "" {
		t.Errorf("left behind: %s", left)
	}
}

// A container that is removed from outside is not waited for, and its command's
// status is not made up.
func TestRemovedFromOutside(t *testing.T) {
	needEngine(t)
	t.Parallel()
	cmd, stderr := begin(t, "rm -f")
	if id := container(t, cmd.Process.Pid); !onDocker() {
		kill(id)
	} else if err := exec.Command("docker", "rm", "-f", id).Run(); err != nil {
		t.Fatal(err)
	}
	code := exitCode(t, cmd.Wait())
	if code != exitKilled && code != 125 {
		t.Errorf("exit %d, stderr %q", code, stderr)
	}
}

// A kill in the middle of the engine's making a container, when no keeper
// watches yet: the guard does.
func TestKilledBeforeTheStart(t *testing.T) {
	needEngine(t)
	t.Parallel()
	cmd := exec.Command(binary, "run", "sleep 100")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "container made", func() bool { return owned(cmd.Process.Pid) != "" })
	cmd.Process.Signal(syscall.SIGKILL)
	cmd.Wait()
	eventually(t, "container gone", func() bool { return owned(cmd.Process.Pid) == "" })
}
