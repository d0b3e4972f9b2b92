package oci_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"belljar/sandbox"
	"belljar/sandbox/oci"
)

// The host's directories from the inside.
func TestMounts(t *testing.T) {
	eachWithGVisor(t, func(t *testing.T, runtime string) {
		dir := t.TempDir()
		for _, name := range []string{"ro", "rw"} {
			if err := os.Mkdir(filepath.Join(dir, name), 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(filepath.Join(dir, name), 0o777); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "file"), []byte("text"), 0o644); err != nil {
			t.Fatal(err)
		}
		c := enter(t, open(t, runtime), specOf(t,
			sandbox.Mount{Source: dir + "/ro", Target: "/work"}, sandbox.Mount{Source: dir + "/rw", Target: "/mnt/rw", Writable: true},
			sandbox.Mount{Source: dir + "/file", Target: "/mnt/deep/file"},
		))
		c.wants(t,
			check{"touch /work/x", ".*Read-only file system"},
			check{"echo hello > /mnt/rw/x; cat /mnt/rw/x", "hello"},
			check{"cat /mnt/deep/file; echo x >/mnt/deep/file", "text.*(Read-only file system|Permission denied)"},
			check{"mknod /mnt/rw/disk b 8 0", ".*not permitted.*"},
			check{"cp /bin/busybox /mnt/rw/; chmod 4755 /mnt/rw/busybox; /mnt/rw/busybox id -u", "65534"},
		)
		if info, err := os.Stat(dir + "/rw/x"); err != nil || info.Size() != 6 {
			t.Errorf("%v, error %v", info, err)
		}
		disk, image := base(t)
		root, held, err := disk.Root(t.Context(), image.ID)
		if err != nil {
			t.Fatal(err)
		}
		defer held.Close()
		if _, err := os.Stat(filepath.Join(root, "mnt")); err == nil {
			t.Error("a mount's target was made in the image")
		}
	})
}

// A volume's name is not taken for a path.
func TestVolumesAreRefused(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("cache", 0o777); err != nil {
		t.Fatal(err)
	}
	eachWithGVisor(t, func(t *testing.T, runtime string) {
		_, err := open(t, runtime).Create(t.Context(), specOf(t, sandbox.Mount{Source: "cache", Target: "/mnt"}))
		if sandbox.CauseOf(err) != sandbox.CauseInvalid || !strings.HasPrefix(err.Error(), `volume "cache": engine oci has no volumes (`) {
			t.Error(err)
		}
	})
}

// Targets that the policy's check of their path says nothing about.
func TestBadTargets(t *testing.T) {
	eachWithGVisor(t, func(t *testing.T, runtime string) {
		own, dir := t.TempDir(), t.TempDir()
		engine := openIn(t, oci.Config{Dir: own, Runtime: runtime})
		if err := os.Symlink("/etc", filepath.Join(dir, "link")); err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]struct {
			mounts []sandbox.Mount
			tmpfs  []string
			cause  sandbox.Cause
		}{
			"a link of the image":  {mounts: []sandbox.Mount{{Source: dir, Target: "/bin/sh"}}, cause: sandbox.CauseDenied},
			"through a link":       {mounts: []sandbox.Mount{{Source: dir, Target: "/data"}, {Source: dir, Target: "/data/link/x"}}, cause: sandbox.CauseDenied},
			"a file, no directory": {mounts: []sandbox.Mount{{Source: dir, Target: "/bin/busybox"}}, cause: sandbox.CauseInvalid},
			"below a file":         {mounts: []sandbox.Mount{{Source: dir, Target: "/bin/busybox/x"}}, cause: sandbox.CauseInvalid},
			"no source":            {mounts: []sandbox.Mount{{Source: dir + "/none", Target: "/data"}}, cause: sandbox.CauseInvalid},
			"a source by a link":   {mounts: []sandbox.Mount{{Source: dir + "/link", Target: "/data"}}, cause: sandbox.CauseDenied},
			"belljar's own":        {mounts: []sandbox.Mount{{Source: own + "/oci", Target: "/data"}}, cause: sandbox.CauseDenied},
			"above belljar's own":  {mounts: []sandbox.Mount{{Source: filepath.Dir(own), Target: "/data"}}, cause: sandbox.CauseDenied},
			"tmpfs on a file":      {tmpfs: []string{"/bin/busybox"}, cause: sandbox.CauseInvalid},
		} {
			spec := specOf(t, c.mounts...)
			spec.Tmpfs = c.tmpfs
			box, err := engine.Create(t.Context(), spec)
			if err == nil {
				box.Remove(t.Context())
			}
			if sandbox.CauseOf(err) != c.cause {
				t.Errorf("%s: error %v, want cause %s", name, err, c.cause)
			}
		}
	})
}
