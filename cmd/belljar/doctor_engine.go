package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"belljar/sandbox"
	"belljar/sandbox/docker"
)

// checkEngineVersion knows only Docker's version numbers: Podman answers as an engine,
// but has numbers of its own.
func checkEngineVersion(a docker.About, networks []string) finding {
	engine, isDocker := a.Component("Engine")
	v, known := parseVersion(engine.Version)
	switch {
	case !isDocker:
		return ok("%s is not Docker: its known vulnerabilities are not checked", a.Version)
	case !known:
		return ok("Docker %s is not a release: its known vulnerabilities are not checked", engine.Version)
	}
	var all []finding
	if v.less(release{major: 23}) {
		all = append(all, warn("use a newer engine, or one that your distribution still maintains",
			"Docker %s: support for 20.10 ended in December 2023; only packages of Linux distributions still get fixes", engine.Version))
	}
	if holes := unfixed(v, engineHoles); len(holes) > 0 && len(networks) > 0 {
		all = append(all, warn("use Docker 26 or newer, or network: none", "Docker %s lets commands on an internal network query external DNS servers, unless your distribution backported the fix: %s; profiles use network %s",
			engine.Version, strings.Join(holes, ", "), strings.Join(networks, ", ")))
	}
	if len(all) == 0 {
		return ok("Docker %s", engine.Version)
	}
	return together(all...)
}

// checkRuntimes compares the profiles' runtimes with the engine's.
func checkRuntimes(a docker.About, profiles map[string]sandbox.Profile) finding {
	var all []finding
	for _, name := range slices.Sorted(maps.Keys(profiles)) {
		runtime := profiles[name].Runtime
		if runtime == "" || slices.Contains(a.Runtimes, runtime) {
			continue
		}
		if strings.HasPrefix(runtime, "io.containerd.") {
			all = append(all, ok("profile %q has runtime %q, which the engine does not list; containerd may have it", name, runtime))
			continue
		}
		all = append(all, fail("install it and add it to \"runtimes\" in the engine's daemon.json, or change engine.runtime in sandbox.yaml",
			"profile %q has runtime %q, which the engine does not have: it has %s", name, runtime, strings.Join(a.Runtimes, ", ")))
	}
	others := slices.DeleteFunc(slices.Clone(a.Runtimes), func(name string) bool { return name == a.Runtime })
	text := a.Runtime + " is the default"
	if len(others) > 0 {
		text += "; also available: " + strings.Join(others, ", ")
	}
	if !slices.ContainsFunc(a.Runtimes, ownKernel) {
		text += "; no runtime has its own kernel, as gVisor's runsc does: commands share the host's kernel"
	}
	return together(append(all, ok("%s", text))...)
}

// ownKernel guesses from a runtime's name whether its containers have a kernel of their own. Names are free: nothing is left out for
// that of gVisor, whose kernel tells what it is.
func ownKernel(runtime string) bool {
	return strings.Contains(runtime, "runsc") || strings.Contains(runtime, "gvisor") || kata(runtime)
}

// kata guesses from a runtime's name whether its containers are in virtual machines, whose kernel is a Linux as any other.
func kata(runtime string) bool { return strings.Contains(runtime, "kata") }

// usesRunc reports whether some profile's commands run with runc.
func usesRunc(a docker.About, profiles map[string]sandbox.Profile) bool {
	runc := func(runtime string) bool { return runtime == "runc" || runtime == "io.containerd.runc.v2" }
	for _, p := range profiles {
		if runc(p.Runtime) || p.Runtime == "" && runc(a.Runtime) {
			return true
		}
	}
	return len(profiles) == 0 && runc(a.Runtime)
}

func checkRunc(a docker.About, profiles map[string]sandbox.Profile) finding {
	const fixed = "1.2.8, 1.3.3, 1.4.0 or newer"
	if !usesRunc(a, profiles) {
		return ok("no profile uses it")
	}
	runc, told := a.Component("runc")
	v, known := parseVersion(runc.Version)
	if !told || !known {
		return warn("check that `runc --version` on its host prints "+fixed, "the engine does not report its runc version (%q)", runc.Version)
	}
	// Debian's engines report the package's version here, others a commit.
	name := runc.Version
	if _, packaged := parseVersion(runc.Commit); packaged && runc.Commit != name {
		name += " (" + runc.Commit + ")"
	}
	if holes := unfixed(v, runcHoles); len(holes) > 0 {
		return warn("upgrade runc to "+fixed+"; for a package of a Linux distribution, look up the CVEs in its security tracker",
			"runc %s has known container escapes, unless your distribution backported the fixes: %s", name, strings.Join(holes, ", "))
	}
	return ok("runc %s", name)
}

// checkLimits reports limits that the engine ignores without an error.
func checkLimits(a docker.About) finding {
	cgroups := fmt.Sprintf("cgroup v%s, driver %s", a.Cgroup.Version, a.Cgroup.Driver)
	var missing []string
	for _, limit := range []struct {
		name string
		have bool
	}{{"memory", a.Limits.Memory}, {"cpus", a.Limits.CPU}, {"pids", a.Limits.Pids}} {
		if !limit.have {
			missing = append(missing, "limits."+limit.name)
		}
	}
	if len(missing) > 0 {
		return fail("use a kernel with these cgroup controllers (cgroup v1 may need the boot option cgroup_enable=memory); a rootless engine needs cgroup v2 and systemd delegation (Delegate=cpu cpuset io memory pids)",
			"%s: the engine cannot enforce %s", cgroups, strings.Join(missing, ", "))
	}
	if !a.Limits.Swap {
		return warn("boot the engine's host with swapaccount=1, use cgroup v2, or turn swap off", "%s: no swap limit, so commands can use swap beyond limits.memory", cgroups)
	}
	return ok("%s: memory, swap, CPU and pids limits; the host has %d CPUs and %s", cgroups, a.Machine.CPUs, sandbox.FormatSize(a.Machine.Memory))
}

// security reports whether the engine has an option, such as "name=seccomp,profile=…".
func security(a docker.About, name string) bool {
	return slices.ContainsFunc(a.Security, func(option string) bool {
		return slices.Contains(strings.Split(option, ","), "name="+name)
	})
}

func checkSeccomp(a docker.About) finding {
	if !security(a, "seccomp") {
		return fail("use an engine and a kernel with seccomp (CONFIG_SECCOMP_FILTER)", "the engine has no seccomp: commands could make any system call")
	}
	return ok("enabled, with belljar's own profile for each container")
}

func checkAppArmor(a docker.About) finding {
	switch {
	case security(a, "apparmor"):
		return ok("AppArmor confines containers")
	case security(a, "selinux"):
		return ok("SELinux confines containers")
	}
	return warn("if the kernel has AppArmor: apt-get install -y apparmor, boot with apparmor=1 security=apparmor, and restart the engine",
		"neither AppArmor nor SELinux confines containers: user, capabilities, seccomp and the read-only root still do")
}

// checkUsers reports who root in a container would be, and why some profiles cannot have it.
func checkUsers(a docker.About, refused map[string]error, last string) finding {
	var all []finding
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		f := problem(refused[name], last)
		f.Text = fmt.Sprintf("profile %q: %s", name, f.Text)
		all = append(all, f)
	}
	text := "no user namespaces: root in a container would be root on the host, so commands run as root only with gVisor"
	switch {
	case security(a, "rootless"):
		text = "rootless engine: root in a container is the engine's user on the host; commands never run as root"
	case security(a, "userns"):
		text = "user namespaces: root in a container is an unprivileged user on the host"
	}
	return together(append(all, ok("%s", text))...)
}

// refusedRoots says why the engine would refuse profiles with a root user or a writable root file system.
func (p *patient) refusedRoots(ctx context.Context) map[string]error {
	refused := map[string]error{}
	for name, profile := range p.profiles() {
		spec := sandbox.Spec{User: profile.User, Root: profile.User.IsRoot(), Limits: profile.Limits, Network: profile.Network, Runtime: profile.Runtime}
		if !spec.Root && spec.Limits.Disk == 0 {
			continue
		}
		if err := p.docker.CheckRoot(ctx, spec); err != nil {
			refused[name] = err
		}
	}
	return refused
}

func checkStorage(a docker.About) finding {
	text := a.Storage + "; no disk quota needed: what a container may write to is in memory and limited"
	if a.Storage == "vfs" {
		text += "; it copies the image for each container, which is slow"
	}
	return ok("%s", text)
}

// checkWarnings passes on the engine's own, except those that checkLimits reports.
func checkWarnings(a docker.About) finding {
	var exposed, others []string
	for _, text := range a.Warnings {
		switch {
		case strings.Contains(text, "API is accessible"):
			exposed = append(exposed, text)
		case !strings.HasPrefix(text, "WARNING: No "):
			others = append(others, text)
		}
	}
	if len(exposed) > 0 {
		return warn("remove the tcp:// address from the engine's hosts, or protect it with TLS: anyone who can connect to it is root on its host", "%s", strings.Join(exposed, "; "))
	}
	if len(others) > 0 {
		return ok("these do not affect belljar: %s", strings.Join(others, "; "))
	}
	return ok("none")
}

func checkEngineDisk(a docker.About) finding {
	if !a.Local {
		return ok("unknown: %s is on another host", a.RootDir)
	}
	return checkDisk(a.RootDir, "images")
}

const (
	littleDisk  = 2 << 30
	tooFullDisk = 200 << 20
)

// checkDisk checks the free space of the file system of dir.
func checkDisk(dir, what string) finding {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return ok("unknown: cannot read %s: %v", dir, err)
	}
	return judgeDisk(dir, what, int64(fs.Bavail)*fs.Bsize)
}

// checkState checks where outputs and sessions are stored.
func checkState(dir string) finding {
	if dir == "" {
		return warn("set HOME or XDG_STATE_HOME", "there is no state directory: no sessions, and output is kept only until its command ends")
	}
	for { // it is made on first use
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			return checkDisk(dir, "XDG_STATE_HOME")
		}
		dir = filepath.Dir(dir)
	}
}

func judgeDisk(dir, what string, free int64) finding {
	text := fmt.Sprintf("%s free at %s (%s)", sandbox.FormatSize(free), dir, what)
	fix := "free space there, or set " + what + " to a directory on another disk"
	if what == "images" {
		fix = "free space: docker system df shows what uses it, docker image prune removes untagged images"
	}
	switch {
	case free < tooFullDisk:
		return fail(fix, "%s, less than %s", text, sandbox.FormatSize(tooFullDisk))
	case free < littleDisk:
		return warn(fix, "%s, less than %s", text, sandbox.FormatSize(littleDisk))
	}
	return ok("%s", text)
}
