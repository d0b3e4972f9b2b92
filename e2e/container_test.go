package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What follows asks the engine in use about one container, or does something to it behind
// belljar's back.

// inEngine is a container of an engine without a daemon, or a pod. It is empty once that is gone.
func inEngine(id string) ofEngine {
	for _, c := range enginesContainers() {
		if c.id == id {
			return c
		}
	}
	return ofEngine{}
}

// first is this host's PID of a container's first process, 0 once it is gone.
func first(id string) int {
	switch {
	case onOCI():
		return inEngine(id).First.PID
	case onPods():
		return podsInit(id)
	}
	out, _ := exec.Command("docker", "inspect", "--format", "{{.State.Pid}}", id).Output()
	pid, _ := strconv.Atoi(strings.TrimSpace(string(out)))
	return pid
}

// runs reports whether a process of this host does, and does not just wait to be reaped.
func runs(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, _ := strings.Cut(string(stat), ") ")
	return pid > 0 && err == nil && !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X")
}

// kill kills a container, and returns once its first process has ended. One that is gone is no
// error.
func kill(id string) {
	if onDocker() {
		exec.Command("docker", "kill", id).Run()
		return
	}
	pid := first(id)
	if pid > 0 {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	for range 6000 {
		if !runs(pid) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// pause pauses a container.
func pause(t *testing.T, id string) {
	t.Helper()
	switch {
	case onDocker():
		eventually(t, "it is paused", func() bool { return exec.Command("docker", "pause", id).Run() == nil }) // runc gives up on what forks
		return
	case onPods():
		pausePod(t, id)
		return
	}
	files, _ := filepath.Glob("/sys/fs/cgroup/freezer/belljar-*-" + id + "/freezer.state")
	word := "FROZEN"
	if len(files) == 0 { // version 2
		files, _ = filepath.Glob("/sys/fs/cgroup/belljar-*-" + id + "/cgroup.freeze")
		word = "1"
	}
	if len(files) != 1 {
		t.Fatalf("the files that freeze container %s are %q", id, files)
	}
	if err := os.WriteFile(files[0], []byte(word), 0); err != nil {
		t.Fatal(err)
	}
}

// inside runs a script in a container's workspace, as the user of its commands, beside belljar.
func inside(id, script string) (string, error) {
	cmd := exec.Command("docker", "exec", "-u", "65534:65534", "-w", "/work", id, "sh", "-c", script)
	if !onDocker() {
		cmd = exec.Command("nsenter", "-t", strconv.Itoa(first(id)), "-a", "-r", "-w", "-S", "65534", "-G", "65534", "sh", "-c", "cd /work; "+script)
		cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// top are the arguments of all that runs in a container, also of what belljar does not list.
func top(id string) (list []string) {
	space, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", first(id)))
	for _, pid := range hostProcesses(id) {
		if its, _ := os.Readlink("/proc/" + pid + "/ns/pid"); onPods() && its != space {
			continue // it keeps the pod's network
		}
		if args, err := os.ReadFile("/proc/" + pid + "/cmdline"); err == nil && len(args) > 0 {
			list = append(list, strings.TrimSpace(strings.ReplaceAll(string(args), "\x00", " ")))
		}
	}
	return list
}

// known is all that the engine in use keeps of a container: where another user or a report of the
// engine's could show it.
func known(t *testing.T, id string) (text string) {
	t.Helper()
	if onPods() {
		return inEngine(id).note + podsEvents(t) + environ(t, first(id))
	}
	if onDocker() {
		text = tool(t, "docker", "inspect", id) + tool(t, "docker", "events", "--since", "60s", "--until", "0s", "--filter", "container="+id)
		return text + execsOf(t, id) + environ(t, first(id))
	}
	c := inEngine(id)
	args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", c.Parent.PID))
	if err != nil {
		t.Fatal(err)
	}
	_, dir, _ := strings.Cut(string(args), "--bundle\x00")
	dir, _, _ = strings.Cut(dir, "\x00")
	text = id + c.note + string(args) + environ(t, c.Parent.PID) + environ(t, c.First.PID)
	for _, name := range []string{"config.json", "log", "state"} { // not the image's root
		text += filesIn(t, filepath.Join(fmt.Sprintf("/proc/%d/root", c.Parent.PID), dir, name))
	}
	if !strings.Contains(text, "noNewPrivileges") {
		t.Errorf("that is not all: %s", text)
	}
	return text
}

// environ are a process's variables, which only root can read.
func environ(t *testing.T, pid int) string {
	t.Helper()
	if os.Getuid() != 0 {
		return ""
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

// madeFrom is the ID of a container's image.
func madeFrom(t *testing.T, id string) string {
	t.Helper()
	if !onDocker() {
		return inEngine(id).Image.ID
	}
	return tool(t, "docker", "inspect", "--format", "{{.Config.Image}}", id)
}

// fromHost are the files and directories of this host that a container sees: where they are in it, but
// for its read-only root and belljar's init.
func fromHost(t *testing.T, id string) (list []string) {
	t.Helper()
	if onDocker() {
		for line := range strings.Lines(tool(t, "docker", "inspect", "--format", `{{range .Mounts}}{{.Destination}} {{.RW}} {{println .Type}}{{end}}`, id)) {
			if line = strings.TrimSpace(line); line != "" && line != "/etc/hosts false bind" && line != "/dev/belljar-init false bind" {
				list = append(list, line)
			}
		}
		return list
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", first(id)))
	if err != nil {
		t.Fatal(err)
	}
	own := []string{"tmpfs", "proc", "sysfs", "devpts", "mqueue", "cgroup", "cgroup2"}
	for line := range strings.Lines(string(text)) {
		before, after, _ := strings.Cut(line, " - ")
		at, options, kind := strings.Fields(before)[4], strings.Fields(before)[5], strings.Fields(after)[0]
		root := at == "/" && kind == "overlay" || at == "/dev/belljar-init"
		masked := strings.Fields(before)[3] == "/null" && kind == "devtmpfs" // what may not be read
		if onPods() && slices.Contains(ofKubelet, at) {
			continue
		}
		if !masked && !slices.Contains(own, kind) && (!root || !strings.HasPrefix(options, "ro,")) {
			list = append(list, strings.TrimSpace(line))
		}
	}
	if !strings.Contains(string(text), " - overlay ") {
		t.Errorf("these are no container's mounts: %s", text)
	}
	return list
}
