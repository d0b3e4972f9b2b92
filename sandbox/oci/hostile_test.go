package oci_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/oci"

	"golang.org/x/sys/unix"
)

// oneRoot is a store of one image, with that root.
type oneRoot string

func (r oneRoot) Root(context.Context, string) (dir string, held *os.File, err error) {
	held, err = os.Open(string(r))
	return string(r), held, err
}

func (r oneRoot) Shifted(context.Context, string, func([]int) (int, error)) (dir string, held *os.File, err error) {
	return "", nil, errors.ErrUnsupported
}

// hostileImages are roots that try to lead the runtime elsewhere.
var hostileImages = map[string]func(root string) error{
	"proc is a link":        func(root string) error { return os.Symlink("work", filepath.Join(root, "proc")) },
	"proc is a link out":    func(root string) error { return os.Symlink("../../../../proc", filepath.Join(root, "proc")) },
	"proc is a file":        func(root string) error { return os.WriteFile(filepath.Join(root, "proc"), nil, 0o644) },
	"sys is a link":         func(root string) error { return os.Symlink("/tmp", filepath.Join(root, "sys")) },
	"dev is a link":         func(root string) error { return os.Symlink("/work", filepath.Join(root, "dev")) },
	"dev is a link out":     func(root string) error { return os.Symlink("../../../../dev", filepath.Join(root, "dev")) },
	"tmp is a link":         func(root string) error { return os.Symlink("/etc", filepath.Join(root, "tmp")) },
	"work is a file":        func(root string) error { return os.WriteFile(filepath.Join(root, "work"), nil, 0o644) },
	"work is a link out":    func(root string) error { return os.Symlink("/../../../../root", filepath.Join(root, "work")) },
	"dev/shm is a link":     func(root string) error { return makeAll(root, "dev", "shm", "/etc") },
	"sys/fs is a link":      func(root string) error { return makeAll(root, "sys", "fs", "/etc") },
	"the init is a link":    func(root string) error { return makeAll(root, "dev", "belljar-init", "/bin/sh") },
	"hosts is a link out":   func(root string) error { return makeAll(root, "etc", "hosts", "../../../../etc/passwd") },
	"hostname is a link":    func(root string) error { return makeAll(root, "etc", "hostname", "/proc/1/environ") },
	"passwd is a directory": func(root string) error { return os.MkdirAll(filepath.Join(root, "etc/passwd"), 0o755) },
	"passwd is a FIFO":      func(root string) error { return makeFIFO(root, "etc/passwd") },
	"group is a link":       func(root string) error { return makeAll(root, "etc", "group", "/dev/ptmx") },
	"etc is a link":         func(root string) error { return os.Symlink("/work", filepath.Join(root, "etc")) },
	"work is root's":        func(root string) error { return os.Mkdir(filepath.Join(root, "work"), 0o755) },
	"tmp is closed":         func(root string) error { return os.Mkdir(filepath.Join(root, "tmp"), 0o500) },
	"work is a link inside": func(root string) error { return makeAll(root, "", "work", "bin/../home") },
	"nothing but a shell":   func(string) error { return nil },
}

func makeAll(root, dir, name, to string) error {
	if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
		return err
	}
	return os.Symlink(to, filepath.Join(root, dir, name))
}

func makeFIFO(root, name string) error {
	if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
		return err
	}
	return unix.Mkfifo(filepath.Join(root, name), 0o644)
}

// An image either makes no container, and is named as the cause, or a command sees the same lock-down in it.
func TestHostileImages(t *testing.T) {
	disk, image := base(t)
	from, held, err := disk.Root(t.Context(), image.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	busybox, err := os.ReadFile(filepath.Join(from, "bin/busybox"))
	if err != nil {
		t.Fatal(err)
	}
	for _, runtime := range runtimes(t) {
		for name, spoil := range hostileImages {
			root := filepath.Join(t.TempDir(), "root")
			if err := os.MkdirAll(filepath.Join(root, "bin"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(root, "bin/sh"), busybox, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := spoil(root); err != nil {
				t.Fatal(err)
			}
			before := tree(t, root)
			dir := t.TempDir()
			engine, err := oci.Open(oci.Config{Dir: dir, Runtime: runtime, Init: initProgram(t), Roots: oneRoot(root)})
			if err != nil {
				t.Fatal(err)
			}
			box, err := engine.Create(t.Context(), specOf(t))
			if err != nil {
				if sandbox.CauseOf(err) != sandbox.CauseImage {
					t.Errorf("%s: %s: %v", runtime, name, err)
				}
			} else {
				c := inside{box, sandbox.User{UID: 65534, GID: 65534}}
				c.wants(t,
					check{`while read -r _ at type options _; do case $at in /proc|/tmp|/work|/sys|/dev|/dev/shm) echo $at $type;; esac; done < /proc/mounts`, "(/\\S+ (proc|tmpfs|sysfs)\n?){6}"},
					check{`read -r l < /proc/keys; echo "$l"; echo x >/bin/x`, ".*Read-only file system"},
					check{`cd /work && echo x >x && read -r l <x && echo $l`, "x"},
					check{`read -r l </etc/hosts; echo $l`, "127.0.0.1 localhost"},
				)
				other := inside{box, sandbox.User{UID: 1234, GID: 1234}} // of the same session, say
				other.wants(t, check{`echo y >/work/y && echo y >/tmp/y && echo ok`, "ok"}, check{`echo y >/work/x`, ".*Permission denied"})
				if err := box.Remove(t.Context()); err != nil {
					t.Errorf("%s: %s: %v", runtime, name, err)
				}
			}
			if err := engine.Close(); err != nil {
				t.Error(err)
			}
			if after := tree(t, root); after != before {
				t.Errorf("%s: %s: the image was %s, and is %s", runtime, name, before, after)
			}
			wantNothing(t, dir)
		}
	}
}

// tree are the names in a directory.
func tree(t *testing.T, root string) string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(root, func(name string, d os.DirEntry, err error) error {
		names = append(names, strings.TrimPrefix(name, root)+" "+d.Type().String())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(names, ", ")
}

// An init has no more files than it needs: a command's directory could be one of them.
func TestInitHasNoFilesOfTheHost(t *testing.T) {
	each(t, func(t *testing.T, runtime string) {
		for _, session := range []string{"", "kept"} {
			spec := specOf(t)
			spec.Session = session
			c := enter(t, open(t, runtime), spec)
			_, init := parts(t, c.box.Info().ID)
			files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", init))
			if err != nil || len(files) < 4 {
				t.Fatalf("%v, error %v", files, err)
			}
			for _, file := range files {
				to, err := os.Readlink(file)
				if err != nil {
					continue
				}
				if info, err := os.Stat(file); err == nil && info.IsDir() {
					t.Errorf("%s is the directory %s", file, to)
				}
				if strings.HasPrefix(to, "/") && !strings.HasPrefix(to, "/sys/fs/cgroup/cpu") && // Go's runtime looks there
					!strings.HasPrefix(to, "/proc/") && filepath.Base(to) != "log" {
					t.Errorf("%s is %s", file, to)
				}
			}
		}
	})
}

// A create that is canceled at any moment leaves nothing, at once.
func TestCanceledCreate(t *testing.T) {
	eachWithGVisor(t, func(t *testing.T, runtime string) {
		dir := t.TempDir()
		engine := openIn(t, oci.Config{Dir: dir, Runtime: runtime})
		for i := range 20 {
			spec := specOf(t)
			if i%2 == 0 {
				spec.Session = "canceled"
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*4*time.Millisecond)
			box, err := engine.Create(ctx, spec)
			cancel()
			if err == nil {
				if err := box.Remove(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if left := traces(t, dir); len(left) > 0 {
				t.Errorf("left behind: %s", strings.Join(left, "\n"))
			}
			if list, err := engine.List(t.Context()); err != nil {
				t.Error(err)
			} else {
				for _, c := range list {
					if !c.Foreign {
						t.Errorf("listed: %+v", c)
					}
				}
			}
		}
	})
}
