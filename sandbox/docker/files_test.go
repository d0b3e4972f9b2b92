package docker_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"belljar/sandbox"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

const link0, none = fs.ModeSymlink, fs.ModeIrregular

// An image's files can be anything. Only what is a bounded regular file
// of the image is read.
func TestFilesAreHostile(t *testing.T) {
	engine := connect(t)
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	add := func(h tar.Header, content string) {
		h.Size, h.Mode = int64(len(content)), 0o644
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		w.Write([]byte(content))
	}
	for _, dir := range []string{"etc/", "etc/dir/", "real/", "real/deep/", "volume/"} {
		add(tar.Header{Typeflag: tar.TypeDir, Name: dir}, "")
	}
	link := func(name, to string) { add(tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to}, "") }
	add(tar.Header{Name: "etc/plain"}, "plain\n")
	add(tar.Header{Name: "etc/empty"}, "")
	add(tar.Header{Name: "etc/most"}, strings.Repeat("m", 1<<10))
	add(tar.Header{Name: "etc/large"}, strings.Repeat("l", 1<<10+1))
	add(tar.Header{Name: "real/file"}, "real\n")
	add(tar.Header{Name: "volume/file"}, "in a volume\n")
	add(tar.Header{Typeflag: tar.TypeLink, Name: "etc/hard", Linkname: "etc/plain"}, "")
	add(tar.Header{Typeflag: tar.TypeFifo, Name: "etc/fifo"}, "")
	add(tar.Header{Typeflag: tar.TypeChar, Name: "etc/zero", Devmajor: 1, Devminor: 5}, "")
	link("etc/link", "plain")
	link("etc/chain", "/etc/link")
	link("etc/up", "../real/file")
	link("real/deep/out", "../file") // by the way of a link to its directory
	link("way", "real/deep")
	link("etc/above", "../../../../../../etc/plain")
	link("etc/host", "/../../../../etc/hostname-of-the-host")
	link("etc/proc", "/proc/self/root/etc/shadow")
	link("etc/loop", "loop")
	link("etc/tofifo", "fifo")
	link("etc/todir", "/real")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	image := loadImage(t, engine, b.Bytes(), v1.Config{Volumes: map[string]struct{}{"/volume": {}}})
	for name, want := range map[string]string{
		"/etc/plain": "plain\n", "/etc/empty": "", "/etc/most": strings.Repeat("m", 1<<10), "/etc/hard": "plain\n",
		"/etc/link": "plain\n", "/etc/chain": "plain\n", "/etc/up": "real\n", "/way/out": "real\n", "/etc/above": "plain\n",
	} {
		files, err := engine.Files(t.Context(), image, []string{name}, 1<<10)
		if err != nil || len(files) != 1 || files[0] == nil || string(files[0]) != want {
			t.Errorf("%s is %q, error %v", name, files, err)
		}
	}
	for name, want := range map[string]string{
		"/etc/large": "larger than 1 KiB", "/etc/dir": "not a regular file", "/etc/fifo": "not a regular file", "/etc/zero": "not a regular file",
		"/etc/host": "link target is not in the image", "/etc/proc": "link target is not in the image", "/etc/loop": "", "/etc/tofifo": "not a regular file", "/etc/todir": "not a regular file",
	} {
		files, err := engine.Files(t.Context(), image, []string{name}, 1<<10)
		if sandbox.CauseOf(err) != sandbox.CauseImage || files != nil || !strings.Contains(fmt.Sprint(err), want) || !strings.Contains(fmt.Sprint(err), "write UID:GID in numbers") {
			t.Errorf("%s is %q, error %v", name, files, err)
		}
	}
	names := []string{"/etc/plain", "/etc/dir", "/etc/fifo", "/etc/zero", "/etc/link", "/etc/chain", "/etc/up", "/way/out", "/way", "/etc/todir", "/etc/host", "/etc/proc", "/etc/loop", "/etc/plain/x", "/etc/none/x", "/../etc/plain", "/", "/etc/a\nb"}
	types := []fs.FileMode{0, fs.ModeDir, fs.ModeNamedPipe, fs.ModeDevice | fs.ModeCharDevice, link0, link0, link0, link0, fs.ModeDir | link0, fs.ModeDir | link0, none | link0, none | link0, none | link0, none | link0, none, 0, fs.ModeDir, none}
	for i, name := range names {
		modes, err := engine.Modes(t.Context(), image, []string{name})
		if err != nil || len(modes) != 1 || modes[0].Type() != types[i] {
			t.Errorf("%q is %v, want %v, error %v", name, modes, types[i], err)
		}
	}
	// All of it again, as of a session whose image is known by its ID alone.
	files, err := engine.Files(t.Context(), sandbox.Image{Reference: "x", ID: image.ID}, []string{"/etc/plain", "/etc/none"}, 1<<10)
	if err != nil || string(files[0]) != "plain\n" || files[1] != nil {
		t.Errorf("%q, error %v", files, err)
	}
	if _, err := engine.Files(t.Context(), sandbox.Image{Reference: "gone", ID: "sha256:" + strings.Repeat("0", 64)}, []string{"/etc/plain"}, 1); sandbox.CauseOf(err) != sandbox.CauseImage {
		t.Errorf("error %v", err)
	}
}
