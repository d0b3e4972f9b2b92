package docker_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/docker"

	"github.com/docker/docker/api/types/container"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Anyone who takes the container away takes the exit status with it, unless the
// engine was quick to report that the process was killed.
func TestRemovedFromOutside(t *testing.T) {
	t.Parallel()
	engine := connect(t)
	c := enter(t, engine, baseImage(t, engine))
	ready, out := io.Pipe()
	p, err := c.box.Exec(t.Context(), sandbox.Exec{Script: "echo ready; sleep 1000", Dir: "/work", User: c.spec.User, Stdout: out, Stderr: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(ready, make([]byte, len("ready\n"))); err != nil {
		t.Fatal(err)
	}
	if err := engine.Client().ContainerRemove(t.Context(), c.box.Info().ID, container.RemoveOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	status, err := p.Wait(t.Context())
	if (err == nil && status != 137) || (err != nil && sandbox.CauseOf(err) != sandbox.CauseEngineLost) {
		t.Errorf("status %d, error %v", status, err)
	}
	if list, err := c.box.Processes(t.Context()); len(list) > 0 {
		t.Errorf("processes of a container that is gone: %+v, error %v", list, err)
	}
}

// A frozen keeper does not see its stdin end: the engine must kill it.
func TestPausedContainerIsRemoved(t *testing.T) {
	t.Parallel()
	engine := connect(t)
	c := enter(t, engine, baseImage(t, engine))
	if err := engine.Client().ContainerPause(t.Context(), c.box.Info().ID); err != nil {
		t.Fatal(err)
	}
	if err := c.box.Remove(t.Context()); err != nil {
		t.Error(err)
	}
}

// A second command of the same ID once removed the first one's container.
func TestSameIDLeavesTheOtherAlone(t *testing.T) {
	t.Parallel()
	engine := connect(t)
	c := enter(t, engine, baseImage(t, engine))
	_, err := engine.Create(t.Context(), c.spec)
	if sandbox.CauseOf(err) != sandbox.CauseInvalid || !strings.Contains(err.Error(), "is already running") {
		t.Errorf("error %v", err)
	}
	c.wants(t, check{"echo still there", "still there"})
}

func TestImageWithoutShell(t *testing.T) {
	t.Parallel()
	engine := connect(t)
	var tree bytes.Buffer
	w := tar.NewWriter(&tree)
	if err := errors.Join(w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "etc/", Mode: 0o755}), w.Close()); err != nil {
		t.Fatal(err)
	}
	spec := specOf(loadImage(t, engine, tree.Bytes(), v1.Config{Env: []string{"A=1"}}))
	spec.Pool = "a pool" // where a shell is tried before there is a command, which is to be told
	box, err := engine.Create(t.Context(), spec)
	if err == nil { // its init runs, and fails to run the keeper
		defer box.Remove(t.Context())
		var p sandbox.Running
		p, err = box.Exec(t.Context(), sandbox.Exec{Script: "exit 0", Dir: "/", User: sandbox.User{UID: 65534, GID: 65534}, Stdout: io.Discard, Stderr: io.Discard})
		if err == nil {
			_, err = p.Wait(t.Context())
		}
	}
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Cause != sandbox.CauseImage || e.Hint == "" || !strings.Contains(err.Error(), "has no working sh") || strings.ContainsAny(err.Error(), "\n\r") {
		t.Errorf("error %v", err)
	}
}

func TestUnknownParts(t *testing.T) {
	t.Parallel()
	engine := connect(t)
	image := baseImage(t, engine)
	for name, change := range map[string]func(s *sandbox.Spec){
		"runtime":      func(s *sandbox.Spec) { s.Runtime = "nope" },
		"network":      func(s *sandbox.Spec) { s.Network = "nope" },
		"CPUs":         func(s *sandbox.Spec) { s.Limits.CPUs = 10000 },
		"mount source": func(s *sandbox.Spec) { s.Mounts = []sandbox.Mount{{Source: "/no/such/source", Target: "/mnt"}} },
		"volume":       func(s *sandbox.Spec) { s.Mounts = []sandbox.Mount{{Source: "nope", Target: "/mnt"}} },
	} {
		spec := specOf(image)
		change(&spec)
		box, err := engine.Create(t.Context(), spec)
		var e *sandbox.Error
		if !errors.As(err, &e) || e.Cause != sandbox.CauseInvalid || e.Hint == "" {
			t.Errorf("unknown %s: error %v", name, err)
		}
		if err == nil {
			box.Remove(t.Context())
		}
	}
	if _, err := os.Stat("/no/such/source"); err == nil {
		t.Error("the engine made a mount's source")
	}
}

// A script of the longest length, and an environment of the largest size, that
// package sandbox lets through are such as the kernel takes.
func TestLargestCommand(t *testing.T) {
	t.Parallel()
	engine := connect(t)
	c := enter(t, engine, baseImage(t, engine))
	script := "echo fits #"
	script += strings.Repeat("x", sandbox.MaxArgument-len(script))
	c.wants(t, check{script, "fits"})

	env := []string{"PATH=/bin"}
	for size := len(env[0]) + 1; size < sandbox.MaxEnviron; {
		kv := "LARGE" + time.Duration(len(env)).String() + "=" + strings.Repeat("x", 100_000)
		kv = kv[:min(len(kv), sandbox.MaxEnviron-size)]
		if !strings.Contains(kv, "=") {
			break
		}
		env, size = append(env, kv), size+len(kv)+1
	}
	var out bytes.Buffer
	p, err := c.box.Exec(t.Context(), sandbox.Exec{Script: script, Dir: "/work", User: c.spec.User, Env: env, Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatal(err)
	}
	if status, err := p.Wait(t.Context()); status != 0 || err != nil || out.String() != "fits\n" {
		t.Errorf("status %d, error %v, output %.200q", status, err, out.String())
	}
}

// runc before 1.3 looks the command's own group up by name: see forgedGroup.
func TestImageWithForgedGroup(t *testing.T) {
	t.Parallel()
	engine := connect(t)
	// As long, so that the archive stays one.
	tree := bytes.Replace(nastyTree(t), []byte("docker:x:999:"), []byte("65534:x:0000:"), 1)
	box, err := engine.Create(t.Context(), specOf(loadImage(t, engine, tree, v1.Config{})))
	if err == nil {
		box.Remove(t.Context())
	}
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Cause != sandbox.CauseImage || !strings.Contains(err.Error(), `"65534"`) {
		t.Errorf("error %v", err)
	}
}

func TestNumberedName(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "root:x:0:\nusers:x:100:\n": "", "a1:x:0:\n": "", "a:x:0:\n  007:x:0:\n": "007", "12": "12",
	} {
		if got, err := docker.NumberedName(strings.NewReader(text)); got != want || err != nil {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}

// A source that became a link after it was judged is not followed.
func TestSwappedMountSource(t *testing.T) {
	engine := connect(t)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("/etc", link); err != nil {
		t.Fatal(err)
	}
	box, err := engine.Create(t.Context(), specOf(baseImage(t, engine), sandbox.Mount{Source: link, Target: "/mnt"}))
	if err == nil {
		box.Remove(t.Context())
	}
	if sandbox.CauseOf(err) != sandbox.CauseDenied {
		t.Errorf("error %v", err)
	}
}
