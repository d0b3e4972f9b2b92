package oci_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"belljar/internal/boxinit/boxinittest"
	"belljar/sandbox"
	"belljar/sandbox/oci"

	"golang.org/x/sys/unix"
)

// rootlessEnv says that these tests are run by a user who is not root: with control groups ("groups") or
// without ("none").
const rootlessEnv = "BELLJAR_TEST_OCI_ROOTLESS"

// TestRootless runs tests as a user who is made for it, and may make control groups.
func TestRootless(t *testing.T) {
	needRoot(t)
	newThrowaway(t, true).test(t, "groups", "^(TestEngine|TestEvidence|TestMounts|TestInitIsOutOfReach|TestSessionSurvivesItsMaker|TestKilledBelljarAndRuntime|TestRootlessLimits|TestEtcOfTheImage)$")
}

// TestRootlessWithoutGroups runs tests as a user who may make none.
func TestRootlessWithoutGroups(t *testing.T) {
	needRoot(t)
	newThrowaway(t, false).test(t, "none", "^(TestRefusedWithoutGroups|TestBestEffort)$")
}

func needRoot(t *testing.T) {
	t.Helper()
	runtimes(t) // or it is skipped
	if os.Getenv(rootlessEnv) != "" {
		t.Skip("this is run by root, for others")
	}
}

// asUser skips what root does not run by itself.
func asUser(t *testing.T, how string) {
	t.Helper()
	if os.Getenv(rootlessEnv) != how {
		t.Skip("TestRootless runs it, as another user")
	}
}

// What a container has without root is what it has with root: limits, and who it is outside.
func TestRootlessLimits(t *testing.T) {
	asUser(t, "groups")
	each(t, func(t *testing.T, runtime string) {
		box := create(t, open(t, runtime), specOf(t))
		if i := box.Info(); i.Limits != "" || i.Root != "" {
			t.Errorf("%+v", i)
		}
		out, _ := run(t, box, nobody, "id -u; cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null; sleep 1000 >/dev/null 2>&1 &")
		if want := fmt.Sprintf("65534\n%d\n", specOf(t).Limits.Memory); out != want {
			t.Errorf("%q, want %q", out, want)
		}
		list, err := box.Processes(t.Context())
		if err != nil || len(list) != 1 {
			t.Fatalf("%+v, %v", list, err)
		}
		if uid := processUser(t, list[0].HostPID); uid == os.Getuid() || uid < 65536 || list[0].UID != 65534 {
			t.Errorf("outside it is user %d, listed as %d", uid, list[0].UID)
		}
		s := specOf(t)
		s.User, s.Root = rootUser, true
		if _, err := open(t, runtime).Create(t.Context(), s); sandbox.CauseOf(err) != sandbox.CauseInvalid {
			t.Errorf("root: %v", err)
		}
		s = specOf(t)
		s.Limits.Disk = 8 << 20
		denied, _ := run(t, create(t, open(t, runtime), s), nobody, "(echo >/x) 2>/dev/null || echo no")
		if !strings.HasSuffix(denied, "no\n") {
			t.Errorf("a writable root is its owner's: %q", denied)
		}
	})
}

func TestRefusedWithoutGroups(t *testing.T) {
	asUser(t, "none")
	disk, _ := base(t)
	_, err := oci.Open(oci.Config{Dir: t.TempDir(), Init: initProgram(t), Roots: disk})
	if err == nil || !strings.Contains(err.Error(), "limits") || !strings.Contains(fmt.Sprint(err), "may make no control groups") {
		t.Errorf("%v", err)
	}
}

// Without control groups nothing is claimed, and nothing is left.
func TestBestEffort(t *testing.T) {
	asUser(t, "none")
	each(t, func(t *testing.T, runtime string) {
		dir := t.TempDir()
		engine := openIn(t, oci.Config{Dir: dir, Runtime: runtime, BestEffort: true})
		spec := specOf(t)
		spec.Session = "kept"
		box := create(t, engine, spec)
		if i := box.Info(); i.Limits != "best-effort" {
			t.Errorf("%+v", i)
		}
		run(t, box, nobody, "echo kept >/tmp/x; setsid sleep 1000 >/dev/null 2>&1 & ls /sys/fs/cgroup")
		var list []sandbox.Process
		await(t, func() (is bool) { // it is sleep once setsid has become it
			var err error
			list, err = box.Processes(t.Context())
			return err == nil && len(list) == 1 && list[0].UID == 65534 && list[0].Command == "sleep 1000"
		})
		if len(list) != 1 {
			t.Fatalf("%+v", list)
		}
		if c, err := box.Counters(t.Context()); err != nil || c.Source != "" {
			t.Errorf("%+v, %v", c, err)
		}
		other := openIn(t, oci.Config{Dir: dir, Runtime: runtime, BestEffort: true})
		kept, err := other.Sessions(t.Context(), "kept")
		if err != nil || len(kept) != 1 {
			t.Fatalf("%+v, %v", kept, err)
		}
		again, err := other.Adopt(t.Context(), kept[0])
		if err != nil {
			t.Fatal(err)
		}
		if out, _ := run(t, again, nobody, "cat /tmp/x"); out != "kept\n" {
			t.Errorf("%q", out)
		}
		if err := again.Remove(t.Context()); err != nil {
			t.Error(err)
		}
		again.Close()
		if all, err := other.List(t.Context()); err != nil || len(all) > 0 || processRuns(list[0].HostPID) {
			t.Errorf("left are %+v, %v", all, err)
		}
	})
}

func processRuns(pid int) bool { return unix.Kill(pid, 0) != unix.ESRCH }

func create(t *testing.T, engine *oci.Engine, spec sandbox.Spec) sandbox.Container {
	t.Helper()
	box, err := engine.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := box.Remove(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return box
}

// throwaway is a user who is made for a test.
type throwaway struct {
	name, dir string
	uid, gid  int
	groups    []string // the directories of a control group of the user's
}

func newThrowaway(t *testing.T, groups bool) *throwaway {
	t.Helper()
	dir, err := os.MkdirTemp("", "belljar-rootless-")
	if err != nil {
		t.Fatal(err)
	}
	chmod(t, dir, 0o755)
	t.Cleanup(func() { os.RemoveAll(dir) })
	u := &throwaway{name: fmt.Sprintf("bj%d", os.Getpid()), dir: dir}
	if groups {
		u.name += "g"
	}
	asRoot(t, "useradd", "-M", "-d", dir, "-s", "/bin/sh", u.name)
	t.Cleanup(func() { await(t, func() bool { return exec.Command("userdel", u.name).Run() == nil }) }) // once its last process is gone
	account, err := user.Lookup(u.name)
	if err != nil {
		t.Fatal(err)
	}
	u.uid, _ = strconv.Atoi(account.Uid)
	u.gid, _ = strconv.Atoi(account.Gid)
	if err := os.Chown(dir, u.uid, u.gid); err != nil {
		t.Fatal(err)
	}
	if groups {
		u.delegate(t)
	}
	return u
}

func asRoot(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", name, err, out)
	}
}

// delegate makes control groups that are the user's, as systemd does.
func (u *throwaway) delegate(t *testing.T) {
	t.Helper()
	const root = "/sys/fs/cgroup"
	dirs := []string{filepath.Join(root, u.name)}
	v2 := isFile(filepath.Join(root, "cgroup.controllers"))
	if v2 {
		write(t, filepath.Join(root, "cgroup.subtree_control"), "+cpu +memory +pids")
		dirs = append(dirs, filepath.Join(dirs[0], "test"))
	} else {
		controllers, err := filepath.Glob(filepath.Join(root, "*", "cgroup.procs"))
		if err != nil {
			t.Fatal(err)
		}
		dirs = nil
		for _, procs := range controllers {
			if !isFile(filepath.Join(filepath.Dir(procs), "cgroup.controllers")) {
				dirs = append(dirs, filepath.Join(filepath.Dir(procs), u.name))
			}
		}
	}
	for _, dir := range dirs {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { // with which it holds that nothing is left
			await(t, func() bool { return os.Remove(dir) == nil })
		})
		for _, name := range []string{"", "cgroup.procs", "cgroup.subtree_control"} {
			if name = filepath.Join(dir, name); name == dir || isFile(name) {
				if err := os.Chown(name, u.uid, u.gid); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
			if text, err := os.ReadFile(filepath.Join(filepath.Dir(dir), name)); err == nil && !v2 {
				write(t, filepath.Join(dir, name), string(text))
			}
		}
		if !v2 || filepath.Base(dir) == "test" {
			u.groups = append(u.groups, dir)
		}
	}
}

func isFile(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func await(t *testing.T, is func() bool) {
	t.Helper()
	for until := time.Now().Add(5 * time.Minute); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			t.Error("waited for 5 minutes")
			return
		}
	}
}

// test runs tests of this program as the user.
func (u *throwaway) test(t *testing.T, how, tests string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, init := filepath.Join(u.dir, "tests"), filepath.Join(u.dir, "init") // the originals are in directories of root
	copyFile(t, self, program)
	copyFile(t, boxinittest.Binary(t), init)
	script := `for group in $GROUPS_OF_TEST; do echo $$ >$group/cgroup.procs || exit 9; done
exec setpriv --reuid "$1" --regid "$2" --clear-groups "$3" -test.run "$4" -test.v -test.timeout 40m`
	cmd := exec.CommandContext(t.Context(), "sh", "-c", script, "sh", strconv.Itoa(u.uid), strconv.Itoa(u.gid), program, tests)
	cmd.Dir = u.dir
	cmd.Env = append(os.Environ(), "GROUPS_OF_TEST="+strings.Join(u.groups, " "), rootlessEnv+"="+how, makerEnv+"_INIT="+init, storeEnv+"=", "HOME="+u.dir, "TMPDIR="+u.dir, "USER="+u.name)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: Test") {
		t.Errorf("%v:\n%s", err, out)
	}
	if strings.Contains(string(out), "--- SKIP") {
		t.Errorf("it was skipped:\n%s", out)
	}
	t.Logf("%s", lastLine(string(out)))
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndex(text, "\n")+1:]
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err == nil {
		_, err = io.Copy(out, in)
	}
	if err == nil {
		err = out.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}
