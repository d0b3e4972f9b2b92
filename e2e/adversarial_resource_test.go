package e2e

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// R1: the bomb runs, the host can still fork, and nothing of it is left.
func forkBomb(t *testing.T) {
	a := ask(t, "--timeout", "6s", "b(){ b|b& };b; sleep 60")
	if a.code != 124 && a.code != 2 || a.Evidence.PidsLimitHits == 0 {
		t.Errorf("%s", a.json)
	}
	tool(t, "true")
	a.nothingLives(t)
}

// nothingLives checks that lingering processes are gone from the host.
func (a answer) nothingLives(t *testing.T) {
	t.Helper()
	for _, p := range a.Lingering {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", p.HostPID))
		if p.HostPID != 0 && strings.Contains(string(text), a.Container.ID) {
			t.Errorf("%d %s still runs", p.HostPID, p.Command)
		}
	}
}

// R3: the shell survives its child and reports it; the kill is reported anyway.
func childOutOfMemory(t *testing.T) {
	a := ask(t, "--memory", "64MiB", "(tail /dev/zero) 2>/dev/null; exit 0")
	a.ended(t, 0, "")
	if a.Evidence.OOMKills == 0 {
		t.Errorf("%s", a.json)
	}
}

// R5: /tmp is bounded by its size, or by the memory it is charged to.
func fullTmp(t *testing.T) {
	ask(t, "dd if=/dev/zero of=/tmp/f").ended(t, 1, "disk_full")
	a := ask(t, "--memory", "32MiB", "dd if=/dev/zero of=/tmp/f bs=64k")
	if a.code == 0 || a.Cause != "oom_killed" && a.Cause != "disk_full" {
		t.Errorf("%s", a.json)
	}
}

// R6: files are counted, or, in a pod, charged to its memory: Kubernetes bounds a directory by its bytes.
func manyFiles(t *testing.T) {
	a := ask(t, "--memory", "64MiB", "i=0; while : >/tmp/$i; do i=$((i+1)); done 2>/dev/null; exit 1")
	if onPods() {
		a.ended(t, 137, "oom_killed")
		return
	}
	a.ended(t, 1, "disk_full")
}

// R7: the workspace is in memory and bounded. A directory of the host that the
// operator made writable has no quota (see doctor): only the size of a single
// file is bounded.
func fullWorkspace(t *testing.T) {
	ask(t, "dd if=/dev/zero of=/work/f bs=1M").ended(t, 1, "disk_full")
	if onPods() {
		return // the rest mounts a directory of this host
	}
	dir, config := shared(t, "rw")
	ask(t, "--config", config, "-v", dir+":/work", "truncate -s 10G /work/f; echo $?").says(t, ".*(File too large.*\n1|153)\n.*")
}

// R9: the limit is the process's own, not the host's.
func outOfFiles(t *testing.T) {
	probed(t, " files").says(t, `10\d\d EMFILE\n`)
}

// R10: orphans are reaped; a parent that never waits pays for its zombies.
func zombies(t *testing.T) {
	ask(t, "--pids-limit", "1000", "--timeout", "10m", "i=0; while [ $i -lt 300 ]; do (true &); i=$((i+1)); done; until [ $(ls -d /proc/[0-9]* | wc -l) -lt 10 ]; do sleep 0.1; done").ended(t, 0, "")
	a := ask(t, "--pids-limit", "32", "i=0; while [ $i -lt 100 ]; do true & i=$((i+1)); done; exec sleep 1")
	a.nothingLives(t)
}

// R11: eight loops together get the CPU of one.
func busyLoops(t *testing.T) {
	a := ask(t, "--cpus", "0.5", "for i in 1 2 3 4 5 6 7 8; do while :; do :; done & done; sleep 2")
	if most := 0.5*a.Timing.Total/1000 + 0.3; a.Resources.CPUSeconds > most || a.Resources.CPUSeconds == 0 {
		t.Errorf("took %g s of CPU in %g ms", a.Resources.CPUSeconds, a.Timing.Total)
	}
	if len(a.Lingering) != 8 {
		t.Errorf("%d loops listed", len(a.Lingering))
	}
	a.nothingLives(t)
}

// R12: no core is written, and no sparse file pretends to terabytes.
func noCoreNoHugeFile(t *testing.T) {
	a := ask(t, "kill -SEGV $$")
	a.ended(t, 139, "signaled")
	if a.Signal != "SIGSEGV" {
		t.Errorf("signal %s", a.Signal)
	}
	ask(t, "sh -c 'kill -SEGV $$'; ls -A /work /tmp | grep core; ulimit -Hc").says(t, "(Segmentation fault\n)?0\n(Segmentation fault.*)?")
	ask(t, "truncate -s 10G /tmp/f; echo $?").says(t, ".*(File too large.*\n1|153)\n.*|1\n.*File too large\n")
}

// R13: the engine stores none of the output, so that its disk does not fill.
func noEngineLog(t *testing.T) {
	cmd := exec.Command(binary, "run", "head -c 16777216 /dev/zero; echo end >&2; sleep 100")
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(said, make([]byte, len("end\n"))); err != nil {
		t.Fatal(err)
	}
	id := container(t, cmd.Process.Pid)
	if onOCI() {
		if n := len(known(t, id)); n > 1<<20 {
			t.Errorf("%d bytes are kept", n)
		}
	} else if log := tool(t, "docker", "inspect", "--format", "{{.HostConfig.LogConfig.Type}}{{.LogPath}}", id); log != "none" {
		t.Errorf("log %q", log)
	}
	cmd.Process.Signal(syscall.SIGTERM)
	cmd.Wait()
}

// R14: more runs at once than processors, each with its own end.
func crowd(t *testing.T) {
	var group sync.WaitGroup
	for i := range 24 {
		group.Go(func() {
			out, err := exec.Command(binary, "run", fmt.Sprintf("echo %d; exit %d", i, i)).Output()
			if code := exitCode(t, err); code != i || string(out) != strconv.Itoa(i)+"\n" {
				t.Errorf("run %d: exit status %d, output %q", i, code, out)
			}
		})
	}
	group.Wait()
}

// R15: a command takes no more terminals than a container may have, and then is told so. Docker's containers share the host's.
func allTerminals(t *testing.T) {
	if !onOCI() {
		t.Skip("Docker bounds no terminals of a container: see docs/lockdown.md")
	}
	probed(t, " terminals").says(t, `67 ENOSPC\n`)
	name, use := newSession(t)
	flags, program := probe(t)
	flags = append(flags, "--session", name)
	asks(t, use, append(flags, program+" terminals kept >said & until grep ENOSPC said; do sleep 0.1; done")...).says(t, `67 ENOSPC\n`)
	a := asks(t, use, append(flags, "-t", "true")...)
	a.ended(t, 125, "engine_error")
	if !strings.Contains(string(a.json), "as many terminals as there may be") {
		t.Errorf("%s", a.json)
	}
}

// R16: a limit of the caller's own counts what runs in all containers. It does not apply, where belljar may raise it; and
// else it is not taken for the container's.
func siblingsProcesses(t *testing.T) {
	dir, config := shared(t, "rw")
	sibling := begun(t, func(*exec.Cmd) {}, "--config", config, "-v", dir+":/work", "for i in $(seq 30); do sleep 1000 & done; touch ready; wait")
	mark(t, "sibling is full", dir+"/ready")
	a := begun(t, func(cmd *exec.Cmd) {
		cmd.Args = append([]string{"sh", "-c", `ulimit -p 24 2>/dev/null || ulimit -u 24; exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
		cmd.Path = "/bin/sh"
	}, "echo hi").wait(t)
	if a.Cause == "pids_limit" || a.Cause == "engine_error" && !strings.Contains(string(a.json), "ulimit -u") || a.Cause == "exited" && a.Stdout != "hi\n" {
		t.Errorf("%s", a.json)
	}
	sibling.cmd.Process.Signal(syscall.SIGTERM)
	sibling.wait(t).ended(t, exitCanceled, "canceled")
}

// leftFiles are what a pattern matches, for what must not have been made.
func leftFiles(t *testing.T, patterns ...string) {
	t.Helper()
	for _, pattern := range patterns {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			t.Errorf("there is %q", found)
		}
	}
}

// names are the variables in the output of env.
func names(env string) []string {
	var list []string
	for _, m := range regexp.MustCompile(`(?m)^(\w+)=`).FindAllStringSubmatch(env, -1) {
		list = append(list, m[1])
	}
	return list
}
