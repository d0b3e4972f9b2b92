package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/docker"

	"golang.org/x/sys/unix"
)

// programTime is how long a runtime may take to say its version.
const programTime = 5 * time.Second

// runtimeOf is the path of the host's OCI runtime, "" for an engine that has others.
func (p *patient) runtimeOf() string {
	if engine, has := p.host.Engine.(interface{ Runtime() string }); has {
		return engine.Runtime()
	}
	return ""
}

// aboutOCI is the finding about an engine without a daemon.
func (p *patient) aboutOCI() finding {
	text := fmt.Sprintf("oci: %s makes containers, without a daemon", p.runtimeOf())
	if p.host.NoDocker != nil {
		text += "; engine.kind is auto, and Docker does not answer: " + p.problem(p.host.NoDocker).Text
	}
	if os.Geteuid() != 0 {
		text += fmt.Sprintf("; without root: in a user namespace of user %d", os.Getuid())
	}
	return ok("%s; Linux %s", text, kernelRelease())
}

func kernelRelease() string {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return "?"
	}
	return unix.ByteSliceToString(name.Release[:])
}

// checkRuntime asks the runtime itself for its version.
func checkRuntime(ctx context.Context, p *patient) finding {
	path := p.runtimeOf()
	ctx, cancel := context.WithTimeout(ctx, programTime)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return fail("reinstall it: apt-get install -y crun", "%s --version: %v", path, err)
	}
	line, _, _ := strings.Cut(string(out), "\n")
	name, version, named := strings.Cut(line, " version ")
	if !named || name != "runc" {
		return ok("%s", line)
	}
	about := docker.About{Runtime: name, Components: []docker.Component{{Name: name, Version: version}}}
	return checkRunc(about, map[string]sandbox.Profile{sandbox.DefaultProfile: {}})
}

// checkCgroups reports limits that the kernel cannot enforce.
func checkCgroups(_ context.Context, p *patient) finding {
	if engine, has := p.host.Engine.(interface{ NoLimits() error }); has && engine.NoLimits() != nil {
		return warn("start belljar in a group that is delegated to this user: with systemd, systemd-run --user --scope -p Delegate=yes belljar ARG...",
			"engine.limits is best-effort: commands have no limits on memory, CPUs and processes, as this user may make no control groups: %v", engine.NoLimits())
	}
	const fix = "use a kernel with these cgroup controllers (cgroup v1 may need the boot option cgroup_enable=memory)"
	version, has := "v1", func(controller string) bool {
		info, err := os.Stat(filepath.Join("/sys/fs/cgroup", controller))
		return err == nil && info.IsDir()
	}
	if text, err := os.ReadFile("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		version, has = "v2", func(controller string) bool { return strings.Contains(" "+string(text)+" ", controller) }
	}
	var missing []string
	for _, controller := range []string{"memory", "cpu", "pids"} {
		if !has(controller) {
			missing = append(missing, controller)
		}
	}
	if len(missing) > 0 {
		return fail(fix, "cgroup %s has no %s", version, strings.Join(missing, ", "))
	}
	return ok("cgroup %s: memory, CPU and pids limits", version)
}
