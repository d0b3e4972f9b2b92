package docker

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/docker/docker/api"
	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/system"
	"golang.org/x/sys/unix"
)

// About describes an engine, and what its host supports for a lock-down.
type About struct {
	Host    string // the engine's address
	Local   bool   // reached through a socket file: its host is most likely this one
	Version string // "20.10.24+dfsg1"
	API     APIVersions
	Machine Machine

	Runtime    string      // the default runtime
	Runtimes   []string    // the names of all runtimes
	Components []Component // Engine, containerd, runc, … as reported

	RootDir  string
	Storage  string // the driver
	Cgroup   Cgroup
	Limits   LimitSupport
	Security []string // "name=seccomp,profile=default", …
	Warnings []string // the engine's warnings, of one or several lines
}

// APIVersions are those of the Docker API, such as "1.41".
type APIVersions struct {
	Used   string // used by both
	Engine string // the newest that the engine speaks
	Client string // the newest that belljar speaks
}

// Machine is the hardware and system of the engine's host.
type Machine struct {
	Kernel, OS string
	CPUs       int
	Memory     int64 // bytes
}

// Cgroup describes the control groups of the engine's host.
type Cgroup struct {
	Version string // "1" or "2"
	Driver  string
}

// Component is a program that the engine works with.
type Component struct {
	Name    string // "runc"
	Version string // "1.1.5+ds1"
	Commit  string // of its source; some distributions give their package's version instead
}

// LimitSupport says which limits the host's kernel enforces. The engine drops
// any other without an error.
type LimitSupport struct{ Memory, Swap, CPU, Pids bool }

// About asks the engine about itself and its host.
func (e *Engine) About(ctx context.Context) (About, error) {
	ctx, cancel := context.WithTimeout(ctx, e.callTime())
	defer cancel()
	version, err := e.client.ServerVersion(ctx)
	if err != nil {
		return About{}, engineError(err, "asking the engine for its version").Hint("see the engine's log: journalctl -u docker")
	}
	info, err := e.client.Info(ctx)
	if err != nil {
		return About{}, engineError(err, "asking the engine about its host").Hint("see the engine's log: journalctl -u docker")
	}
	a := about(version, info)
	a.Host, a.Local = e.Host(), e.local()
	a.API.Used, a.API.Client = e.client.ClientVersion(), api.DefaultVersion
	return a, nil
}

// HostUsers reports whether a UID in a container is the same UID on this host: the engine
// is on this machine, as far as its name and kernel tell, and maps no users.
func (e *Engine) HostUsers(ctx context.Context) bool {
	if known := e.hostUsers.Load(); known != nil {
		return *known
	}
	ctx, cancel := context.WithTimeout(ctx, e.callTime())
	defer cancel()
	info, err := e.client.Info(ctx)
	if err != nil {
		return false
	}
	var here unix.Utsname
	are := e.local() && unix.Uname(&here) == nil && info.Name == unix.ByteSliceToString(here.Nodename[:]) && info.KernelVersion == unix.ByteSliceToString(here.Release[:]) &&
		!slices.ContainsFunc(info.SecurityOptions, func(o string) bool {
			return strings.HasPrefix(o, "name=userns") || strings.HasPrefix(o, "name=rootless")
		})
	e.hostUsers.Store(&are)
	return are
}

func about(version types.Version, info system.Info) About {
	a := About{
		Version: version.Version, API: APIVersions{Engine: version.APIVersion},
		Machine: Machine{Kernel: info.KernelVersion, OS: info.OperatingSystem, CPUs: info.NCPU, Memory: info.MemTotal},
		Runtime: info.DefaultRuntime, Runtimes: slices.Sorted(maps.Keys(info.Runtimes)),
		RootDir: info.DockerRootDir, Storage: info.Driver, Cgroup: Cgroup{Version: info.CgroupVersion, Driver: info.CgroupDriver},
		Limits:   LimitSupport{Memory: info.MemoryLimit, Swap: info.SwapLimit, CPU: info.CPUCfsQuota, Pids: info.PidsLimit},
		Security: info.SecurityOptions, Warnings: info.Warnings,
	}
	for _, c := range version.Components {
		a.Components = append(a.Components, Component{Name: c.Name, Version: c.Version, Commit: c.Details["GitCommit"]})
	}
	return a
}

// Component finds a component by name.
func (a About) Component(name string) (Component, bool) {
	i := slices.IndexFunc(a.Components, func(c Component) bool { return c.Name == name })
	if i < 0 {
		return Component{}, false
	}
	return a.Components[i], true
}

// Top reports whether the engine can list the processes of a running container: its
// host needs a ps that knows all the columns.
func (e *Engine) Top(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, e.callTime())
	defer cancel()
	top := &topInspector{counter: &engineCounter{}, box: newBox(e, id, nil)}
	list, err := top.processes(ctx)
	if err == nil && len(list) == 0 {
		err = errors.New("the engine lists no process of a running container")
	}
	return err
}
