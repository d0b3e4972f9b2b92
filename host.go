package belljar

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"belljar/config"
	"belljar/images"
	"belljar/sandbox"
	"belljar/sandbox/docker"
	"belljar/sandbox/kubernetes"
	"belljar/sandbox/listing"
	"belljar/sandbox/oci"
)

// Engine makes containers, and knows those that any belljar of this user made.
type Engine interface {
	sandbox.Engine
	// List returns these containers, of all processes.
	List(ctx context.Context) ([]listing.Container, error)
	// FillProcesses fills in what runs in one of them.
	FillProcesses(ctx context.Context, c *listing.Container) error
	// Sweep removes those whose belljar, or whose time, has ended, and returns how many.
	Sweep(ctx context.Context) (int, error)
	// Networks are the names of the networks that a command may use.
	Networks(ctx context.Context) ([]string, error)
	// Close ends what connects to the engine. Containers go before it.
	Close() error
}

// Images are those of an engine.
type Images interface {
	sandbox.Images
	List(ctx context.Context) ([]images.Listed, error)
	// Pull fetches an image, also one that is there.
	Pull(ctx context.Context, reference string) (sandbox.Image, error)
	BuildBase(ctx context.Context) (sandbox.Image, error)
	BuildDebian(ctx context.Context, d images.Debian) (sandbox.Image, error)
	// Import loads the images of a file; those without a name get the tag.
	Import(ctx context.Context, file, tag string) ([]sandbox.Image, error)
	Remove(ctx context.Context, reference string) (images.Removed, error)
	// Prune removes images that nothing needs, or all that nothing uses.
	Prune(ctx context.Context, all bool) (images.Removed, error)
}

// Host is an engine with its images.
type Host struct {
	Engine Engine
	Images Images
	Kind   string // config.EngineDocker, config.EngineOCI or config.EngineKubernetes
	// NoDocker is why it is not Docker, with config.EngineAuto; else nil.
	NoDocker error
}

// Connect reaches the engine that the configuration names. ctx is for connecting only.
// config.EngineAuto is Docker, unless no engine was named and none answers where the
// docker command would look. One that answers, but cannot be used, is an error.
func Connect(ctx context.Context, c *config.Config) (*Host, error) { return reach(ctx, c, false) }

// ConnectAlone is Connect, but sessions end with this process, and no other sees them.
func ConnectAlone(ctx context.Context, c *config.Config) (*Host, error) { return reach(ctx, c, true) }

func reach(ctx context.Context, c *config.Config, alone bool) (*Host, error) {
	switch c.Engine.Kind {
	case config.EngineOCI:
		return openOCI(c, alone)
	case config.EngineKubernetes:
		return openKubernetes(c, alone)
	}
	engine, err := docker.Connect(ctx, c.Engine.Host)
	if err == nil {
		engine.OwnSessions = alone
		return OnDocker(engine, c), nil
	}
	if c.Engine.Kind == config.EngineDocker || docker.IsNamed(c.Engine.Host) || docker.Answered(err) || ctx.Err() != nil {
		return nil, err
	}
	host, errOCI := openOCI(c, alone)
	if errOCI != nil {
		return nil, neither(err, errOCI)
	}
	host.NoDocker = err
	return host, nil
}

// neither is the error where no kind of engine can be had.
func neither(docker, oci error) error {
	d, isDocker := errors.AsType[*sandbox.Error](docker)
	o, isOCI := errors.AsType[*sandbox.Error](oci)
	if !isDocker || !isOCI {
		return docker
	}
	both := *d
	both.Message, both.Hint = fmt.Sprintf("%s; without Docker, engine.kind oci: %s", d.Message, o.Message), d.Hint+"; or, for oci: "+o.Hint
	return &both
}

// OnDocker is a Host of an engine that is connected already. Nothing was made with it yet.
func OnDocker(engine *docker.Engine, c *config.Config) *Host {
	engine.Dir, engine.Init = c.StateDir, initProgram(c)
	return &Host{Engine: engine, Images: &images.Store{Client: engine.Client()}, Kind: config.EngineDocker}
}

// openOCI is a Host whose containers an OCI runtime makes, without a daemon.
func openOCI(c *config.Config, alone bool) (*Host, error) {
	if c.StateDir == "" {
		return nil, sandbox.Invalid("set HOME or XDG_STATE_HOME", "engine.kind oci needs a state directory, which keeps images")
	}
	program := initProgram(c)
	if program == "" {
		return nil, sandbox.Invalid("leave out engine.init, or name a belljar that is linked statically", "engine.kind oci needs an init of belljar's own, and engine.init is none")
	}
	disk := &images.Disk{Dir: filepath.Join(c.StateDir, "images")}
	engine, err := oci.Open(oci.Config{Dir: c.StateDir, Runtime: c.Engine.Runtime, Init: program, Roots: disk, OwnSessions: alone, BestEffort: c.Engine.Limits == config.LimitsBestEffort})
	if err != nil {
		return nil, err
	}
	return &Host{Engine: engine, Images: disk, Kind: config.EngineOCI}, nil
}

// initProgram is the program that is to be a container's init, or "" for none. Whether it
// can be is for the engine to say.
func initProgram(c *config.Config) string {
	switch c.Engine.Init {
	case config.NoInit:
		return ""
	case "":
		self, _ := os.Executable() // any program that contains this package is one
		return self
	}
	return c.Engine.Init
}

// ShowProgress has pulls, loads and builds shown, with bars if it is a terminal. Nil shows
// nothing.
func (h *Host) ShowProgress(w io.Writer) {
	switch store := h.Images.(type) {
	case *images.Store:
		store.Progress = w
	case *images.Disk:
		store.Progress = w
	}
}

// Ping asks the engine, if it is a process that may end, whether it answers.
func (h *Host) Ping(ctx context.Context) error {
	if engine, can := h.Engine.(interface {
		Ping(ctx context.Context) error
	}); can {
		return engine.Ping(ctx)
	}
	return nil
}

// Remote is the engine's address if it is on another host, which does not see this one's
// files.
func (h *Host) Remote() (address string, yes bool) {
	if engine, is := h.Engine.(*kubernetes.Engine); is {
		return engine.Host(), true
	}
	engine, is := h.Engine.(*docker.Engine)
	if !is || strings.HasPrefix(engine.Host(), "unix://") {
		return "", false
	}
	return engine.Host(), true
}

// Close ends what connects to the engine. Containers go before it.
func (h *Host) Close() error { return h.Engine.Close() }
