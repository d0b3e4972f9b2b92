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
					counters := killed(t, enter(t, engine, image), here, "sleep 1000", end)
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
				counters := killed(t, enter(t, engine, image), here, "sleep 0.1; kill -9 $$", func(string) error { return nil })
				if counters.KilledBy != "" {
					t.Fatalf("killed by %q", counters.KilledBy)
				}
			}
		})
	}
}

// killed is what is counted once a command is known to have ended that was
// killed in that way.
func killed(t *testing.T, c *inside, here bool, script string, end func(id string) error) sandbox.Counters {
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
	if err := errors.Join(err, <-waited); err != nil {
		t.Error(err)
	}
	<-ended // the engine may have found it gone
	return counters
}
