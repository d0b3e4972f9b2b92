package local_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/local"
	"belljar/sandbox/sandboxtest"
)

// The caller is who runs this process, in a command, a session and a pool, and never root.
func TestUserCaller(t *testing.T) {
	caller := sandbox.User{Name: "caller"}
	defer local.CallAs(4711, 4712)()
	want := sandbox.User{UID: 4711, GID: 4712, Name: "caller"}
	var ran sandbox.User
	engine := playing(func(p *sandboxtest.Proc) int { ran = p.User; return 0 })
	engine.OnFiles = sandboxtest.Fail(&sandbox.Error{Cause: sandbox.CauseEngine, Message: "no image says who that is"})
	l := newLocal(engine)
	l.StateDir = t.TempDir()
	p := profile()
	p.User, p.Pool = caller, sandbox.PoolSize{Min: 1, Max: 1}
	l.Profiles["pooled"] = p
	l.Warm()
	defer l.Close()
	for name, c := range map[string]sandbox.Command{
		"alone":        {User: caller},
		"with numbers": {User: sandbox.User{UID: 1, GID: 1, Name: "caller"}},
		"a session":    {User: caller, Session: "s"},
		"a pool":       {Profile: "pooled"},
	} {
		c.Script = "x"
		r, err := sandbox.Run(t.Context(), l, c)
		if err != nil || r.User != want || ran.Unnamed() != want.Unnamed() {
			t.Errorf("%s: %+v, %+v, error %v", name, r.User, ran, err)
		}
		if c.Profile != "" {
			for try := 0; err == nil && !r.Container.Warm && try < 1000; try++ {
				time.Sleep(time.Millisecond)
				r, err = sandbox.Run(t.Context(), l, c)
			}
			if err != nil || r.User != want || !r.Container.Warm {
				t.Errorf("%s: %+v, error %v", name, r.Container, err)
			}
		}
	}
	if err := l.RemoveSession(t.Context(), "s"); err != nil {
		t.Error(err)
	}
}

func TestUserCallerIsRoot(t *testing.T) {
	for want, ids := range map[string][2]int{
		"user caller is root, because root runs belljar, and commands never run as root (give UID:GID, such as the owner of the files: -u 1000:1000)": {0, 0},
		"user caller has root's group, 0 (if you mean that group, give numbers: -u 4711:0)":                                                           {4711, 0},
	} {
		undo := local.CallAs(ids[0], ids[1])
		engine := playing(func(*sandboxtest.Proc) int { return 0 })
		_, err := sandbox.Run(t.Context(), newLocal(engine), sandbox.Command{Script: "x", User: sandbox.User{Name: "caller"}})
		if sandbox.CauseOf(err) != sandbox.CauseInvalid || err.Error() != want || len(engine.Specs()) > 0 {
			t.Errorf("error %v", err)
		}
		undo()
	}
}

// sameHost is an engine on this host.
type sameHost struct {
	*sandboxtest.Engine
	is bool
}

func (s sameHost) HostUsers(context.Context) bool { return s.is }

// Who cannot write to what was mounted for that is told why, where it is known.
func TestUnwritableMounts(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("NOT TESTED: giving files away takes root")
	}
	defer local.CallAs(4711, 4712)()
	for name, test := range map[string]struct {
		uid, gid int
		mode     os.FileMode
		file     bool
		other    bool // the engine is on another host
		readOnly bool
		want     string
	}{
		"the user's":       {uid: 65534, gid: 1, mode: 0o700},
		"the group's":      {uid: 1, gid: 65534, mode: 0o730},
		"everybody's":      {uid: 1, gid: 1, mode: 0o703},
		"a file":           {uid: 1, gid: 1, mode: 0o602, file: true},
		"read-only":        {uid: 1, gid: 1, mode: 0o700, readOnly: true},
		"another host":     {uid: 1, gid: 1, mode: 0o700, other: true},
		"the caller's":     {uid: 4711, gid: 4712, mode: 0o755, want: `it belongs to 4711:4712 and has mode 0755 (use -u caller)`},
		"somebody's":       {uid: 1, gid: 2, mode: 0o755, want: `it belongs to 1:2 and has mode 0755 (use -u 1:2, or chown 65534:65534 "`},
		"root's":           {uid: 0, gid: 0, mode: 0o755, want: `it belongs to 0:0 and has mode 0755 (chown 65534:65534 "`},
		"not by its owner": {uid: 65534, gid: 1, mode: 0o577, want: `(chmod u+w "`},
		"not by the group": {uid: 1, gid: 65534, mode: 0o757, want: `it belongs to 1:65534`},
		"no search":        {uid: 1, gid: 1, mode: 0o702, want: `has mode 0702`},
		"somebody's file":  {uid: 1, gid: 2, mode: 0o644, file: true, want: `it belongs to 1:2 and has mode 0644`},
	} {
		t.Run(name, func(t *testing.T) {
			source := filepath.Join(t.TempDir(), "mount\x1b[31m")
			var err error
			if test.file {
				err = os.WriteFile(source, nil, 0o600)
			} else {
				err = os.Mkdir(source, 0o700)
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Chown(source, test.uid, test.gid); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(source, test.mode); err != nil {
				t.Fatal(err)
			}
			engine := playing(func(*sandboxtest.Proc) int { return 0 })
			l := newLocal(engine)
			l.Engine = sameHost{engine, !test.other}
			p := profile()
			p.Policy = permissive{}
			l.Profiles["default"] = p
			x, err := l.Start(t.Context(), sandbox.Command{Script: "x", Mounts: []sandbox.Mount{{Source: source, Target: "/m", Writable: !test.readOnly}}})
			if err != nil {
				t.Fatal(err)
			}
			notices := ""
			for _, e := range wantEvents(t, x) {
				if e.Type == sandbox.EventNotice {
					notices += string(e.Data)
				}
			}
			if (notices == "") != (test.want == "") || !strings.Contains(notices, test.want) || strings.Contains(notices, "\x1b") {
				t.Errorf("notices %q, want %q", notices, test.want)
			}
		})
	}
}
