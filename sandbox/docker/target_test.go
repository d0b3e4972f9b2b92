package docker_test

import (
	"archive/tar"
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"belljar/sandbox"
	"belljar/sandbox/docker"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// linkedTree is an image whose directories lead elsewhere.
func linkedTree(t *testing.T) []byte {
	t.Helper()
	busybox, err := os.ReadFile("/bin/busybox")
	if err != nil {
		t.Fatalf("install busybox-static: %v", err)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range []tar.Header{
		{Typeflag: tar.TypeDir, Name: "bin/", Mode: 0o755}, {Typeflag: tar.TypeDir, Name: "etc/", Mode: 0o755}, {Typeflag: tar.TypeDir, Name: "etc/x/", Mode: 0o755},
		{Typeflag: tar.TypeDir, Name: "deep/", Mode: 0o755}, {Typeflag: tar.TypeDir, Name: "mnt/", Mode: 0o755}, {Typeflag: tar.TypeDir, Name: "hidden/", Mode: 0o700},
		{Typeflag: tar.TypeSymlink, Name: "letc", Linkname: "/etc"}, {Typeflag: tar.TypeSymlink, Name: "deep/etc", Linkname: "../etc"},
		{Typeflag: tar.TypeSymlink, Name: "hidden/etc", Linkname: "/etc"}, {Typeflag: tar.TypeSymlink, Name: "sh", Linkname: "/bin/busybox"},
		{Typeflag: tar.TypeSymlink, Name: "bin/sh", Linkname: "busybox"}, {Typeflag: tar.TypeSymlink, Name: "bin/cat", Linkname: "busybox"},
		{Name: "bin/busybox", Mode: 0o755, Size: int64(len(busybox))},
	} {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			w.Write(busybox)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A target that is a link of the image was judged as /letc, and mounted in /etc.
func TestTargetsAreNoLinks(t *testing.T) {
	t.Parallel()
	engine := connect(t)
	image := loadImage(t, engine, linkedTree(t), v1.Config{})
	source := workspace(t)
	if err := os.Symlink("/etc", filepath.Join(source, "link")); err != nil {
		t.Fatal(err)
	}
	at := func(targets ...string) (mounts []sandbox.Mount) {
		for _, target := range targets {
			mounts = append(mounts, sandbox.Mount{Source: source, Target: target, Steady: true})
		}
		return mounts
	}
	for _, test := range []struct {
		targets []string
		linked  bool
	}{
		{[]string{"/mnt", "/mnt/sub", "/new/deep"}, false},
		{[]string{"/letc/x"}, true},
		{[]string{"/letc/made"}, true},
		{[]string{"/deep/etc/x"}, true},
		{[]string{"/mnt", "/letc/x"}, true},
		{[]string{"/hidden/etc/x"}, true},
		{[]string{"/mnt", "/mnt/link/x"}, true}, // of another mount
	} {
		box, err := engine.Create(t.Context(), specOf(image, at(test.targets...)...))
		if err == nil {
			box.Remove(context.WithoutCancel(t.Context()))
		}
		denied := sandbox.CauseOf(err) == sandbox.CauseDenied && strings.Contains(err.Error(), "goes through a symbolic link")
		if test.linked != (err != nil) || err != nil && !denied {
			t.Errorf("%q: %v", test.targets, err)
		}
	}
	// A directory in memory that was judged as /letc was in /etc, and writable.
	for dir, linked := range map[string]bool{"/mnt": false, "/new/deep": false, "/letc": true, "/letc/x": true, "/letc/made": true, "/deep/etc": true, "/hidden/etc/x": true} {
		spec := specOf(image)
		spec.Tmpfs = []string{"/mnt", dir}
		box, err := engine.Create(t.Context(), spec)
		if err == nil {
			box.Remove(context.WithoutCancel(t.Context()))
		}
		denied := sandbox.CauseOf(err) == sandbox.CauseDenied && strings.Contains(err.Error(), `tmpfs "`+dir+`" goes through a symbolic link`)
		if linked != (err != nil) || err != nil && !denied {
			t.Errorf("tmpfs %q: %v", dir, err)
		}
	}
	// One that cannot be made, which the engine says as if there were no sh.
	spec := specOf(image)
	spec.Tmpfs = []string{"/sh"}
	if _, err := engine.Create(t.Context(), spec); err == nil || !strings.Contains(err.Error(), `cannot create tmpfs "/sh"`) || sandbox.CauseOf(err) != sandbox.CauseInvalid {
		t.Errorf("tmpfs on a file: %v", err)
	}
	// A directory onto a file, or onto a link to one, or where the engine has files.
	for target, want := range map[string]string{"/sh": `"/sh"`, "/mnt/file": `"/mnt/file"`, "/letc": "may be a link in the image"} {
		mounts := append(at("/mnt"), at(target)...)
		for _, engine := range []*docker.Engine{engine, connect(t)} { // one that knows the image, and one that does not
			if _, err := engine.Create(t.Context(), specOf(image, mounts...)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "OCI") || sandbox.CauseOf(err) != sandbox.CauseInvalid {
				t.Errorf("%s: %v", target, err)
			}
		}
	}
	// Where the host does not see the container's files.
	box, err := engine.Create(t.Context(), specOf(image))
	if err != nil {
		t.Fatal(err)
	}
	defer box.Remove(context.WithoutCancel(t.Context()))
	for target, linked := range map[string]bool{"/mnt": false, "/etc/x": false, "/letc/x": true, "/letc": true, "/deep/etc/x": true, "/hidden/etc/x": true} {
		if err := docker.CheckTargets(t.Context(), box, "/mnt", target); (err != nil) != linked || err != nil && !strings.Contains(err.Error(), `"`+target+`" goes through a symbolic link`) {
			t.Errorf("%s, from inside: %v", target, err)
		}
	}
	wantNothingHeld(t)
}
