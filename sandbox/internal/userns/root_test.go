package userns

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

const busybox = "/bin/busybox"

// TestMain keeps the main thread, which does not end with its goroutine, from tests.
func TestMain(m *testing.M) {
	runtime.LockOSThread()
	os.Exit(m.Run())
}

// needsRoot skips a test that mounts.
func needsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting takes root")
	}
	if _, err := os.Stat(busybox); err != nil {
		t.Skip("apt-get install -y busybox-static: ", err)
	}
}

// image is a root directory of the host's root user, which others may enter.
func image(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "image")
	for _, d := range []string{dir, dir + "/bin", dir + "/dev", dir + "/secret"} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(busybox)
	if err == nil {
		err = os.WriteFile(dir+"/bin/busybox", text, 0o755)
	}
	if err == nil {
		err = os.Symlink("busybox", dir+"/bin/sh")
	}
	if err == nil {
		err = os.WriteFile(dir+"/secret/of-root", []byte("image's"), 0o600)
	}
	if err == nil {
		err = os.WriteFile(dir+"/of-app", nil, 0o644)
	}
	if err == nil {
		err = os.Chown(dir+"/of-app", 1000, 1000)
	}
	if err == nil {
		err = os.WriteFile(dir+"/dev/null", nil, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func clone(ids *Range, dir string) (int, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fd)
	return ids.Clone(fd)
}

// inRoot mounts a writable root over the image and runs a script in it, as root of a user
// namespace of that range. Then it calls look on the thread that sees the mounts.
func inRoot(t *testing.T, ids *Range, image string, bytes, inodes int64, script string, look func(Root)) string {
	t.Helper()
	const dir = "/mnt" // in the mount namespace of this test: the range's users may go there
	var out string
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocks: the thread, and its mounts, end with this
		if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
			t.Error(err)
			return
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			t.Error(err)
			return
		}
		if err := unix.Mount("test", dir, "tmpfs", 0, "mode=755"); err != nil {
			t.Error(err)
			return
		}
		r := Root{Lower: dir + "/lower", Layer: dir + "/layer", At: dir + "/root", First: ids.First, Bytes: bytes, Inodes: inodes}
		for _, d := range []string{r.Lower, r.Layer, r.At} {
			os.Mkdir(d, 0o755)
		}
		tree, err := clone(ids, image)
		if err != nil {
			t.Error(err)
			return
		}
		defer unix.Close(tree)
		if err := unix.MoveMount(tree, "", unix.AT_FDCWD, r.Lower, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			t.Error(err)
			return
		}
		for _, step := range []func() error{r.MountLayer, r.Mount} {
			if err := step(); err != nil {
				t.Error(err)
				return
			}
		}
		mapping := []syscall.SysProcIDMap{{ContainerID: 0, HostID: ids.First, Size: Size}}
		cmd := exec.Command("/bin/busybox", "sh", "-c", script)
		cmd.Env, cmd.Dir = []string{"PATH=/bin"}, "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags: unix.CLONE_NEWUSER, UidMappings: mapping, GidMappings: mapping, GidMappingsEnableSetgroups: true,
			Credential: &syscall.Credential{}, Chroot: r.At, Pdeathsig: syscall.SIGKILL,
		}
		text, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%v: %s", err, text)
		}
		out = string(text)
		if look != nil {
			look(r)
		}
	}()
	<-done
	return out
}

func TestRootInsideHasNoRightsOutside(t *testing.T) {
	needsRoot(t)
	ids := take(t, Pool{Dir: t.TempDir(), Spans: []Span{unassigned}})
	dir := image(t)
	out := inRoot(t, ids, dir, 8<<20, 1000, `
		busybox id -u
		busybox cat /secret/of-root; echo
		busybox stat -c %u:%g /of-app /bin/busybox
		busybox rm -r /secret && busybox mkdir /secret /testbed && busybox chown 5:6 /testbed && busybox stat -c %u:%g /testbed
		busybox cp /bin/busybox /setuid && busybox chmod 4755 /setuid
		echo changed >>/of-app
		busybox su -s /bin/sh -c true nobody 2>/dev/null
		busybox mknod /device b 8 0 2>/dev/null || echo no device`,
		func(r Root) {
			for name, want := range map[string]uint32{"/testbed": uint32(ids.First) + 5, "/setuid": uint32(ids.First), "/of-app": uint32(ids.First) + 1000} {
				var s unix.Stat_t
				if err := unix.Lstat(r.At+name, &s); err != nil || s.Uid != want {
					t.Errorf("outside %s belongs to %d, want %d (%v)", name, s.Uid, want, err)
				}
			}
		})
	if want := "0\nimage's\n1000:1000\n0:0\n5:6\nno device\n"; out != want {
		t.Errorf("the container says %q, want %q", out, want)
	}
	if text, err := os.ReadFile(dir + "/secret/of-root"); err != nil || string(text) != "image's" {
		t.Errorf("the shared image was changed: %q, %v", text, err)
	}
	if mounted(t, dir) {
		t.Error("a mount is left")
	}
}

func TestLayerIsBounded(t *testing.T) {
	needsRoot(t)
	ids := take(t, Pool{Dir: t.TempDir(), Spans: []Span{unassigned}})
	out := inRoot(t, ids, image(t), 4<<20, 200, `
		busybox yes | busybox head -c 16777216 >/big 2>/dev/null; busybox stat -c %s /big; busybox rm /big
		i=0; while [ $i -lt 1000 ] && echo >/f$i; do i=$((i+1)); done 2>/dev/null; [ $i -lt 200 ] && echo few files
		busybox rm /f[0-9]*; busybox truncate -s 1099511627776 /sparse; busybox cp /bin/busybox /b && echo copied`, nil)
	if want := "4194304\nfew files\ncopied\n"; out != want {
		t.Errorf("%q, want %q", out, want)
	}
}

// Two containers that run at the same time share an image, and nothing else.
func TestRangesOfOneImage(t *testing.T) {
	needsRoot(t)
	pool, dir := Pool{Dir: t.TempDir(), Spans: []Span{unassigned}}, image(t)
	for range 2 {
		ids := take(t, pool)
		if out := inRoot(t, ids, dir, 1<<20, 100, "busybox stat -c %u:%g /of-app /secret; [ ! -e /mine ] && echo new; echo >/mine", nil); out != "1000:1000\n0:0\nnew\n" {
			t.Errorf("range %d: %q", ids.First, out)
		}
	}
}

// A clone does not lead into what else is mounted below the image, and cannot be written to.
func TestCloneIsReadOnly(t *testing.T) {
	needsRoot(t)
	ids := take(t, Pool{Dir: t.TempDir(), Spans: []Span{unassigned}})
	tree, err := clone(ids, image(t))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(tree)
	fd, err := unix.Openat(tree, "new", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if !errors.Is(err, unix.EROFS) {
		unix.Close(fd)
		t.Errorf("making a file: %v, want %v", err, unix.EROFS)
	}
	var s unix.Stat_t
	if err := unix.Fstatat(tree, "of-app", &s, 0); err != nil || s.Uid != uint32(ids.First)+1000 {
		t.Errorf("user %d, %v", s.Uid, err)
	}
}

func TestHostsWithoutMapsSayWhatIsMissing(t *testing.T) {
	needsRoot(t)
	ids := take(t, Pool{Dir: t.TempDir(), Spans: []Span{unassigned}})
	if _, err := clone(ids, "/proc/sys"); !errors.Is(err, ErrUnmapped) {
		t.Errorf("a file system that has no owners to map: %v", err)
	}
}

// A namespace is the range's own: what the kernel counts for who made it takes nothing from root. The threads of
// this process are as before.
func TestNamespaceIsOwnedByItsRoot(t *testing.T) {
	needsRoot(t)
	ids := take(t, Pool{Dir: t.TempDir(), Spans: []Span{unassigned}})
	for range 20 {
		before := threads(t)
		namespace, err := newNamespace(ids.First, ids.Owner)
		if err != nil {
			t.Fatal(err)
		}
		owner := uint32(0)
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, namespace.Fd(), unix.NS_GET_OWNER_UID, uintptr(unsafe.Pointer(&owner)))
		namespace.Close()
		if errno != 0 || int(owner) != ids.First {
			t.Errorf("owner %d, %v; want %d", owner, errno, ids.First)
		}
		if after := threads(t); after != before {
			t.Errorf("threads were %s, and are %s", before, after)
		}
	}
	if traceable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err != nil || traceable != 1 {
		t.Errorf("traceable: %d, %v", traceable, err)
	}
}

// threads are the users and capabilities that this process's threads have.
func threads(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob("/proc/self/task/*/status")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		about := ""
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "Uid:") || strings.HasPrefix(line, "Cap") {
				about += line
			}
		}
		all[about] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(all)), "\n")
}

func TestPreferredRangeIsTakenFirst(t *testing.T) {
	pool := Pool{Dir: t.TempDir(), Spans: []Span{{100_000, 4 * Size}}}
	prefer := func(firsts ...int) int {
		r, err := pool.Take(firsts...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close() })
		return r.First
	}
	third := 100_000 + 2*Size
	if got := prefer(100_001, third); got != third { // the first one is no range's
		t.Errorf("%d", got)
	}
	if got := prefer(third); got != 100_000 {
		t.Errorf("%d, where the preferred one is taken", got)
	}
}

func mounted(t *testing.T, dir string) bool {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(text), dir)
}
