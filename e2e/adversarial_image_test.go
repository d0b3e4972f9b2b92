package e2e

import (
	"archive/tar"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// tree is a root file system under construction.
type tree struct {
	b bytes.Buffer
	w *tar.Writer
}

func newTree() *tree {
	t := &tree{}
	t.w = tar.NewWriter(&t.b)
	return t
}

func (t *tree) add(h tar.Header, content []byte) {
	h.Size = int64(len(content))
	t.w.WriteHeader(&h)
	t.w.Write(content)
}

func (t *tree) link(name, target string) {
	t.add(tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target}, nil)
}

func (t *tree) bytes() []byte {
	t.w.Close()
	return t.b.Bytes()
}

func busybox(t *testing.T) []byte {
	t.Helper()
	program, err := os.ReadFile("/bin/busybox")
	if err != nil {
		t.Fatalf("install busybox-static: %v", err)
	}
	return program
}

// shellTree has a shell and little else, including a setuid program of root.
func shellTree(t *testing.T) *tree {
	t.Helper()
	tree := newTree()
	for _, dir := range []string{"bin/", "bin/root/", "data/", "tmp/", "work/"} {
		tree.add(tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o777}, nil)
	}
	tree.add(tar.Header{Name: "bin/busybox", Mode: 0o755}, busybox(t))
	tree.add(tar.Header{Name: "bin/root/busybox", Mode: 0o6755}, busybox(t))
	for _, applet := range strings.Fields("sh cat dd df env grep id ls pwd sleep touch") {
		tree.link("bin/"+applet, "busybox")
	}
	return tree
}

// image is one of that root file system.
func (t *tree) image(config v1.Config) (v1.Image, error) {
	image, err := mutate.AppendLayers(empty.Image, static.NewLayer(t.bytes(), types.DockerUncompressedLayer))
	if err != nil {
		return nil, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Config = "linux", runtime.GOARCH, config
	return mutate.ConfigFile(image, file)
}

// imageOf loads an image into the engine until the test ends.
func imageOf(t *testing.T, tree *tree, config v1.Config) string {
	t.Helper()
	return imageAs(t, fmt.Sprintf("belljar-test/%s:%d", strings.ToLower(filepath.Base(t.Name())), time.Now().UnixNano()), tree, config)
}

// imageAs is imageOf under a name, which an image may have already.
func imageAs(t *testing.T, tagged string, tree *tree, config v1.Config) string {
	t.Helper()
	image, err := tree.image(config)
	if err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(tagged)
	if err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(t.TempDir(), "image.tar")
	if err := tarball.WriteToFile(archive, tag, image); err != nil {
		t.Fatal(err)
	}
	switch {
	case onOCI():
		tool(t, binary, "images", "import", archive)
		t.Cleanup(func() { exec.Command(binary, "images", "rm", tag.RepositoryStr()+":"+tag.TagStr()).Run() })
		return tagged
	case onPods():
		giveNode(t, archive, image, tag)
		return tagged
	}
	tool(t, "docker", "load", "-i", archive)
	t.Cleanup(func() { exec.Command("docker", "rmi", "-f", tagged).Run() })
	return tagged
}

// I1: a name may be moved to another image; a container is created from the
// pinned one, and the result names it.
func pinnedImage(t *testing.T) {
	other := v1.Config{Labels: map[string]string{"a": "2"}}
	first, second := imageOf(t, shellTree(t), v1.Config{Labels: map[string]string{"a": "1"}}), imageOf(t, shellTree(t), other)
	digest := func(image string) string { return ask(t, "--image", image, "true").Container.ImageDigest }
	before, after := digest(first), digest(second)
	if before == after || before == "" {
		t.Fatalf("the two images are %q and %q", before, after)
	}
	cmd, _ := begin(t, "pinned", "--image", first)
	if made := madeFrom(t, container(t, cmd.Process.Pid)); made != before {
		t.Errorf("made from %s, not from %s", made, before)
	}
	imageAs(t, first, shellTree(t), other)
	cmd.Process.Signal(syscall.SIGTERM)
	cmd.Wait()
	_, use := ownState(t) // over pods a belljar takes an image as another one did a while ago
	if now := askAs(t, use, "--image", first, "true").Container.ImageDigest; now != after {
		t.Errorf("runs in %s, not in %s", now, after)
	}
	if onDocker() {
		exec.Command("docker", "rmi", "-f", before).Run()
	}
}

// I2: an image's author decides on its files and nothing else.
func imageConfigOverridden(t *testing.T) {
	image := imageOf(t, shellTree(t), v1.Config{
		Entrypoint: []string{"/evil"}, Cmd: []string{"evil"}, User: "0:0", WorkingDir: "/proc/self/fd/8", StopSignal: "SIGWINCH",
		Env:         []string{"PATH=/evil", "LD_PRELOAD=/evil.so", "ENV=/evil.sh", "HOME=/evil"},
		Healthcheck: &v1.HealthConfig{Test: []string{"CMD", "/bin/touch", "/tmp/healthy"}, Interval: time.Second},
		Labels:      map[string]string{"dev.belljar.managed": "false", "dev.belljar.process": "1@1"},
	})
	a := ask(t, "--image", image, "id -u; pwd; echo $LD_PRELOAD$ENV; sleep 2; ls /tmp")
	a.ended(t, 0, "")
	a.says(t, "65534\n/work\n\n")
	if env := ask(t, "--image", image, "env").Stdout; strings.Contains(env, "evil") || !strings.Contains(env, "PATH=") {
		t.Errorf("env %q", env)
	}
}

// I3: an image's volume would be on the host's disk, writable and unbounded.
func imageVolume(t *testing.T) {
	image := imageOf(t, shellTree(t), v1.Config{Volumes: map[string]struct{}{"/data": {}, "/data/deep": {}}})
	cmd, _ := begin(t, "volume", "--image", image)
	if made := fromHost(t, container(t, cmd.Process.Pid)); len(made) > 0 {
		t.Errorf("mounts: %q", made)
	}
	cmd.Process.Signal(syscall.SIGTERM)
	cmd.Wait()
	a := ask(t, "--image", image, "dd if=/dev/zero of=/data/f bs=1M; ls -l /data/f; grep -c ' /data.* tmpfs' /proc/mounts")
	a.says(t, ".* 67108864 .*\n2\n.*No space left.*")
}

// I4: root's set-user-ID programs get no privileges. belljar's own store has none.
func setuidPrograms(t *testing.T) {
	image, mode := imageOf(t, shellTree(t), v1.Config{}), "-rwsr-sr-x"
	if onOCI() {
		mode = "-rwxr-xr-x"
	}
	ask(t, "--image", image, "ls -l /bin/root/busybox; /bin/root/busybox cat /proc/self/status | grep -E '^(Uid|Gid|CapEff)'").
		says(t, mode+".*Uid:(\t65534){4}\nGid:(\t65534){4}\nCapEff:\t0+\n")
}

// I5: a missing shell is an error of the image, not a command's 127.
func imageWithoutShell(t *testing.T) {
	tree := newTree()
	tree.add(tar.Header{Typeflag: tar.TypeDir, Name: "etc/", Mode: 0o755}, nil)
	ask(t, "--image", imageOf(t, tree, v1.Config{}), "true").ended(t, 125, "image_error")
}

// I7: no member of an archive lands outside of it (CVE-2014-6407).
func importTraversal(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "planted")
	up := strings.Repeat("../", 16)
	for what, plant := range map[string]func(*tree){
		"dots":          func(x *tree) { x.add(tar.Header{Name: up + target[1:], Mode: 0o644}, []byte("x")) },
		"absolute":      func(x *tree) { x.add(tar.Header{Name: target, Mode: 0o644}, []byte("x")) },
		"hard link":     func(x *tree) { x.add(tar.Header{Typeflag: tar.TypeLink, Name: "x", Linkname: up + "etc/shadow"}, nil) },
		"absolute link": func(x *tree) { x.add(tar.Header{Typeflag: tar.TypeLink, Name: "x", Linkname: "/etc/shadow"}, nil) },
		"through a link": func(x *tree) {
			x.link("x", dir)
			x.add(tar.Header{Name: "x/planted", Mode: 0o644}, []byte("x"))
		},
		"through two": func(x *tree) {
			x.link("y", up)
			x.link("x", "y"+dir)
			x.add(tar.Header{Name: "x/planted", Mode: 0o644}, []byte("x"))
		},
	} {
		x := shellTree(t)
		plant(x)
		file := filepath.Join(t.TempDir(), "evil.tar")
		if err := os.WriteFile(file, x.bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		tag := fmt.Sprintf("belljar-test/i7:%d", time.Now().UnixNano())
		out, err := exec.Command(binary, "images", "import", file, "--tag", tag).CombinedOutput()
		if err == nil { // the engine contains it: then the target is in the image, not on the host
			t.Cleanup(func() { exec.Command(binary, "images", "rm", tag).Run() })
			if a := ask(t, "--image", tag, "cat /x"); strings.Contains(a.Stdout, "root:") {
				t.Errorf("%s: the host's file is in the image", what)
			}
		} else if !strings.Contains(string(out), "belljar: ") {
			t.Errorf("%s: %v: %s", what, err, out)
		}
		leftFiles(t, target)
	}
}
