package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"strings"
	"time"

	"belljar"
	"belljar/config"
	"belljar/sandbox"
	"belljar/sandbox/docker"
	"belljar/sandbox/kubernetes"
	"belljar/sandbox/local"
)

// trivial is the command that is measured: what remains is the cost around it.
const trivial = "true"

// bench is what all tests have in common.
type bench struct {
	host    *belljar.Host
	engine  benchEngine
	docker  *belljar.Host // the peer's
	config  *config.Config
	image   sandbox.Image
	peer    *peer
	kubectl *kubectl // the peer over pods, instead of docker and peer
	own     []string // belljar run, up to its flags
	state   string   // the user's state directory
	count   int
}

// newBench gets both sides ready. The function it returns cleans up: it joins
// its own errors with the error that it is given.
func newBench(ctx context.Context, g *globals, f *benchFlags, kind string) (b *bench, end func(error) error, err error) {
	users, err := g.loadConfig(nil)
	if err != nil {
		return nil, nil, err
	}
	forget, err := ownState()
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			forget()
		}
	}()
	if kind != "" {
		os.Setenv("BELLJAR_ENGINE_KIND", kind) // of the belljars that it starts, too
	}
	flags := map[string]string{}
	if f.runtime != "" {
		flags["engine.runtime"] = f.runtime
	}
	c, err := g.loadConfig(flags)
	if err != nil {
		return nil, nil, err
	}
	own, err := ownCommand(g, f)
	if err != nil {
		return nil, nil, err
	}
	host, err := connect(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	b = &bench{host: host, docker: host, config: c, own: own, state: users.StateDir, count: f.count}
	closing := host.Close
	if host.Kind == config.EngineOCI {
		engine, err := docker.Connect(ctx, c.Engine.Host)
		if err != nil {
			return nil, nil, errors.Join(err, host.Close())
		}
		b.docker = belljar.OnDocker(engine, c)
		closing = func() error { return errors.Join(host.Close(), engine.Close()) }
	}
	if err := b.prepare(ctx); err != nil {
		closing()
		return nil, nil, err
	}
	return b, func(err error) error {
		err = errors.Join(err, b.closePeer(ctx))
		closing()
		return errors.Join(err, forget())
	}, nil
}

// ownState makes a state directory for this process and those that it starts:
// the bench's outputs must not stay among the user's.
func ownState() (forget func() error, err error) {
	dir, err := os.MkdirTemp("", "belljar-bench-")
	if err != nil {
		return nil, fmt.Errorf("making a state directory: %w", err)
	}
	before, isSet := os.LookupEnv("XDG_STATE_HOME")
	if err := os.Setenv("XDG_STATE_HOME", dir); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return func() error {
		restored := os.Unsetenv("XDG_STATE_HOME") // the next engine's images are the user's again
		if isSet {
			restored = os.Setenv("XDG_STATE_HOME", before)
		}
		return errors.Join(restored, os.RemoveAll(dir))
	}, nil
}

func ownCommand(g *globals, f *benchFlags) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding belljar itself: %w", err)
	}
	own := []string{self, "run"}
	if g.configPath != "" {
		own = append(own, "--config", g.configPath)
	}
	if f.runtime != "" {
		own = append(own, "--runtime", f.runtime)
	}
	return own, nil
}

// prepare gets the image and the peer ready, and runs one command: if the engine
// cannot, this reports its error.
func (b *bench) prepare(ctx context.Context) error {
	p := b.config.Profiles[sandbox.DefaultProfile]
	var err error
	if b.image, err = b.host.Images.Resolve(ctx, p.Image, p.Pull); err != nil {
		return err
	}
	l := b.local(sandbox.PoolSize{})
	defer l.Close()
	_, err = timedRun(ctx, l, sandbox.Command{Script: trivial}, func(r sandbox.Result) error {
		b.engine = benchEngine{Kind: r.Container.Engine, Runtime: r.Container.Runtime, Way: r.Container.Way}
		return nil
	})
	if err != nil {
		return err
	}
	if b.host.Kind == config.EngineKubernetes {
		b.kubectl, err = newKubectl(ctx, b.config.Engine.Kubernetes, b.host.Engine.(*kubernetes.Engine), b.image, p.User, peerLife(b.count))
		return err
	}
	image := b.image
	if b.docker != b.host {
		p.Runtime = "" // the names of the other's are not docker's
		if image, err = b.docker.Images.Resolve(ctx, p.Image, p.Pull); err != nil {
			return err
		}
	}
	b.peer, err = newPeer(b.dockerEngine().Host(), p, image, b.count)
	return err
}

// local is a Runner with its own admission limits, instead of the configured ones:
// docker has none.
func (b *bench) local(pool sandbox.PoolSize) *local.Local {
	l := belljar.New(b.host, b.config).Local
	l.Admission = sandbox.Admission{}
	p := l.Profiles[sandbox.DefaultProfile]
	pool.Max = cmp.Or(pool.Max, sandbox.NoPool)
	p.Pool = pool
	p.Session.Idle = min(p.Session.Idle, 5*time.Minute) // in case this process dies before it removes it
	l.Profiles = maps.Clone(l.Profiles)
	l.Profiles[sandbox.DefaultProfile] = p
	return l
}

func (b *bench) closePeer(ctx context.Context) error {
	if b.kubectl != nil {
		return b.kubectl.close(ctx)
	}
	return b.peer.close(ctx)
}

// dockerEngine is that of the peer.
func (b *bench) dockerEngine() *docker.Engine { return b.docker.Engine.(*docker.Engine) }

// about describes what the figures depend on.
func (b *bench) about(ctx context.Context) (benchHost, error) {
	if pods, is := b.host.Engine.(*kubernetes.Engine); is {
		version, err := pods.Version(ctx)
		return benchHost{Arch: runtime.GOARCH, Cluster: pods.Host(), Engine: version, Image: b.image.ID}, err
	}
	about, err := b.dockerEngine().About(ctx)
	if err != nil {
		return benchHost{}, err
	}
	h := benchHost{
		OS: about.Machine.OS, Arch: runtime.GOARCH, Kernel: about.Machine.Kernel, CPUs: about.Machine.CPUs, MemoryBytes: about.Machine.Memory,
		Engine: about.Version, Runtime: about.Runtime,
		Storage: about.Storage, Cgroup: about.Cgroup.Version, Image: b.image.ID,
	}
	if b.docker == b.host {
		h.Runtime = cmp.Or(b.config.Profiles[sandbox.DefaultProfile].Runtime, h.Runtime)
	}
	if about.Local {
		text, _ := os.ReadFile("/proc/cpuinfo")
		h.CPUModel = cpuModel(string(text))
	}
	return h, nil
}

// cpuModel is "" if the kernel does not report it, as on most ARMs.
func cpuModel(cpuinfo string) string {
	for line := range strings.Lines(cpuinfo) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.Join(strings.Fields(value), " ")
		}
	}
	return ""
}
