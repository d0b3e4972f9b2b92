package oci_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// traces are all that there is of the containers of a directory.
func traces(t *testing.T, dir string, ids ...string) (list []string) {
	t.Helper()
	groups, _ := filepath.Glob("/sys/fs/cgroup/*/belljar-*")
	v2, _ := filepath.Glob("/sys/fs/cgroup/belljar-*")
	for _, group := range append(groups, v2...) {
		for _, id := range ids {
			if strings.Contains(group, id) {
				list = append(list, group)
			}
		}
	}
	entries, _ := os.ReadDir(filepath.Join(dir, "oci"))
	for _, entry := range entries {
		list = append(list, filepath.Join(dir, "oci", entry.Name()))
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, dir) {
			list = append(list, line)
		}
	}
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, process := range processes {
		pid, _ := strconv.Atoi(filepath.Base(process))
		args, _ := os.ReadFile(process + "/cmdline")
		group, _ := os.ReadFile(process + "/cgroup")
		for _, id := range ids {
			if strings.Contains(string(group), id) || strings.Contains(string(args), id) {
				list = append(list, fmt.Sprintf("%d: %q", pid, args))
			}
		}
		guard := strings.HasPrefix(string(args), "belljar-lifeline") && strings.Contains(string(args), fmt.Sprintf("\x00%d@", os.Getpid())) // of an engine that is open
		if strings.Contains(string(args), filepath.Join(dir, "oci")) && !guard {
			list = append(list, fmt.Sprintf("%d: %q", pid, args))
		}
	}
	return list
}

// wantNothing waits until there is nothing of these containers.
func wantNothing(t *testing.T, dir string, ids ...string) {
	t.Helper()
	var left []string
	for until := time.Now().Add(5 * time.Minute); time.Now().Before(until); {
		if left = traces(t, dir, ids...); len(left) == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("left behind: %s", strings.Join(left, "\n"))
}

// parts are the processes of a container on this host: the runtime's and the init's.
func parts(t testing.TB, id string) (runtime, init int) {
	t.Helper()
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, process := range processes {
		pid, _ := strconv.Atoi(filepath.Base(process))
		args, _ := os.ReadFile(process + "/cmdline")
		group, _ := os.ReadFile(process + "/cgroup")
		switch {
		case strings.Contains(string(group), id) && strings.HasPrefix(string(args), "/dev/belljar-init"):
			init = pid
		case strings.Contains(string(args), id) && strings.Contains(string(args), "--bundle"):
			runtime = pid
		}
	}
	if runtime == 0 || init == 0 {
		t.Fatalf("runtime %d, init %d", runtime, init)
	}
	return runtime, init
}
