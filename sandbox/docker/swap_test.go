package docker_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/docker"

	"golang.org/x/sys/unix"
)

// workspace is a directory that commands may write, in which sub/deep/file and
// file are harmless, and evil next to each is a link to the same of a victim.
func workspace(t *testing.T) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, whose := range []string{"harmless", "victim"} {
		dir := filepath.Join(root, whose)
		err := errors.Join(os.MkdirAll(dir+"/sub/deep", 0o755), os.WriteFile(dir+"/sub/deep/file", []byte(whose), 0o644), os.WriteFile(dir+"/file", []byte(whose), 0o644))
		if err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"evil": "sub", "evilfile": "file", "sub/evil": "sub/deep"} {
		if err := os.Symlink(filepath.Join(root, "victim", target), filepath.Join(root, "harmless", link)); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(root, "harmless")
}

// swap exchanges two files again and again, until the function it returns is
// called; that says how often.
func swap(a, b string, pause time.Duration) (stop func() int) {
	end, done := make(chan struct{}), make(chan int)
	go func() {
		for n := 0; ; n++ {
			select {
			case <-end:
				done <- n
				return
			case <-time.After(pause):
			}
			unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
		}
	}()
	return func() int { close(end); return <-done }
}

// runtimes are those that the engine has of runc and gVisor's.
func runtimes(t *testing.T, engine *docker.Engine) []string {
	t.Helper()
	about, err := engine.About(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	list := []string{""}
	if slices.Contains(about.Runtimes, "runsc") {
		list = append(list, "runsc")
	}
	return list
}

// What commands swap below a writable mount, while another one is mounted from
// there, never shows what they have no access to.
func TestSourceIsSwappedWhileItIsMounted(t *testing.T) {
	engine := connect(t)
	image := baseImage(t, engine)
	for name, test := range map[string]struct{ source, a, b, file string }{
		"directory":       {"sub", "sub", "evil", "/mnt/deep/file"},
		"middle of a way": {"sub/deep", "sub", "evil", "/mnt/file"},
		"deeper":          {"sub/deep", "sub/deep", "sub/evil", "/mnt/file"},
		"file":            {"file", "file", "evilfile", "/mnt"},
	} {
		for _, runtime := range runtimes(t, engine) {
			for _, pause := range []time.Duration{0, 20 * time.Millisecond} {
				t.Run(name+" "+runtime+" "+pause.String(), func(t *testing.T) {
					ws := workspace(t)
					stop := swap(filepath.Join(ws, test.a), filepath.Join(ws, test.b), pause)
					shown := 0
					for range 5 {
						if mountsHarmless(t, engine, image, runtime, filepath.Join(ws, test.source), test.file) {
							shown++
						}
					}
					t.Logf("%d swaps, %d of 5 mounted", stop(), shown)
				})
			}
		}
	}
	wantNothingHeld(t)
}

// mountsHarmless reports whether a source was mounted; if so, it is harmless.
func mountsHarmless(t *testing.T, engine *docker.Engine, image sandbox.Image, runtime, source, file string) bool {
	t.Helper()
	spec := specOf(image, sandbox.Mount{Source: source, Target: "/mnt"})
	spec.Runtime, spec.Limits.Memory, spec.Limits.Pids = runtime, 512<<20, 256
	box, err := engine.Create(t.Context(), spec)
	if err != nil {
		if sandbox.CauseOf(err) != sandbox.CauseDenied {
			t.Errorf("error %v", err)
		}
		return false
	}
	defer box.Remove(context.WithoutCancel(t.Context()))
	if said, _ := (&inside{engine, box, spec}).run(t, "cat "+file); said != "harmless" {
		t.Errorf("%s says %q", file, said)
	}
	return true
}

// wantNothingHeld looks for binds that no one needs any more.
func wantNothingHeld(t *testing.T) {
	t.Helper()
	entries, _ := os.ReadDir(docker.BindDir)
	for _, e := range entries {
		if strings.Contains(e.Name(), docker.ThisProcess()) {
			t.Errorf("%s is held", e.Name())
		}
	}
}

// Who cannot hold a source mounts none that commands may swap.
func TestSourceThatCannotBeHeld(t *testing.T) {
	ws := workspace(t)
	for _, m := range []sandbox.Mount{{Source: ws + "/sub"}, {Source: ws + "/file"}, {Source: ws + "/sub", Steady: true}} {
		err := docker.BindWithoutRoot(m)
		if m.Steady {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		if sandbox.CauseOf(err) != sandbox.CauseDenied || !strings.Contains(err.Error(), "could replace it") {
			t.Errorf("%s: error %v", m.Source, err)
		}
	}
}

// What a process that was killed held is let go by the next one's sweep; what
// others hold stays.
func TestSweepOfHolds(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("NOT TESTED: only root holds sources")
	}
	engine := connect(t)
	ws := workspace(t)
	left, live := docker.BindAs(t, ws+"/sub", "1@1"), docker.BindAs(t, ws+"/file", "")
	if text, err := os.ReadFile(left + "/deep/file"); err != nil || string(text) != "harmless" {
		t.Fatalf("%q, %v", text, err)
	}
	if _, err := engine.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what a process that is gone held is there: %v", err)
	}
	if text, err := os.ReadFile(live); err != nil || string(text) != "harmless" {
		t.Errorf("what is held is gone: %q, %v", text, err)
	}
	docker.Unbind(live)
	if text, err := os.ReadFile(ws + "/sub/deep/file"); err != nil || string(text) != "harmless" {
		t.Errorf("the source is gone: %q, %v", text, err)
	}
}
