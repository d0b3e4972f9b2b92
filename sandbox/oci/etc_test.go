package oci_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"belljar/sandbox"
	"belljar/sandbox/oci"
)

// shellImage is an image with a shell, and with what fill makes in its root.
func shellImage(t *testing.T, fill func(root string) error) oneRoot {
	t.Helper()
	disk, image := base(t)
	from, held, err := disk.Root(t.Context(), image.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	root := filepath.Join(t.TempDir(), "root")
	if err := os.MkdirAll(filepath.Join(root, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	copyFile(t, filepath.Join(from, "bin/busybox"), filepath.Join(root, "bin/busybox"))
	for _, name := range []string{"sh", "cat", "ls", "stat", "id"} {
		if err := os.Symlink("busybox", filepath.Join(root, "bin", name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := fill(root); err != nil {
		t.Fatal(err)
	}
	return oneRoot(root)
}

// An image whose /etc is a link lost all that it has there, and the directory's owner and mode.
func TestEtcOfTheImage(t *testing.T) {
	const mode = os.ModeSticky | 0o751
	asRoot := os.Geteuid() == 0
	owner := map[bool]string{true: "7:8", false: "0:0"}[asRoot]
	etc := func(root, dir string) error {
		at := filepath.Join(root, dir)
		err := os.MkdirAll(filepath.Dir(at), 0o755)
		if err == nil {
			err = os.Mkdir(at, 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(at, "os-release"), []byte("ours\n"), 0o644)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(at, "hosts"), []byte("no\n"), 0o600)
		}
		if err == nil && asRoot {
			err = os.Chown(at, 7, 8)
		}
		return errors.Join(err, os.Chmod(at, mode))
	}
	for name, test := range map[string]struct {
		link, dir string
		dangles   bool
	}{
		"a directory":    {dir: "etc"},
		"a link":         {link: "private/etc", dir: "private/etc"},
		"an absolute":    {link: "/private/etc", dir: "private/etc"},
		"a link out":     {link: "../../../private/../private/etc", dir: "private/etc"},
		"a link nowhere": {link: "private/etc", dangles: true},
	} {
		image := shellImage(t, func(root string) (err error) {
			if test.dir != "" {
				err = etc(root, test.dir)
			}
			if test.link != "" {
				err = errors.Join(err, os.Symlink(test.link, filepath.Join(root, "etc")))
			}
			return err
		})
		for _, runtime := range withGVisor(t) {
			for _, user := range []sandbox.User{nobody, rootUser} {
				if user == rootUser && !asRoot {
					continue
				}
				engine, err := oci.Open(oci.Config{Dir: t.TempDir(), Runtime: runtime, Init: initProgram(t), Roots: image})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { engine.Close() })
				spec := specOf(t)
				if spec.User = user; user == rootUser {
					spec.Root, spec.Limits.Disk = true, 8<<20
				}
				box := create(t, engine, spec)
				want := "127.0.0.1\tlocalhost\n" + "ours\n1751 " + owner + "\n"
				if test.dangles {
					want = "127.0.0.1\tlocalhost\n" + "755 0:0\n"
				}
				out, _ := run(t, box, user, "read -r l </etc/hosts; echo \"$l\"; cat /etc/os-release 2>/dev/null; stat -c '%a %u:%g' /etc/.")
				if out != want {
					t.Errorf("%s, %s, user %d: %q, want %q", runtime, name, user.UID, out, want)
				}
			}
		}
	}
}

// Where /etc leads nowhere that it could be, the image is refused.
func TestEtcThroughLinks(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("proc", filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	etc := filepath.Join(root, "etc")
	for to, refused := range map[string]bool{
		"/": true, "etc": true, "/proc/1": true, "link/x": true, "dev": true, "../tmp": true, "/work/etc": true, "file": true, "file/x": true, "/volume": true,
		"/volume/etc": true, "/volumes": false, "nowhere/etc": false, "../../usr/etc": false,
	} {
		if err := os.Symlink(to, etc); err != nil {
			t.Fatal(err)
		}
		err := oci.CheckImage(root, sandbox.Spec{Image: sandbox.Image{Volumes: []string{"/volume"}}})
		if (err != nil) != refused || err != nil && sandbox.CauseOf(err) != sandbox.CauseImage {
			t.Errorf("%s: %v", to, err)
		}
		if err := os.Remove(etc); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(etc, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := oci.CheckImage(root, sandbox.Spec{}); sandbox.CauseOf(err) != sandbox.CauseImage {
		t.Errorf("a file: %v", err)
	}
}
