package boxlink

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"belljar/internal/boxinit"
	"belljar/internal/boxinit/boxinittest"
)

// alone is a link to an init that is the commands' user and has no capability.
func alone(t testing.TB, change ...func(*boxinit.Config)) *Link {
	t.Helper()
	config := boxinit.Config{Carrier: boxinit.Frames, UID: user, Alone: true}
	for _, change := range change {
		change(&config)
	}
	cmd := boxinittest.Command(t, config)
	in, out := stdio(t, cmd)
	l := Frames(duplex{out, in, out})
	begin(t, cmd, l)
	return l
}

func TestAloneHasNoCapability(t *testing.T) {
	l := alone(t)
	want := "Groups: \nCapInh: 0000000000000000\nCapPrm: 0000000000000000\nCapEff: 0000000000000000\nCapBnd: 0000000000000000\nCapAmb: 0000000000000000\nNoNewPrivs: 1\n65534\n"
	for _, who := range []string{"self", "1"} {
		if out, errs, _ := run(t, l, as(user, strings.ReplaceAll(capabilitiesOf, "self", who))); out != want {
			t.Errorf("%s has %q %s", who, out, errs)
		}
	}
	for _, uid := range []int{0, 1000, initUID} {
		var refused *StartError
		if _, err := l.Start(within(t), as(uid, "id")); !errors.As(err, &refused) || refused.Reason != BadRequest {
			t.Errorf("user %d: %v", uid, err)
		}
	}
	if out, errs, code := run(t, l, as(user, "i=0; while [ $(cat /proc/1/oom_score_adj) = $(cat /proc/self/oom_score_adj) ] && [ $i -lt 100 ]; do sleep 0.1; i=$((i+1)); done; cat /proc/1/oom_score_adj; cat /proc/self/oom_score_adj")); code != 0 || !strings.Contains(out, "\n") || strings.Split(out, "\n")[0] == strings.Split(out, "\n")[1] {
		t.Errorf("the kernel may kill the init first: %q %q", out, errs)
	}
}

// A command is the init's user.
func TestACommandCannotHurtAnInitOfItsUser(t *testing.T) {
	l := alone(t)
	attackInit(t, l, "as the init's user", as(user, "sh -c '"+strings.ReplaceAll(attack, "'", `'\''`)+"'"))
	for signal := 1; signal <= 64; signal++ {
		if _, errs, _ := run(t, l, as(user, fmt.Sprintf("kill -%d 1", signal))); errs != "" {
			t.Errorf("signal %d: %s", signal, errs)
		}
	}
	const handled = "grep -E 'Sig(Ign|Blk)' /proc/self/status | tr -s '\\t ' ' '"
	if out, _, _ := run(t, l, as(user, handled)); out != "SigBlk: 0000000000000000\nSigIgn: 0000000280000000\n" {
		t.Errorf("a command begins with %q", out)
	}
	if list, err := l.Processes(within(t), -1); err != nil || len(list) != 0 {
		t.Errorf("%v, error %v", list, err)
	}
}

// Once a bug: a command that lowered how many files its init may have left that blind: it saw no request, nor its client go, and dropped
// output. One that took its processor time had it not answer.
func TestACommandCannotLimitAnInitOfItsUser(t *testing.T) {
	const tries = `python3 -c '
import ctypes, os, resource
c = ctypes.CDLL(None, use_errno=True)
def did(call, *args):
    if c.syscall(*[ctypes.c_long(a) if isinstance(a, int) else a for a in (call,) + args]) == 0: print(call, args[:2])
threads = [int(t) for t in os.listdir("/proc/1/task")]
for t in threads:
    for n in (0, 1, 3, 5):
        did(302, t, 7, (ctypes.c_long * 2)(n, n), 0)
    did(144, t, 5, ctypes.byref(ctypes.c_int(0)))
    did(144, t + (1 << 32), 5, ctypes.byref(ctypes.c_int(0)))
    did(142, t, ctypes.byref(ctypes.c_int(0)))
    did(314, t, (ctypes.c_int * 12)(48, 5), 0)
    did(141, 0, t, 19)
    did(251, 1, t, 3 << 13)
did(141, 1, 1, 19)
did(141, 2, 0, 19)
did(141, 2, os.getuid(), 19)
did(251, 2, 1, 3 << 13)
did(251, 3, 0, 3 << 13)
did(251, 3, os.getuid(), 3 << 13)
print(len(threads) > 1, resource.prlimit(os.getppid(), 7)[0] > 5)
nice = os.getpriority(0, 0); resource.setrlimit(7, (20, 20)); resource.prlimit(0, 7, (19, 19)); os.nice(1)
os.sched_setscheduler(0, 5, os.sched_param(0)); os.sched_setaffinity(os.getpid(), os.sched_getaffinity(0))
print(resource.getrlimit(7), os.getpriority(0, 0) - nice, os.sched_getscheduler(0))
print(c.syscall(251, 1, 0, 3 << 13), c.syscall(252, 1, 0) >> 13)
'`
	for _, noSockets := range []bool{false, true} {
		l := alone(t, func(c *boxinit.Config) { c.NoSockets = noSockets })
		if out, errs, _ := run(t, l, as(user, tries)); errs != "" || out != "True True\n(19, 19) 1 5\n0 3\n" {
			t.Errorf("%q %s", out, errs)
		}
		if out, _, _ := run(t, l, as(user, "echo hello")); out != "hello\n" || !l.Answers(within(t)) {
			t.Errorf("then a command prints %q", out)
		}
	}
}

// An init that can wait for nothing any more ends, and does not seem to be there.
func TestAnInitThatCannotWaitEnds(t *testing.T) {
	cmd := boxinittest.Command(t, boxinit.Config{Carrier: boxinit.Frames, UID: user, Alone: true})
	in, out := stdio(t, cmd)
	l := Frames(duplex{out, in, out})
	defer l.Close()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill() // unshare, which its init ends with
	if err := l.Hello(within(t)); err != nil {
		t.Fatal(err)
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", cmd.Process.Pid)) // of unshare
	if err != nil {
		t.Fatal(err)
	}
	lower := exec.Command("prlimit", "--pid", strings.TrimSpace(string(children)), "--nofile=1:1") // which a filter keeps commands from
	lower.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	if out, err := lower.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	l.Answers(within(t))
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		cmd.Process.Kill()
		t.Errorf("it is there: %v", <-ended)
	}
}

func TestLimitsOfAnInit(t *testing.T) {
	l := alone(t, func(c *boxinit.Config) { c.Files, c.FileSize = 77, 1<<20 })
	if out, errs, _ := run(t, l, as(user, "ulimit -n; ulimit -Hn; ulimit -f; ulimit -c")); out != "77\n77\n2048\n0\n" {
		t.Errorf("%q %s", out, errs)
	}
}

// No process can make a socket but a Unix one, in any way that the kernel has.
func TestNoSockets(t *testing.T) {
	l := alone(t, func(c *boxinit.Config) { c.NoSockets = true })
	const tries = `python3 -c '
import ctypes, errno, os, socket, struct
for f in range(46):
    for k in (1, 2, 3, 5):
        try:
            socket.socket(f, k).close()
            print("made", f, k)
        except OSError as e:
            if f != 1 and e.errno != errno.EAFNOSUPPORT: print(f, k, e)
c = ctypes.CDLL(None, use_errno=True)
b = ctypes.create_string_buffer(120)
for name, call in (("io_uring", (425, 4, b)), ("asynchronous I/O", (206, 1, ctypes.create_string_buffer(8))), ("x32", (0x40000000 + 41, 2, 1, 0)), ("high bits", (41, 2 + (1 << 32), 1, 0))):
    if c.syscall(*[ctypes.c_long(x) if isinstance(x, int) else x for x in call]) >= 0: print("made by", name)
a, z = socket.socketpair()
a.send(b"x"); print(z.recv(1))
'`
	out, errs, _ := run(t, l, as(user, tries))
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, "made 1 ") && line != "b'x'\n" {
			t.Errorf("%s", line)
		}
	}
	if errs != "" || !strings.HasSuffix(out, "b'x'\n") {
		t.Errorf("%q %q", out, errs)
	}
}

func TestLook(t *testing.T) {
	l := alone(t)
	dir := t.TempDir()
	for d := dir; d != "/"; d = filepath.Dir(d) {
		if d != os.TempDir() {
			os.Chmod(d, 0o755)
		}
	}
	large := bytes.Repeat([]byte("0123456789"), 20_000)
	for name, text := range map[string][]byte{"small": []byte("small\n"), "large": large, "empty": {}} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	os.WriteFile(filepath.Join(dir, "secret"), []byte("x"), 0o600)
	os.Symlink("small", filepath.Join(dir, "link"))
	os.Symlink("nothing", filepath.Join(dir, "dangling"))
	os.Mkdir(filepath.Join(dir, "dir"), 0o755)
	if texts, err := l.Texts(within(t), "/proc/1/mountinfo", "/proc/uptime", "/none", filepath.Join(dir, "dir"), filepath.Join(dir, "small")); err != nil ||
		!strings.Contains(texts[0], " /proc ") || texts[1] == "" || texts[2] != "" || texts[3] != "" || texts[4] != "small\n" {
		t.Errorf("%q, error %v", texts, err)
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	for name, want := range map[string][]byte{"small": []byte("small\n"), "link": []byte("small\n"), "large": large, "empty": {}, "none": nil, "dangling": nil, "small/x": nil} {
		if got, err := l.ImageFile(within(t), in(name), 1<<20); err != nil || !bytes.Equal(got, want) || (got == nil) != (want == nil) {
			t.Errorf("%s: %d bytes, error %v", name, len(got), err)
		}
	}
	for name, want := range map[string]error{"secret": syscall.EACCES, "dir": syscall.EINVAL} {
		if _, err := l.ImageFile(within(t), in(name), 1<<20); !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := l.ImageFile(within(t), in("large"), 199_999); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a large file: %v", err)
	}
	if text, err := l.ImageFile(within(t), "/proc/uptime", 1<<20); text != nil || err != nil {
		t.Errorf("what is mounted counts as the image's: %q %v", text, err)
	}
	modes, err := l.ImageModes(within(t), []string{in("small"), in("link"), in("dangling"), in("none"), in("dir"), "/proc/self/fd/0"})
	want := []fs.FileMode{0o644, fs.ModeSymlink | 0o644, fs.ModeSymlink | fs.ModeIrregular, fs.ModeIrregular, fs.ModeDir | 0o755, fs.ModeIrregular}
	if err != nil || !slices.Equal(modes, want) {
		t.Errorf("%v, error %v", modes, err)
	}
	spaces, err := l.Spaces(within(t), []string{"/proc", dir, "/none"})
	if err != nil || spaces[0].Type != 0x9fa0 || spaces[1].FreeBlocks == 0 || spaces[2] != (Space{}) {
		t.Errorf("%v, error %v", spaces, err)
	}
}
