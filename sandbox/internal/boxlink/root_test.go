package boxlink

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"belljar/internal/boxinit"
	"belljar/internal/boxinit/boxinittest"
)

// rooted is a link to an init whose commands may be user 0.
func rooted(t testing.TB) *Link {
	t.Helper()
	cmd := boxinittest.Command(t, boxinit.Config{Carrier: boxinit.Frames, UID: initUID, Root: true})
	in, out := stdio(t, cmd)
	l := Frames(duplex{out, in, out})
	begin(t, cmd, l)
	return l
}

// as is a script of a user.
func as(uid int, text string) Start {
	s := script(text, nil, nil)
	s.UID, s.GID = uid, uid
	return s
}

const capabilitiesOf = "grep -E 'Cap(Inh|Prm|Eff|Bnd|Amb)|NoNewPrivs|Groups' /proc/self/status | tr -s '\\t ' ' '; id -u"

func TestRootHasItsCapabilitiesAndNoOther(t *testing.T) {
	l := rooted(t)
	want := "Groups: 0 \nCapInh: 0000000000000000\nCapPrm: 00000000800005fb\nCapEff: 00000000800005fb\nCapBnd: 00000000800005fb\nCapAmb: 0000000000000000\nNoNewPrivs: 1\n0\n"
	if out, errs, _ := run(t, l, as(0, capabilitiesOf)); out != want {
		t.Errorf("root has %q %s", out, errs)
	}
	want = "Groups: 65534 \nCapInh: 0000000000000000\nCapPrm: 0000000000000000\nCapEff: 0000000000000000\nCapBnd: 00000000800005fb\nCapAmb: 0000000000000000\nNoNewPrivs: 1\n65534\n"
	if out, errs, _ := run(t, l, as(user, capabilitiesOf)); out != want {
		t.Errorf("after root, another user has %q %s", out, errs)
	}
	var refused *StartError
	s := as(user, "echo hi")
	s.Dir = "/root"
	if _, err := l.Start(within(t), s); !errors.As(err, &refused) || refused.Reason != NoDir {
		t.Errorf("another user enters root's directory, by what the init has: %v", err)
	}
	if out, errs, code := run(t, l, as(0, "cd /root && id -un && setpriv --reuid 1000 --clear-groups id -u")); out != "root\n1000\n" || code != 0 {
		t.Errorf("root says %q %q %d", out, errs, code)
	}
}

// Root can become the init's user, and send signals to all.
func TestRootCannotHurtItsInit(t *testing.T) {
	l := rooted(t)
	for name, prefix := range map[string]string{"as root": "", "as the init's user": "setpriv --reuid 65533 --regid 65533 --clear-groups "} {
		attackInit(t, l, name, as(0, prefix+"sh -c '"+strings.ReplaceAll(attack, "'", `'\''`)+"'"))
	}
}

// attack tries to end, stop, read and trace the init.
const attack = `
		kill -9 1; kill -STOP 1
		for f in mem environ maps stack syscall fd/0 fd/1 exe root/etc cwd/etc auxv; do cat /proc/1/$f >/dev/null 2>&1 && echo read $f; done
		for f in mem comm fd/1 attr/current setgroups uid_map; do (echo x >/proc/1/$f) 2>/dev/null && echo wrote $f; done
		readlink /proc/1/exe /proc/1/fd/0
		python3 -c 'import ctypes,os
c=ctypes.CDLL(None,use_errno=True)
for s in range(1,65):
  i=(ctypes.c_int*32)(s,0,-1)
  c.syscall(129,1,s,i)
for r in (16,0x4206):
  if c.ptrace(r,1,0,0)==0: print("traced",r)
f=os.pidfd_open(1)
if c.syscall(438,f,0,0)>=0: print("took a file")
b=ctypes.create_string_buffer(8)
class V(ctypes.Structure): _fields_=[("b",ctypes.c_void_p),("l",ctypes.c_size_t)]
if c.process_vm_readv(1,ctypes.byref(V(ctypes.addressof(b),8)),1,ctypes.byref(V(0x400000,8)),1,0)>0: print("read its memory")
'
		echo done`

func attackInit(t *testing.T, l *Link, name string, s Start) {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip(err)
	}
	out, errs, _ := run(t, l, s)
	if out != "done\n" {
		t.Errorf("%s: %q %q", name, out, errs)
	}
	if out, _, code := run(t, l, as(user, "echo still")); out != "still\n" || code != 0 {
		t.Errorf("%s: after that a command says %q, and ends with %d", name, out, code)
	}
}

// The init's main thread blocks signals while it starts a process.
func TestSignalsWhileAProcessStarts(t *testing.T) {
	l := rooted(t)
	for signal := 1; signal <= 64; signal++ {
		if _, errs, _ := run(t, l, as(0, fmt.Sprintf("kill -%d 1", signal))); errs != "" {
			t.Errorf("signal %d: %s", signal, errs)
		}
	}
	const handled = "grep -E 'Sig(Ign|Blk)' /proc/self/status | tr -s '\\t ' ' '"
	if out, _, _ := run(t, l, as(user, handled)); out != "SigBlk: 0000000000000000\nSigIgn: 0000000280000000\n" {
		t.Errorf("a command begins with %q", out)
	}
}

// Root's pipes and terminals are its own, as all users' are.
func TestRootOpensItsStdout(t *testing.T) {
	l := rooted(t)
	if out, errs, _ := run(t, l, as(0, "echo one >/dev/stdout; stat -Lc %u /dev/stdout")); out != "one\n0\n" {
		t.Errorf("%q %q", out, errs)
	}
}
