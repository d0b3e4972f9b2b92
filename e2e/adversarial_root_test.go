package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// roots are attacks by root in a container, with a root file system that it may write to.
var roots = []row{
	{name: "N15", group: "Escape", do: func(t *testing.T) { nothingOfRootsOutside(t, nil) }},
	{name: "root installs", group: "Truth", do: func(t *testing.T) { rootInstalls(t, nil) }},
}

// asRoot is askAs by root in a container, with dir at /mnt. Without as it is ask; where the host's engine cannot contain
// root, that is refused, and the answer is nil.
func asRoot(t *testing.T, as func(*exec.Cmd), dir, script string) *answer {
	t.Helper()
	config := filepath.Join(t.TempDir(), "sandbox.yaml")
	text := "mounts: {allow: [{source: " + dir + ", mode: rw}]}\nprofiles: {rooted: {user: root, rootfs: writable, limits: {disk: 8MiB}}}\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"--config", config, "--profile", "rooted", "-v", dir + ":/mnt", script}
	if as != nil {
		a := askAs(t, as, args...)
		return &a
	}
	a := ask(t, args...)
	if !onOCI() {
		why := "root in a container would be root on the host"
		if startedByDocker() {
			why = "take belljar's own init"
		}
		if a.code != 125 || !strings.Contains(string(a.json), why) {
			t.Errorf("exit status %d: %s", a.code, a.json)
		}
		return nil
	}
	return &a
}

// Each command of a session that root made has the user that it asks for, and only a profile with root may use it.
func TestUsersOfRootsSession(t *testing.T) {
	needEngine(t)
	t.Parallel()
	if !onOCI() {
		t.Skip("the host's engine has no root")
	}
	config := configured(t, "profiles: {r: {user: root, rootfs: writable, limits: {disk: 8MiB}}}")
	name, use := newSession(t)
	for _, c := range []struct{ profile, user, script, out, problem string }{
		{profile: "r", script: "id -u; mkdir -m 700 /testbed; chown 1000:50 /testbed", out: "0\n"},
		{profile: "r", user: "1000:50", script: "id -u; echo >/testbed/x", out: "1000\n"},
		{profile: "r", user: "nobody", script: "id -u; ls /testbed", out: "65534\n"},
		{profile: "r", user: "root", script: "id -u; ls /testbed", out: "0\nx\n"},
		{profile: "default", user: "1000:50", script: "id -u", problem: "was made with user root"},
		{profile: "default", user: "root", script: "id -u", problem: "commands never run as root"},
	} {
		flags := []string{"--config", config, "--session", name, "--profile", c.profile}
		if c.user != "" {
			flags = append(flags, "-u", c.user)
		}
		a := asks(t, use, append(flags, c.script)...)
		if a.Stdout != c.out || !strings.Contains(a.Message, c.problem) {
			t.Errorf("%s as %q: %q, wants %q; %s", c.profile, c.user, a.Stdout, c.out, a.json)
		}
	}
}

// open is a directory that everyone may write to.
func open(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// N15: what root leaves on the host is no one's there, and no device; it gains nothing by namespaces of its own.
func nothingOfRootsOutside(t *testing.T, as func(*exec.Cmd)) {
	dir := open(t)
	a := asRoot(t, as, dir, `cp /bin/busybox /mnt/sh; chown 0:0 /mnt/sh; chmod 6755 /mnt/sh; mknod /tmp/x b 8 0; mknod /mnt/b b 8 0; mknod /mnt/c c 1 1; mknod /x b 8 0
unshare -U true; unshare -m true; unshare -p true; mount -t tmpfs x /opt; umount /proc; chroot / true; nsenter -t 1 -m true; ls -d /x /tmp/x /mnt/b /mnt/c; exit 0`)
	if a == nil {
		return
	}
	a.ended(t, 0, "")
	a.says(t, "([^\n]*([Nn]ot permitted|denied|No such file)[^\n]*\n){15}")
	var s syscall.Stat_t
	if err := syscall.Stat(filepath.Join(dir, "sh"), &s); err != nil {
		t.Fatal(err)
	}
	if s.Mode&syscall.S_ISUID == 0 || s.Uid < 1<<16 || s.Gid < 1<<16 {
		t.Errorf("the setuid program has mode %o and is of %d:%d", s.Mode, s.Uid, s.Gid)
	}
}

// What root is for: packages, owners, a checkout at the top, other users.
func rootInstalls(t *testing.T, as func(*exec.Cmd)) {
	from, dir := t.TempDir(), open(t)
	for name, text := range map[string]string{
		"DEBIAN/control": "Package: tool\nVersion: 1.0\nArchitecture: all\nMaintainer: none <none@example.com>\nDescription: a tool\n",
		"opt/tool/run":   "echo installed\n",
	} {
		name = filepath.Join(from, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tool(t, "dpkg-deb", "-Zgzip", "--root-owner-group", "--build", from, filepath.Join(dir, "tool.deb"))
	a := asRoot(t, as, dir, `set -e; mkdir -p /var/lib/dpkg/info; touch /var/lib/dpkg/status; dpkg -i /mnt/tool.deb >/dev/null; sh /opt/tool/run
mkdir /testbed; echo a >/testbed/a; chown -R 1000:50 /testbed; stat -c %u:%g /testbed/a
grep NoNewPrivs /proc/self/status; su -s /bin/sh nobody -c 'id -u; grep CapEff /proc/self/status'`)
	if a != nil {
		a.ended(t, 0, "")
		a.says(t, "installed\n1000:50\nNoNewPrivs:\t1\n65534\nCapEff:\t0{16}\n")
	}
}
