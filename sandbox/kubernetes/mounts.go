package kubernetes

import (
	"slices"
	"strings"

	"belljar/internal/boxinit"
	"belljar/sandbox"
)

// mount is one of a mountinfo.
type mount struct {
	at, fs   string
	readOnly bool
}

// unescaped are the characters that a mountinfo has as octal numbers.
var unescaped = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// mountsOf are the mounts of a mountinfo, proc_pid_mountinfo(5).
func mountsOf(mountinfo string) (list []mount) {
	for line := range strings.Lines(mountinfo) {
		before, after, _ := strings.Cut(line, " - ")
		if fields := strings.Fields(before); len(fields) > 5 {
			fs, _, _ := strings.Cut(after, " ")
			list = append(list, mount{unescaped.Replace(fields[4]), fs, slices.Contains(strings.Split(fields[5], ","), "ro")})
		}
	}
	return list
}

// ofRuntime are where runtimes and kubelets mount something in each container, and below.
var ofRuntime = []string{"/proc", "/sys", "/dev", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf", boxinit.Path}

// ofCRIO are where CRI-O does, besides (addOCIBindMounts and setupSecretMounts in its server/container_create_linux.go), from its
// directory in /run: they are root's, and in memory. Service accounts' tokens are below the second.
var ofCRIO = []string{"/run/.containerenv", "/run/secrets"}

// byRuntime reports whether a mount is one that runtimes make. Where CRI-O has its own, an image's volume is writable and on a disk.
func (m mount) byRuntime() bool {
	if slices.Contains(ofCRIO, m.at) {
		return m.readOnly || m.fs == "tmpfs"
	}
	return slices.ContainsFunc(ofRuntime, func(dir string) bool { return m.at == dir || strings.HasPrefix(m.at, dir+"/") })
}

// extraMounts are those that neither this engine nor every runtime makes: an image's volumes, which a runtime puts on the
// node's disk, without a bound; or what an admission webhook added. This engine's own are in memory: another one has taken the place of one
// that is not. Those that were asked for are of any file system.
func extraMounts(mountinfo string, own []string, asked []sandbox.Mount) (extra []string) {
	for _, m := range mountsOf(mountinfo) {
		known := m.at == "/" || slices.Contains(own, m.at) && slices.Contains(inMemory, m.fs) || m.byRuntime() ||
			slices.ContainsFunc(asked, func(a sandbox.Mount) bool { return a.Target == m.at })
		if !known && !slices.Contains(extra, m.at) {
			extra = append(extra, m.at)
		}
	}
	return extra
}

// inMemory are the file systems of an emptyDir in memory: gVisor names that of its gofer, which has the node's.
var inMemory = []string{"tmpfs", "9p"}
