package oci_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"belljar/images"
	"belljar/sandbox"
	"belljar/sandbox/oci"

	"golang.org/x/sys/unix"
)

var (
	rootUser = sandbox.User{Name: sandbox.RootUser}
	nobody   = sandbox.User{UID: 65534, GID: 65534}
)

// rooted is a container in which commands may be root, and write to its root.
func rooted(t *testing.T, engine *oci.Engine, change func(*sandbox.Spec)) sandbox.Container {
	t.Helper()
	_, image := base(t)
	spec := sandbox.Spec{
		Command: "root", Image: image, User: rootUser, Root: true, Workdir: "/work", Network: "none",
		Limits:   sandbox.Limits{Memory: 256 << 20, CPUs: 1, Pids: 64, Output: 1 << 20, Tmp: 8 << 20, Files: 256, Disk: 16 << 20},
		Deadline: time.Now().Add(10 * time.Minute),
	}
	if change != nil {
		change(&spec)
	}
	box, err := engine.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := box.Remove(t.Context()); err != nil {
			t.Error(err)
		}
	})
	return box
}

// run is what a script prints, and its exit status.
func run(t *testing.T, box sandbox.Container, user sandbox.User, script string) (string, int) {
	t.Helper()
	var out bytes.Buffer
	running, err := box.Exec(t.Context(), sandbox.Exec{Script: script, Dir: "/", User: user, Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatal(err)
	}
	status, err := running.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), status
}

func TestRootInside(t *testing.T) {
	each(t, func(t *testing.T, runtime string) {
		engine := open(t, runtime)
		box := rooted(t, engine, nil)
		if got := box.Info().Root; got != "userns" {
			t.Errorf("contained by %q", got)
		}
		for _, c := range []struct{ name, script, want string }{
			{"who", "id -u; echo $HOME", "0\n/root\n"},
			{"writes", "mkdir /testbed && echo hi >/testbed/a && chown 5:6 /testbed && stat -c %u:%g /testbed && echo x >>/etc/hosts && rm /etc/passwd && ls /etc", "5:6\ngroup\nhostname\nhosts\nresolv.conf\n"},
			{"capabilities", "grep -E 'Cap|NoNew|Seccomp:' /proc/self/status | tr -s '\t' ' '", "CapInh: 0000000000000000\nCapPrm: 00000000800005fb\nCapEff: 00000000800005fb\nCapBnd: 00000000800005fb\nCapAmb: 0000000000000000\nNoNewPrivs: 1\nSeccomp: 2\n"},
			{"devices", "mknod /d b 8 0 2>/dev/null || echo none; ls /dev | grep -v core | sort | tr '\n' ' '", "none\nbelljar-init fd full mqueue null ptmx pts random shm stderr stdin stdout tty urandom zero "},
			{"mounts", "mount -t tmpfs x /mnt 2>/dev/null || echo no; umount /proc 2>/dev/null || echo no; mount -o remount,rw /sys/fs/cgroup 2>/dev/null || echo no; chroot / true 2>/dev/null || echo no; unshare -U true 2>/dev/null || echo no", "no\nno\nno\nno\nno\n"},
			{"kernel", "for f in /proc/sys/kernel/core_pattern /proc/sysrq-trigger /proc/sys/kernel/hostname /sys/kernel/uevent_helper /proc/1/comm /proc/1/mem /proc/1/setgroups /proc/1/uid_map; do (echo 1 >$f) 2>/dev/null && echo wrote $f; done; cat /proc/kcore /proc/keys 2>/dev/null | head -c 1 | wc -c; ls /sys/firmware | wc -l", "0\n0\n"},
			{"groups", "find /sys/fs/cgroup -type f 2>/dev/null | while read f; do (echo 1 >$f) 2>/dev/null && echo wrote $f; done; echo done", "done\n"},
			{"init", "for s in 9 15 19 11 3; do kill -$s 1; done; (echo x >/dev/belljar-init) 2>/dev/null || echo kept; rm /dev/belljar-init 2>/dev/null || echo kept", "kept\nkept\n"},
			{"users", "su -s /bin/sh nobody -c 'id -u' 2>&1", "65534\n"},
		} {
			if c.name == "users" {
				run(t, box, rootUser, "echo 'nobody:x:65534:65534::/:/bin/sh' >/etc/passwd")
			}
			if out, _ := run(t, box, rootUser, c.script); out != c.want {
				t.Errorf("%s: %q, want %q", c.name, out, c.want)
			}
		}
		out, _ := run(t, box, nobody, "id -u; grep CapEff /proc/self/status; (echo x >/testbed/b) 2>/dev/null || echo no")
		if want := "65534\nCapEff:\t0000000000000000\nno\n"; out != want {
			t.Errorf("another user: %q, want %q", out, want)
		}
		_, image := base(t)
		if text, err := engine.Files(t.Context(), image, []string{"/etc/passwd"}, 1<<20); err != nil || !strings.HasPrefix(string(text[0]), "root:x:0") {
			t.Errorf("the image's /etc/passwd is %q, %v", text, err)
		}
	})
}

// The init writes its own score, so that is not read-only. Root may write it, too, and is then killed with the init; what no one
// may is to be killed later than others of the host, where belljar may see to that (CAP_SYS_RESOURCE).
func TestNoCommandOutlivesTheHost(t *testing.T) {
	each(t, func(t *testing.T, runtime string) {
		engine := open(t, runtime)
		for _, user := range []sandbox.User{rootUser, nobody} {
			box := rooted(t, engine, func(s *sandbox.Spec) { s.User, s.Root = user, user == rootUser })
			out, status := run(t, box, user, "for p in self 1; do for n in -1000 0 499; do (echo $n >/proc/$p/oom_score_adj) 2>/dev/null; read -r is </proc/$p/oom_score_adj; [ $is -ge 500 ] || echo $p: $is; done; done; for f in coredump_filter sched; do (echo 0 >/proc/1/$f) 2>/dev/null; done; exit 3")
			if status != 3 || oci.MayRaise() && out != "" {
				t.Errorf("user %d: %q, %d", user.UID, out, status)
			}
		}
	})
}

// What is outside sees no root: neither of its processes nor of its files.
func TestRootIsNoOneOutside(t *testing.T) {
	each(t, func(t *testing.T, runtime string) {
		engine, dir := open(t, runtime), t.TempDir()
		chmod(t, dir, 0o777)
		box := rooted(t, engine, func(s *sandbox.Spec) {
			s.Mounts = []sandbox.Mount{{Source: dir, Target: "/out", Writable: true, Steady: true}}
		})
		out, status := run(t, box, rootUser, "cp /bin/busybox /out/sh && chmod 6755 /out/sh; sleep 1000 >/dev/null 2>&1 & until grep -q ^sleep /proc/$!/cmdline; do :; done; chown 0:0 /out 2>/dev/null || echo no")
		if out != "no\n" {
			t.Errorf("%q, %d", out, status)
		}
		if uid, mode := owner(t, dir+"/sh"); uid < 65536 || mode&0o7000 == 0 {
			t.Errorf("a setuid program belongs to %d, mode %o", uid, mode)
		}
		list, err := box.Processes(t.Context())
		if err != nil || len(list) != 1 {
			t.Fatalf("%v, %v", list, err)
		}
		if list[0].UID != 0 || !strings.Contains(list[0].Command, "sleep 1000") {
			t.Errorf("listed as %+v", list[0])
		}
		if uid := processUser(t, list[0].HostPID); uid < 65536 {
			t.Errorf("outside it is user %d", uid)
		}
		if err := box.Signal(t.Context(), list, "SIGKILL"); err != nil {
			t.Error(err)
		}
	})
}

// A full root is told, and nothing of it stays.
func TestWritableRootIsBounded(t *testing.T) {
	each(t, func(t *testing.T, runtime string) {
		box := rooted(t, open(t, runtime), nil)
		if out, _ := run(t, box, rootUser, "dd if=/dev/zero of=/big bs=1M count=64 2>/dev/null; [ $(stat -c %s /big) -le 16777216 ] && echo bounded"); out != "bounded\n" {
			t.Errorf("%q", out)
		}
		counters, err := box.Counters(t.Context())
		if err != nil || fmt.Sprint(counters.DiskFull) != "[/]" {
			t.Errorf("full are %v, %v", counters.DiskFull, err)
		}
		out, _ := run(t, box, rootUser, "rm /big; i=0; while [ $i -lt 6000 ] && echo >/f$i; do i=$((i+1)); done 2>/dev/null; [ $i -lt 4200 ] && echo few files")
		if out != "few files\n" {
			t.Errorf("%q", out)
		}
	})
}

// Without root a writable root has its owners, and with root but a read-only one nothing is writable.
func TestRootAndWritableAreTwo(t *testing.T) {
	each(t, func(t *testing.T, runtime string) {
		engine := open(t, runtime)
		box := rooted(t, engine, func(s *sandbox.Spec) { s.Root, s.User = false, nobody })
		if out, _ := run(t, box, nobody, "(echo >/x) 2>/dev/null || echo no; stat -c %u /etc /etc/hosts"); out != "no\n0\n0\n" {
			t.Errorf("not root: %q", out)
		}
		if _, err := box.Exec(t.Context(), sandbox.Exec{Script: "id", Dir: "/", User: rootUser}); sandbox.CauseOf(err) != sandbox.CauseInvalid {
			t.Errorf("root where it is not contained: %v", err)
		}
		box = rooted(t, engine, func(s *sandbox.Spec) { s.Limits.Disk = 0 })
		if out, _ := run(t, box, rootUser, "(echo >/x) 2>/dev/null || echo no; echo $HOME; stat -c %u /etc /etc/hosts; echo >/tmp/x && echo >/work/x && stat -c %u /work"); out != "no\n/tmp\n0\n0\n0\n" {
			t.Errorf("read-only: %q", out)
		}
	})
}

// A session is found again, and its root is contained as before.
func TestRootedSession(t *testing.T) {
	each(t, func(t *testing.T, runtime string) {
		dir := t.TempDir()
		engine := openIn(t, oci.Config{Dir: dir, Runtime: runtime})
		box := rooted(t, engine, func(s *sandbox.Spec) { s.Session = "rooted" })
		run(t, box, rootUser, "echo kept >/kept")
		other := openIn(t, oci.Config{Dir: dir, Runtime: runtime})
		list, err := other.Sessions(t.Context(), "")
		if err != nil || len(list) != 1 {
			t.Fatalf("%v, %v", list, err)
		}
		again, err := other.Adopt(t.Context(), list[0])
		if err != nil {
			t.Fatal(err)
		}
		defer again.Close()
		if out, _ := run(t, again, rootUser, "cat /kept; id -u"); out != "kept\n0\n" || again.Info().Root != "userns" {
			t.Errorf("%q, contained by %q", out, again.Info().Root)
		}
	})
}

// Root inside may limit itself, and no other process: it could have the kernel kill the init.
func TestRootCannotLimitItsInit(t *testing.T) {
	each(t, func(t *testing.T, runtime string) {
		box := rooted(t, open(t, runtime), nil)
		out, _ := run(t, box, rootUser, "ulimit -n 100 && ulimit -n")
		if out != "100\n" {
			t.Errorf("%q", out)
		}
	})
}

// What root starts as the init's user is listed, and ended, as any other.
func TestNoProcessHidesAsTheInits(t *testing.T) {
	each(t, func(t *testing.T, runtime string) {
		box := rooted(t, open(t, runtime), nil)
		keeper := oci.Keeper(box)
		out, status := run(t, box, rootUser, fmt.Sprintf("echo 'k:x:%d:%[1]d::/:/bin/sh' >/etc/passwd; su -s /bin/sh k -c 'id -u; sleep 77 >/dev/null 2>&1 &'", keeper))
		if out != fmt.Sprintln(keeper) || status != 0 {
			t.Fatalf("%q, %d", out, status)
		}
		for range 2 { // the second list knows what was the container's own
			list, err := box.Processes(t.Context())
			if err != nil || len(list) != 1 || list[0].UID != keeper {
				t.Fatalf("%+v, error %v", list, err)
			}
		}
		list, _ := box.Processes(t.Context())
		if err := box.Signal(t.Context(), list, "SIGKILL"); err != nil {
			t.Error(err)
		}
		await(t, func() bool {
			list, err := box.Processes(t.Context())
			return err == nil && len(list) == 0
		})
	})
}

// Where the kernel does not map the users of an image's files, containers share no copy of them, and one that is
// there is used again. An overlay is such a file system.
func TestRootWithoutMaps(t *testing.T) {
	if os.Getenv(rootlessEnv) != "" {
		t.Skip("it mounts")
	}
	each(t, func(t *testing.T, runtime string) {
		disk := &images.Disk{Dir: filepath.Join(overlay(t), "images")}
		image, err := disk.Resolve(t.Context(), "belljar/base", sandbox.PullMissing)
		if err != nil {
			t.Fatal(err)
		}
		copies := func() []string {
			names, _ := filepath.Glob(filepath.Join(disk.Dir, "roots", "*", "[0-9]*"))
			return names
		}
		engine, err := oci.Open(oci.Config{Dir: t.TempDir(), Runtime: runtime, Init: initProgram(t), Roots: disk})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { engine.Close() })
		ofImage := func(s *sandbox.Spec) { s.Image = image }
		first, second := rooted(t, engine, ofImage), rooted(t, engine, ofImage)
		for _, box := range []sandbox.Container{first, second} {
			out, _ := run(t, box, rootUser, "id -u; stat -c %u:%g /bin/busybox; rm /bin/sh && mkdir /testbed && chown 5:6 /testbed && stat -c %u:%g /testbed; (echo x >/proc/sysrq-trigger) 2>/dev/null || echo no")
			if want := "0\n0:0\n5:6\nno\n"; out != want || box.Info().Root != "userns" {
				t.Errorf("%q, contained by %q", out, box.Info().Root)
			}
		}
		if made := copies(); len(made) != 2 {
			t.Errorf("copies: %v", made)
		}
		for _, box := range []sandbox.Container{first, second} {
			if err := box.Remove(t.Context()); err != nil {
				t.Error(err)
			}
		}
		rooted(t, engine, ofImage)
		if made := copies(); len(made) != 2 {
			t.Errorf("copies: %v", made)
		}
		_, err = disk.Remove(t.Context(), "belljar/base")
		if sandbox.CauseOf(err) != sandbox.CauseImage {
			t.Errorf("removing an image whose copy is used: %v", err)
		}
	})
}

// overlay is a directory on an overlay.
func overlay(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"lower", "upper", "work", "at"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	at := filepath.Join(dir, "at")
	if err := unix.Mount("overlay", at, "overlay", 0, fmt.Sprintf("lowerdir=%[1]s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work", dir)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return at
}

// What the kernel counts for the user who made a user namespace, it counts for the container's own, not for the host's root.
func TestRootTakesNothingOfTheHostsRoot(t *testing.T) {
	each(t, func(t *testing.T, runtime string) {
		_, first := oci.Parts(rooted(t, open(t, runtime), nil))
		namespace, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", first))
		if err != nil {
			t.Fatal(err)
		}
		defer namespace.Close()
		var owner uint32
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, namespace.Fd(), unix.NS_GET_OWNER_UID, uintptr(unsafe.Pointer(&owner))); errno != 0 {
			t.Fatal(errno)
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/uid_map", first))
		if err != nil {
			t.Fatal(err)
		}
		var inside, outside, count uint32
		if _, err := fmt.Sscan(string(text), &inside, &outside, &count); err != nil || inside != 0 || count != 65536 {
			t.Errorf("mapped is %q, error %v", text, err)
		}
		want := outside
		if runtime == "runc" && !oci.MayRaise() {
			want = 0
		}
		if owner != want || outside < 65536 {
			t.Errorf("the owner is user %d, want %d; user 0 is %d", owner, want, outside)
		}
	})
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func owner(t *testing.T, path string) (uid int, mode uint32) {
	t.Helper()
	var s syscall.Stat_t
	if err := syscall.Lstat(path, &s); err != nil {
		t.Fatal(err)
	}
	return int(s.Uid), s.Mode
}

// processUser is who the host says that a process is.
func processUser(t *testing.T, pid int) int {
	t.Helper()
	uid, _ := owner(t, fmt.Sprintf("/proc/%d", pid))
	return uid
}
