package docker_test

import (
	"context"
	"os"
	"testing"
	"time"

	"belljar/images"
	"belljar/sandbox"
	"belljar/sandbox/docker"
	"belljar/sandbox/sandboxtest"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// connect is a connection to the host's engine, for one test. Without an engine
// the test is skipped, except in CI. After the test no container may be left.
func connect(t *testing.T) *docker.Engine {
	t.Helper()
	return connectTo(t, "")
}

// connectTo is connect for the engine at host.
func connectTo(t *testing.T, host string) *docker.Engine {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	engine, err := docker.Connect(ctx, host)
	if err != nil && os.Getenv("CI") == "" {
		t.Skipf("NO ENGINE, NOT TESTED: %v", err)
	}
	if err != nil {
		t.Fatalf("CI needs an engine: %v", err)
	}
	engine.Dir = t.TempDir()
	before := containers(t, engine)
	t.Cleanup(func() {
		for id, name := range containers(t, engine) {
			if before[id] == "" {
				t.Errorf("container %s is left behind", name)
			}
		}
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	})
	return engine
}

// containers are the names of this process's containers, by ID. The tests of
// other packages may have theirs on the same engine.
func containers(t *testing.T, engine *docker.Engine) map[string]string {
	t.Helper()
	filter := filters.NewArgs(filters.Arg("label", "dev.belljar.process="+docker.ThisProcess()))
	list, err := engine.Client().ContainerList(context.WithoutCancel(t.Context()), container.ListOptions{All: true, Filters: filter})
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	for _, c := range list {
		names[c.ID] = c.Names[0]
	}
	return names
}

func baseImage(t *testing.T, engine *docker.Engine) sandbox.Image {
	t.Helper()
	store := &images.Store{Client: engine.Client()}
	image, err := store.Resolve(t.Context(), "belljar/base", sandbox.PullMissing)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func TestEngine(t *testing.T) {
	sandboxtest.TestEngine(t, func(t *testing.T) (sandbox.Engine, sandbox.Image) {
		engine := connect(t)
		return engine, baseImage(t, engine)
	})
}
