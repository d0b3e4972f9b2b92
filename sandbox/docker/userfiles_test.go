package docker_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"belljar/internal/enginetest"
	"belljar/sandbox"
	"belljar/sandbox/docker"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"
)

// treeWith is an image's tree with these entries and a shell. One of type 0 is
// a regular file, and only its size counts.
func treeWith(t *testing.T, entries ...tar.Header) []byte {
	t.Helper()
	busybox, err := os.ReadFile("/bin/busybox")
	if err != nil {
		t.Fatalf("install busybox-static: %v", err)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	add := func(h tar.Header, content io.Reader) {
		if h.Mode == 0 {
			h.Mode = 0o755
		}
		text := h.Linkname
		if h.Typeflag == 0 {
			h.Linkname = ""
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == 0 && text != "" {
			content = strings.NewReader(text)
		}
		if _, err := io.CopyN(w, content, h.Size); err != nil {
			t.Fatal(err)
		}
	}
	add(tar.Header{Name: "bin/busybox", Size: int64(len(busybox))}, bytes.NewReader(busybox))
	for _, name := range []string{"sh", "sleep", "id", "mkfifo", "echo"} {
		add(tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + name, Linkname: "busybox"}, nil)
	}
	for _, h := range entries {
		add(h, zeros{})
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// zeros are lines without an end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// group is /etc/group.
func group(text string) tar.Header {
	return tar.Header{Name: "etc/group", Linkname: text, Size: int64(len(text))}
}

func fifo(name string) tar.Header { return tar.Header{Typeflag: tar.TypeFifo, Name: name} }

func link(name, to string) tar.Header {
	return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to}
}

func dir(name string) tar.Header { return tar.Header{Typeflag: tar.TypeDir, Name: name} }

// The engine and the runtime open these as root at each start, and wait for a FIFO
// for ever: the engine then held the container's lock, and could be asked nothing
// about it.
func TestUserFilesThatHang(t *testing.T) {
	t.Parallel()
	big := tar.Header{Name: "etc/passwd", Size: 2 << 20}
	for name, test := range map[string]struct {
		tree    []tar.Header
		volumes []string
		want    string // "" is that it runs
	}{
		"none":              {},
		"no etc":            {[]tar.Header{dir("other")}, nil, ""},
		"empty":             {[]tar.Header{{Name: "etc/passwd"}, {Name: "etc/group"}}, nil, ""},
		"link in the image": {[]tar.Header{link("etc/passwd", "../nix/p"), {Name: "nix/p"}, link("etc/group", "/nix/g"), {Name: "nix/g"}}, nil, ""},
		// The engine makes a directory of /etc, whatever the image has there.
		"etc is a link":   {[]tar.Header{link("etc", "nix"), fifo("nix/passwd")}, nil, ""},
		"etc is moving":   {[]tar.Header{link("etc", "tmp/etc"), fifo("tmp/etc/passwd")}, nil, ""},
		"etc is a socket": {[]tar.Header{link("etc", "/proc/self/fd")}, nil, ""},
		"etc is a FIFO":   {[]tar.Header{fifo("etc")}, nil, ""},

		"passwd is a FIFO":     {[]tar.Header{fifo("etc/passwd")}, nil, `/etc/passwd of image "%" is a FIFO`},
		"group is a FIFO":      {[]tar.Header{fifo("etc/group")}, nil, `/etc/group of image "%" is a FIFO`},
		"link to a FIFO":       {[]tar.Header{link("etc/passwd", "/p"), fifo("p")}, nil, `/etc/passwd of image "%" is a FIFO`},
		"link to a link":       {[]tar.Header{link("etc/group", "/p"), link("p", "q"), fifo("q")}, nil, `/etc/group of image "%" is a FIFO`},
		"group 0":              {[]tar.Header{group("root:x:0:\n65534:x:0:\n")}, nil, `image "%" has an unsafe /etc/group: the group name "65534" is a number`},
		"group 0 elsewhere":    {[]tar.Header{link("etc/group", "/g"), func() tar.Header { h := group("7:x:0:"); h.Name = "g"; return h }()}, nil, `image "%" has an unsafe /etc/group: the group name "7" is a number`},
		"good groups":          {[]tar.Header{group("root:x:0:\nnobody:x:65534:\n")}, nil, ""},
		"stdin":                {[]tar.Header{link("etc/passwd", "/proc/self/fd/0")}, nil, `/etc/passwd of image "%" points to "/proc/self/fd/0"`},
		"stdin of a device":    {[]tar.Header{link("etc/group", "/dev/stdin")}, nil, `/etc/group of image "%" points to "/dev/stdin"`},
		"stdin by links":       {[]tar.Header{link("etc/passwd", "/p"), link("p", "d/fd/0"), link("d", "proc/self")}, nil, `/etc/passwd of image "%" points to "/proc/self/fd/0"`},
		"what a command made":  {[]tar.Header{link("etc/passwd", "/tmp/p")}, nil, `/etc/passwd of image "%" points to "/tmp/p"`},
		"by a link in tmp":     {[]tar.Header{link("etc/passwd", "/tmp/p"), link("tmp/p", "/good"), {Name: "good"}}, nil, `/etc/passwd of image "%" is on a mount`},
		"in a volume":          {[]tar.Header{link("etc/passwd", "/data/p"), {Name: "data/p"}}, []string{"/data"}, `/etc/passwd of image "%" points to "/data/p"`},
		"etc is a volume":      {[]tar.Header{{Name: "etc/passwd"}}, []string{"/etc"}, `/etc/passwd of image "%" is on a mount`},
		"a volume leads there": {[]tar.Header{dir("etc"), link("data", "etc")}, []string{"/data"}, `/etc/passwd of image "%" is on a mount: "/data" leads there`},
		"tmp leads there":      {[]tar.Header{dir("etc"), link("tmp", "etc")}, nil, `/etc/passwd of image "%" is on a mount: "/tmp" leads there`},
		"passwd is a volume":   {[]tar.Header{dir("etc/passwd")}, []string{"/etc/passwd"}, `/etc/passwd of image "%" is not a regular file`},
		"a directory":          {[]tar.Header{dir("etc/group")}, nil, `/etc/group of image "%" is not a regular file`},
		"a device":             {[]tar.Header{{Typeflag: tar.TypeChar, Name: "etc/passwd", Devmajor: 5}}, nil, `/etc/passwd of image "%" is not a regular file`},
		"too long":             {[]tar.Header{big}, nil, `/etc/passwd of image "%" has 2 MiB, more than 1 MiB`},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			engine := connect(t)
			volumes := map[string]struct{}{}
			for _, v := range test.volumes {
				volumes[v] = struct{}{}
			}
			image := loadImage(t, engine, treeWith(t, test.tree...), v1.Config{Volumes: volumes})
			for range 2 { // what is known of an image
				box, err := engine.Create(t.Context(), specOf(image))
				if err == nil {
					if err := box.Remove(context.WithoutCancel(t.Context())); err != nil {
						t.Error(err)
					}
				}
				if test.want == "" {
					if err != nil {
						t.Error(err)
					}
					continue
				}
				want := strings.ReplaceAll(test.want, "%", image.Reference)
				if err == nil || !strings.Contains(err.Error(), want) || sandbox.CauseOf(err) != sandbox.CauseImage {
					t.Errorf("%v, not %s", err, want)
				}
			}
		})
	}
}

// An image is checked once for all processes of a user, unless what it has depends on the mounts.
func TestSoundImages(t *testing.T) {
	t.Parallel()
	real := connect(t)
	for name, test := range map[string]struct {
		tree   []tar.Header
		looked bool
	}{
		"files": {[]tar.Header{{Name: "etc/passwd"}, {Name: "etc/group"}}, false},
		"links": {[]tar.Header{link("etc/passwd", "../nix/p"), {Name: "nix/p"}}, true},
		"bad":   {[]tar.Header{fifo("etc/passwd")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			image := loadImage(t, real, treeWith(t, test.tree...), v1.Config{})
			if box, err := real.Create(t.Context(), specOf(image)); err == nil {
				if err := box.Remove(t.Context()); err != nil {
					t.Error(err)
				}
			}
			looks := make(chan struct{}, 1)
			other := connectTo(t, "unix://"+slowEngine(t, real.Host(), "/archive", looks))
			other.Dir = real.Dir
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			go func() {
				select {
				case <-looks:
					cancel(errLooked)
				case <-ctx.Done():
				}
			}()
			box, err := other.Create(ctx, specOf(image))
			if err == nil {
				if err := box.Remove(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if looked := errors.Is(context.Cause(ctx), errLooked); looked != test.looked || looked != (err != nil) {
				t.Errorf("looked %v, error %v", looked, err)
			}
		})
	}
}

var errLooked = errors.New("it looked")

// What else the engine and the runtime have in their way when they start a container
// they make or mount, or refuse: they wait for none of it.
func TestStartFilesThatDoNotHang(t *testing.T) {
	t.Parallel()
	engine := connect(t)
	for kind, made := range map[string]func(string) tar.Header{
		"FIFO": fifo,
		"link": func(name string) tar.Header { return link(name, "/proc/self/fd/0") },
	} {
		for i, files := range [][]string{{"etc/hosts", "etc/hostname", "etc/resolv.conf", "etc/mtab", "etc/shadow", "dev/null", "proc"}, {"dev"}, {"work"}, {"tmp"}, {"sbin/docker-init"}} {
			t.Run(fmt.Sprint(kind, i), func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				var tree []tar.Header
				for _, file := range files {
					tree = append(tree, made(file))
				}
				box, err := engine.Create(ctx, specOf(loadImage(t, engine, treeWith(t, tree...), v1.Config{})))
				if ctx.Err() != nil {
					t.Errorf("%q: it waits: %v", files, err)
				}
				if err != nil {
					return
				}
				if err := box.Remove(context.WithoutCancel(t.Context())); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// Where the runtime waits for what no check saw, the runtime is killed, and the
// engine can remove the container. One whose runtime is not killed hangs for good:
// this is an engine of the test's own.
func TestStartThatWaits(t *testing.T) {
	t.Parallel()
	engine := connectTo(t, enginetest.New(t, "{}").Host)
	for name, to := range map[string]string{"fd": "/proc/self/fd/0", "device": "/dev/stdin"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it takes as long as a runtime may
			image := loadImage(t, engine, treeWith(t, link("etc/passwd", to)), v1.Config{})
			docker.TrustUsers(engine, image)
			_, err := engine.Create(t.Context(), specOf(image))
			if err == nil || !strings.Contains(err.Error(), "did not start in") || sandbox.CauseOf(err) != sandbox.CauseImage {
				t.Error(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := engine.Create(ctx, specOf(image)); err == nil || strings.Contains(err.Error(), "removing container") {
				t.Error(err)
			}
		})
	}
}

// Only what is in the container's group is killed, whatever it is called.
func TestKillInGroup(t *testing.T) {
	id := strings.ToLower(rand.Text() + rand.Text())
	if docker.KillInGroup(id) {
		t.Error("killed something for a container that is not there")
	}
	group := "/sys/fs/cgroup/pids/" + id
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		group = "/sys/fs/cgroup/" + id
	}
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Skipf("NOT TESTED: %v", err)
	}
	defer os.Remove(group)
	inside, outside := exec.Command("sleep", "100"), exec.Command("sleep", "100")
	for _, c := range []*exec.Cmd{inside, outside} {
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		defer c.Process.Kill()
	}
	if err := os.WriteFile(group+"/cgroup.procs", []byte(strconv.Itoa(inside.Process.Pid)), 0); err != nil {
		t.Fatal(err)
	}
	if !docker.KillInGroup(id) {
		t.Error("found nothing")
	}
	if err := inside.Wait(); err == nil {
		t.Error("not killed")
	}
	if err := outside.Process.Signal(unix.Signal(0)); err != nil {
		t.Error(err)
	}
	outside.Process.Kill()
	outside.Wait()
}
