package docker_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"belljar/sandbox"
	"belljar/sandbox/docker"

	"github.com/docker/docker/api/types/container"
	"golang.org/x/sys/unix"
)

// TestKilledFromOutside: docker kill ends the commands of a container with
// SIGKILL, as they can themselves. Evidence distinguishes the two, from the moment
// on that the command is known to have ended.
func TestKilledFromOutside(t *testing.T) {
	t.Parallel()
	engine := connect(t)
	image := baseImage(t, engine)
	ways := map[string]func(id string) error{
		"docker kill": func(id string) error { return engine.Client().ContainerKill(t.Context(), id, "KILL") },
		"docker stop": func(id string) error {
			return engine.Client().ContainerStop(t.Context(), id, container.StopOptions{})
		},
		"kill -9 of its first process": func(id string) error {
			about, err := engine.Client().ContainerInspect(t.Context(), id)
			if err != nil {
				return err
			}
			return unix.Kill(about.State.Pid, unix.SIGKILL)
		},
	}
	for way, end := range ways {
		for _, here := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, seen from here: %v", way, here), func(t *testing.T) {
				t.Parallel()
				for range 3 {
					counters := killed(t, enter(t, engine, image), here, "sleep 1000", end, strings.HasPrefix(way, "docker"))
					if counters.KilledBy != "outside" || counters.Stopped != strings.HasPrefix(way, "docker") {
						t.Fatalf("killed by %q, by way of the engine: %v", counters.KilledBy, counters.Stopped)
					}
				}
			})
		}
	}
	for _, here := range []bool{true, false} {
		t.Run(fmt.Sprintf("the command itself, seen from here: %v", here), func(t *testing.T) {
			t.Parallel()
			for range 3 {
				counters := killed(t, enter(t, engine, image), here, "sleep 0.1; kill -9 $$", func(string) error { return nil }, false)
				if counters.KilledBy != "" {
					t.Fatalf("killed by %q", counters.KilledBy)
				}
			}
		})
	}
}

// killed is what is counted once a command is known to have ended that was
// killed in that way, and, by the engine, once that has told it.
func killed(t *testing.T, c *inside, here bool, script string, end func(id string) error, byEngine bool) sandbox.Counters {
	t.Helper()
	if !here {
		docker.NotHere(c.box)
	}
	begun, says := io.Pipe()
	p, err := c.box.Exec(t.Context(), sandbox.Exec{Script: "echo; " + script, Dir: "/", User: c.spec.User, Stdout: says, Stderr: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := begun.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	waited := make(chan error, 1)
	go func() {
		code, err := p.Wait(t.Context())
		if code != 137 && sandbox.CauseOf(err) != sandbox.CauseEngineLost { // as its container goes, so may its status
			err = fmt.Errorf("status %d, error %w", code, err)
		} else {
			err = nil
		}
		waited <- err
	}()
	ended := make(chan error, 1)
	go func() { ended <- end(c.box.Info().ID) }()
	select {
	case <-p.Exited():
	case err := <-waited:
		waited <- err
	}
	counters, err := c.box.Counters(t.Context())
	for range 15 { // a busy engine tells late who asked it
		if err != nil || counters.Stopped || !byEngine {
			break
		}
		counters, err = c.box.Counters(t.Context())
	}
	if err := errors.Join(err, <-waited); err != nil {
		t.Error(err)
	}
	<-ended // the engine may have found it gone
	return counters
}

// Who kills a container's init right after memory ran out for a command is not the kernel.
func TestKilledAfterOutOfMemory(t *testing.T) {
	t.Parallel()
	engine := connectBy(t, sandbox.WayInit)
	image := baseImage(t, engine)
	for range 3 {
		c := enter(t, engine, image)
		c.run(t, "(tail /dev/zero); exit 3")
		counters := killed(t, c, true, "sleep 1000", func(id string) error {
			about, err := engine.Client().ContainerInspect(t.Context(), id)
			if err != nil {
				return err
			}
			return unix.Kill(about.State.Pid, unix.SIGKILL)
		}, true)
		if counters.KilledBy != "outside" || !counters.Stopped || counters.OOMKills != 1 {
			t.Errorf("%+v", counters)
		}
	}
}

// Files in memory are charged to the container, and no kill makes room for them: its first process may be killed,
// too. Why it ended is known all the same.
func TestMemoryOfFiles(t *testing.T) {
	eachWay(t, func(t *testing.T, engine *docker.Engine, _ string) {
		image := baseImage(t, engine)
		for range 8 {
			spec := specOf(image)
			spec.Limits.Memory, spec.Limits.Tmp = 32<<20, 64<<20
			c := enterAs(t, engine, spec)
			status := -1
			p, err := c.box.Exec(t.Context(), sandbox.Exec{Script: "dd if=/dev/zero of=/tmp/f bs=64k", Dir: "/", User: spec.User, Stdout: io.Discard, Stderr: io.Discard})
			if err == nil {
				status, err = p.Wait(t.Context())
			}
			if err != nil && sandbox.CauseOf(err) != sandbox.CauseEngineLost { // its first process may end before it says that the command started
				t.Fatal(err)
			}
			counters, err := c.box.Counters(t.Context())
			if status == 0 || err != nil || counters.OOMKills == 0 || counters.KilledBy == "outside" && counters.Stopped {
				t.Errorf("status %d, %+v, error %v", status, counters, err)
			}
		}
	})
}
