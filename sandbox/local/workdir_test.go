package local_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"belljar/internal/target"
	"belljar/sandbox"
	"belljar/sandbox/sandboxtest"
)

// A working directory that is known not to exist is refused before anything is made,
// and none that may exist.
func TestWorkingDirectory(t *testing.T) {
	source := t.TempDir()
	if err := os.Mkdir(filepath.Join(source, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(source, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"in": "sub", "out": "/etc", "dangling": "none"} {
		if err := os.Symlink(to, filepath.Join(source, name)); err != nil {
			t.Fatal(err)
		}
	}
	deep := strings.Repeat("/d", 40)
	for dir, want := range map[string]string{
		"/": "", "/tmp": "", "/work": "", "/etc": "", "/cache": "", "/cac": `"/cac" does not exist in image "belljar/base" (name a directory of the image`,
		"/tmp/x": `"/tmp/x" does not exist: "/tmp" is empty in a new container`, "/work/x/y": `"/work" is empty`, "/cache/x": `"/cache" is empty`,
		"/none": `"/none" does not exist in image`, "/etc/none/x": "does not exist in image", "/etc/passwd": `"/etc/passwd" cannot be entered: in image "belljar/base", "/etc/passwd" is a file`,
		"/etc/passwd/x": `"/etc/passwd" is a file`, "/etc/../none": "", "/etc/": "", "/none\x1b[31m\n": `"/none\x1b[31m\n" does not exist`, deep: "",
		"/m": "", "/m/sub": "", "/m/in": "", "/m/out": "", "/m/out/none": "", "/m/sub/none": `"/m/sub/none" does not exist in "` + source + `", which is mounted at /m (create it on this host first: mkdir -p ` + source + `/sub/none)`,
		"/m/file": `"/m/file" is a file`, "/m/dangling": "does not exist", "/deep": "", "/deep/er": "", "/deep/er/mount": "", "/deep/er/none": "does not exist in image", "/deep/er/mount/none": "is in the mount of",
	} {
		engine := playing(func(*sandboxtest.Proc) int { return 0 })
		engine.Etc = map[string]string{"/etc/passwd": ""}
		l := newLocal(engine)
		changeProfile(l, func(p *sandbox.Profile) { p.Policy = permissive{} })
		mounts := []sandbox.Mount{{Source: source, Target: "/m"}, {Source: filepath.Join(source, "file"), Target: "/deep/er/mount"}}
		if dir == "/deep/er/mount" {
			mounts[1].Source = source
		}
		r, err := sandbox.Run(t.Context(), l, sandbox.Command{Script: "x", Dir: dir, Tmpfs: []string{"/cache"}, Mounts: mounts})
		if want == "" {
			if err != nil || r.Dir != dir {
				t.Errorf("%q: error %v", dir, err)
			}
		} else if sandbox.CauseOf(err) != sandbox.CauseInvalid || !strings.Contains(err.Error(), want) || len(engine.Specs()) > 0 {
			t.Errorf("%q: %d containers, error %v, want %s", dir, len(engine.Specs()), err, want)
		}
	}
}

// A new session is refused as a single command is, and leaves no trace; one that is
// there may have the directory.
func TestWorkingDirectoryOfASession(t *testing.T) {
	engine := playing(func(*sandboxtest.Proc) int { return 0 })
	l := newLocal(engine)
	l.StateDir = t.TempDir()
	defer l.Close()
	c := sandbox.Command{Script: "x", Session: "s", Dir: "/work/made"}
	if _, err := sandbox.Run(t.Context(), l, c); sandbox.CauseOf(err) != sandbox.CauseInvalid || !strings.Contains(err.Error(), `"/work" is empty in a new container`) || len(engine.Specs()) > 0 {
		t.Errorf("error %v", err)
	}
	if list, err := l.Sessions(t.Context()); err != nil || len(list) > 0 {
		t.Errorf("%+v, %v", list, err)
	}
	c.Dir = ""
	if _, err := sandbox.Run(t.Context(), l, c); err != nil {
		t.Error(err)
	}
	c.Dir = "/work/made"
	if r, err := sandbox.Run(t.Context(), l, c); err != nil || r.Dir != "/work/made" {
		t.Errorf("error %v", err)
	}
	c.Dir = "/no/such/directory"
	if _, err := sandbox.Run(t.Context(), l, c); err == nil || err.Error() != target.NoDirError(c.Dir).Error() {
		t.Errorf("error %v", err)
	}
	if err := l.RemoveSession(t.Context(), "s"); err != nil {
		t.Error(err)
	}
}

// An image is looked into once, and where that fails the start tells.
func TestWorkingDirectoryIsLookedUpOnce(t *testing.T) {
	engine := playing(func(*sandboxtest.Proc) int { return 0 })
	asked := 0
	engine.OnModes = func(context.Context) error { asked++; return nil }
	l := newLocal(engine)
	for range 3 {
		for _, dir := range []string{"/usr/src", "/work", "/tmp"} {
			if _, err := sandbox.Run(t.Context(), l, sandbox.Command{Script: "x", Dir: dir}); err != nil {
				t.Error(err)
			}
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
	engine.OnModes = sandboxtest.Fail(context.DeadlineExceeded)
	if _, err := sandbox.Run(t.Context(), l, sandbox.Command{Script: "x", Dir: "/opt"}); err != nil {
		t.Error(err)
	}
}
