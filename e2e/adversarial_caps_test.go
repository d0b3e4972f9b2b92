package e2e

import (
	"archive/tar"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"
)

// capable is what setcap cap_net_raw,cap_setuid+ep writes to a file: capabilities(7), revision 2.
var capable = []byte{1, 0, 0, 2, 0x80, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

// capsOf prints the capabilities that a program has which is run as busybox is, if any. The kernel may also refuse
// to run it.
const capsOf = ` cat /proc/self/status 2>/dev/null | grep -E '^Cap(Prm|Eff|Amb)' | grep -v '0000000000000000$'; `

// E19: a program with file capabilities gains nothing by them, be it in an image or in a workspace, where this host's
// root set them; nor does one that root in a container gives them.
func fileCapabilities(t *testing.T) {
	needRoot(t, "file capabilities")
	x := shellTree(t)
	x.add(tar.Header{Name: "bin/busybox-capable", Mode: 0o755, PAXRecords: map[string]string{"SCHILY.xattr.security.capability": string(capable)}}, busybox(t))
	ask(t, "--image", imageOf(t, x, v1.Config{}), "/bin/busybox-capable"+capsOf+"echo ran").says(t, "ran\n")
	if onPods() {
		return // the rest mounts directories of this host
	}

	dir := open(t)
	program := filepath.Join(dir, "busybox-capable")
	if err := os.WriteFile(program, busybox(t), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setxattr(program, "security.capability", capable, 0); err != nil {
		t.Fatal(err)
	}
	here := exec.Command("sh", "-c", program+capsOf)
	here.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, _ := here.Output(); !strings.Contains(string(out), "CapEff:\t0000000000002080") {
		t.Fatalf("on this host it gains %q: this tests nothing", out)
	}
	config := configured(t, "mounts: {allow: [{source: "+dir+", mode: rw}]}")
	ask(t, "--config", config, "-v", dir+":/work", "/work/busybox-capable"+capsOf+"echo ran").says(t, "ran\n")
	ask(t, "--config", config, "-v", dir+":/work:ro", "--user", "1000:1000", "/work/busybox-capable"+capsOf+"echo ran").says(t, "ran\n")

	// Root in a container has the capability to give some, within its own user namespace.
	from, err := buildProbe()
	if err != nil {
		t.Fatal(err)
	}
	tool(t, "cp", filepath.Join(from, "probe"), dir)
	all := `cp /bin/busybox /mnt/busybox-own; /mnt/probe setcap /mnt/busybox-own; id -u; for p in /mnt/busybox-capable /mnt/busybox-own; do su -s /bin/sh nobody -c "$p` + strings.ReplaceAll(capsOf, "$'", `\$'`) + `echo ran"; done`
	if a := asRoot(t, nil, dir, all); a != nil {
		a.says(t, "setcap <nil>\n0\nran\nran\n")
	}
}
