package local_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"belljar/sandbox"
	"belljar/sandbox/local"
	"belljar/sandbox/sandboxtest"

	"github.com/google/go-cmp/cmp"
)

// tree makes what stands in files, a name that ends in / being a directory,
// and the links, in an own directory free of links.
func tree(t *testing.T, files []string, links map[string]string) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(name, "/") {
			if err := os.WriteFile(filepath.Join(root, name), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, target := range links {
		if err := os.Symlink(strings.ReplaceAll(target, "ROOT", root), filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func mount(t *testing.T, p sandbox.Policy, m sandbox.Mount) ([]sandbox.Mount, error) {
	t.Helper()
	engine := playing(func(*sandboxtest.Proc) int { return 0 })
	runner, defaults := newLocal(engine), profile()
	defaults.Policy = p
	runner.Profiles["default"] = defaults
	if _, err := sandbox.Run(t.Context(), runner, sandbox.Command{Script: "x", Mounts: []sandbox.Mount{m}}); err != nil {
		return nil, err
	}
	return engine.Specs()[0].Mounts, nil
}

func TestMountsAreResolved(t *testing.T) {
	root := tree(t, []string{"real/sub/", "real/file"}, map[string]string{
		"link": "real", "absolute": "ROOT/real/sub", "chain": "link/../link/sub", "up": "real/sub/../file",
	})
	for source, want := range map[string]string{
		"real": "real", "real/": "real", "real/file": "real/file", "link/sub": "real/sub",
		"absolute": "real/sub", "chain": "real/sub", "up": "real/file", "link/../real/./sub": "real/sub",
	} {
		got, err := mount(t, policy{}, sandbox.Mount{Source: root + "/" + source, Target: "/work/./x/", Writable: true})
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		if diff := cmp.Diff([]sandbox.Mount{{Source: filepath.Join(root, want), Target: "/work/x", Writable: true, Steady: true}}, got); diff != "" {
			t.Errorf("%s: %s", source, diff)
		}
	}
}

// What is below a directory that commands may write can be swapped; that
// directory itself cannot.
func TestSteadyMounts(t *testing.T) {
	root := tree(t, []string{"ws/sub/deep/", "ws/file", "ws2/"}, map[string]string{"link": "ws/sub"})
	writable := policy{writable: []string{root + "/ws"}}
	for source, want := range map[string]bool{"ws": true, "": true, "ws2": true, "ws/sub": false, "ws/sub/deep": false, "ws/file": false, "link": false, "ws2/../ws/sub": false} {
		// The caller's own value does not count.
		got, err := mount(t, writable, sandbox.Mount{Source: root + "/" + source, Target: "/x", Steady: true})
		if err != nil || got[0].Steady != want {
			t.Errorf("%s: %+v, error %v", source, got, err)
		}
	}
}

func TestMountRefusals(t *testing.T) {
	root := tree(t, []string{"ws/sub/", "safe/", "file"}, map[string]string{
		"ws/evil": "/etc", "ws/inner": "sub", "safe/ws": "ROOT/ws", "safe/chain": "ROOT/ws/evil", "safe/dots": "../ws/inner/../sub",
		"safe/socket": "../socket", "loop": "pool", "pool": "loop", "dangling": "gone",
	})
	socket, err := net.Listen("unix", filepath.Join(root, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	writable := policy{writable: []string{root + "/ws"}}
	for _, test := range []struct {
		source string
		policy sandbox.Policy
		cause  sandbox.Cause
		text   string
	}{
		{"ws/evil", writable, sandbox.CauseDenied, "which a command could have made"},
		{"ws/inner", writable, sandbox.CauseDenied, "which a command could have made"},
		{"ws/evil/ssl", writable, sandbox.CauseDenied, "which a command could have made"},
		{"safe/ws/evil", writable, sandbox.CauseDenied, "which a command could have made"},
		{"safe/chain", writable, sandbox.CauseDenied, "which a command could have made"},
		{"safe/dots", writable, sandbox.CauseDenied, "which a command could have made"},
		{"gone", policy{}, sandbox.CauseInvalid, "does not exist (create it first: belljar never creates a mount's source)"},
		{"dangling", policy{}, sandbox.CauseInvalid, "does not exist"},
		{"file/x", policy{}, sandbox.CauseInvalid, "resolving mount source"},
		{"loop", policy{}, sandbox.CauseInvalid, "too many levels of symbolic links"},
		{"socket", policy{}, sandbox.CauseDenied, "is a socket (only directories and regular files are mounted)"},
		{"safe/socket", policy{}, sandbox.CauseDenied, "is a socket"},
		{"file", nil, sandbox.CauseDenied, "the profile has no policy, so no mount is allowed"},
	} {
		_, err := mount(t, test.policy, sandbox.Mount{Source: root + "/" + test.source, Target: "/x"})
		var e *sandbox.Error
		if !errors.As(err, &e) || e.Cause != test.cause || !strings.Contains(err.Error(), test.text) {
			t.Errorf("%s: error %v, want %s: %s", test.source, err, test.cause, test.text)
		}
	}
	if _, err := os.Stat(root + "/gone"); err == nil {
		t.Error("a source was made")
	}
}

// What has a volume's name here is never looked at: not a link, a socket, nor a file that the command's user cannot write to.
func TestVolumes(t *testing.T) {
	root := tree(t, []string{"file"}, map[string]string{"link": "/etc"})
	listener, err := net.Listen("unix", filepath.Join(root, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	t.Chdir(root)
	for _, name := range []string{"link", "socket", "file", "gone", "a.b-1"} {
		got, err := mount(t, permissive{}, sandbox.Mount{Source: name, Target: "/work/./x/", Writable: true})
		if diff := cmp.Diff([]sandbox.Mount{{Source: name, Target: "/work/x", Writable: true, Steady: true}}, got); diff != "" || err != nil {
			t.Errorf("%s: %s, error %v", name, diff, err)
		}
	}
	if _, err := mount(t, nil, sandbox.Mount{Source: "cache", Target: "/x"}); sandbox.CauseOf(err) != sandbox.CauseDenied || !strings.Contains(err.Error(), "no policy, so no mount is allowed") {
		t.Errorf("without a policy: %v", err)
	}
	engine := playing(func(*sandboxtest.Proc) int { return 0 })
	l := newLocal(engine)
	l.Engine = sameHost{engine, true}
	changeProfile(l, func(p *sandbox.Profile) { p.Policy = permissive{} })
	x, err := l.Start(t.Context(), sandbox.Command{Script: "x", Dir: "sub", Mounts: []sandbox.Mount{{Source: "link", Target: "/work", Writable: true}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range wantEvents(t, x) {
		if e.Type == sandbox.EventNotice {
			t.Errorf("a notice: %s", e.Data)
		}
	}
	if dir := engine.Specs()[0].Workdir; dir != "/work/sub" {
		t.Errorf("it runs in %q", dir)
	}
}

// A caller cannot make a volume's files those of a group of its own choice.
func TestGroupOfAVolume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := playing(func(*sandboxtest.Proc) int { return 0 })
		l := newLocal(engine)
		changeProfile(l, func(p *sandbox.Profile) { p.Policy, p.User = permissive{}, sandbox.User{UID: 1000, GID: 1000} })
		for _, test := range []struct {
			user     sandbox.User
			source   string
			writable bool
			refused  bool
		}{
			{sandbox.User{}, "cache", true, false}, {sandbox.User{UID: 7, GID: 1000}, "cache", true, false}, {sandbox.User{UID: 1000, GID: 7}, "cache", false, false},
			{sandbox.User{UID: 1000, GID: 7}, "cache", true, true}, {sandbox.User{Name: "1000:0"}, "cache", true, true}, {sandbox.User{Name: "daemon"}, "cache", true, true},
			{sandbox.User{Name: "1000"}, "cache", true, false}, {sandbox.User{UID: 1000, GID: 7}, t.TempDir(), true, false},
		} {
			c := command()
			c.User, c.Mounts = test.user, []sandbox.Mount{{Source: "other", Target: "/other"}, {Source: test.source, Target: "/x", Writable: test.writable}}
			_, err := l.Prepare(t.Context(), c)
			if refused := err != nil && strings.Contains(err.Error(), "only the group of the profile's user may write to it"); refused != test.refused {
				t.Errorf("%+v: %v", test, err)
			}
		}
	})
}

func TestMountPaths(t *testing.T) {
	for _, m := range []sandbox.Mount{
		{Source: "./relative", Target: "/x"}, {Source: "a/b", Target: "/x"}, {Source: "..", Target: "/x"}, {Source: "cache", Target: "x"}, {Source: "/a\x00b", Target: "/x"}, {Source: "", Target: "/x"},
		{Source: "/", Target: "x"}, {Source: "/", Target: ""}, {Source: "/", Target: "/a:b"}, {Source: "/", Target: "/a\x00"},
	} {
		_, err := mount(t, policy{}, m)
		if sandbox.CauseOf(err) != sandbox.CauseInvalid {
			t.Errorf("%+v: %v", m, err)
		}
	}
	for _, device := range []string{"/dev/null", "/dev/zero"} {
		if _, err := mount(t, policy{}, sandbox.Mount{Source: device, Target: "/x"}); sandbox.CauseOf(err) != sandbox.CauseDenied || !strings.Contains(err.Error(), "is a device") {
			t.Errorf("%s: %v", device, err)
		}
	}
}

// The mounts of a profile are every command's, also in the pool.
func TestProfileMounts(t *testing.T) {
	root := tree(t, []string{"project/", "other/"}, map[string]string{"link": "project"})
	own := sandbox.Mount{Source: root + "/other", Target: "/other", Steady: true}
	want := sandbox.Mount{Source: root + "/project", Target: "/work", Steady: true}
	synctest.Test(t, func(t *testing.T) {
		engine := playing(func(*sandboxtest.Proc) int { return 0 })
		l := warm(t, engine, size(1, 1), func(l *local.Local) {
			p := l.Profiles["default"]
			p.Policy, p.Mounts = policy{}, []sandbox.Mount{{Source: root + "/link", Target: "/work/"}}
			l.Profiles["default"] = p
		})
		wantRun(t, l, command(), true)
		c := command()
		c.Mounts = []sandbox.Mount{own}
		wantRun(t, l, c, false)
		for _, spec := range engine.Specs() {
			mounts := []sandbox.Mount{want}
			if spec.Pool == "" {
				mounts = append(mounts, own)
			}
			if diff := cmp.Diff(mounts, spec.Mounts); diff != "" {
				t.Errorf("pool %q: %s", spec.Pool, diff)
			}
		}
	})
	// Where the policy refuses them, no command runs without them.
	engine := playing(func(*sandboxtest.Proc) int { return 0 })
	l, p := newLocal(engine), profile()
	p.Mounts, p.Pool = []sandbox.Mount{want}, size(1, 1)
	l.Profiles["default"] = p
	l.Warm()
	defer l.Close()
	if _, err := sandbox.Run(t.Context(), l, command()); sandbox.CauseOf(err) != sandbox.CauseDenied {
		t.Errorf("error %v, want a denial", err)
	}
	if specs := engine.Specs(); len(specs) > 0 {
		t.Errorf("made %+v", specs)
	}
}
