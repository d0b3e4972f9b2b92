package docker

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"belljar/internal/boxinit"
	"belljar/sandbox"
	"belljar/sandbox/internal/failure"
	"belljar/sandbox/internal/lockdown"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
)

// ways is what is known of whether the engine's containers can have our init, by their
// runtimes.
type ways struct {
	mu     sync.Mutex
	proven map[string]bool   // one had it
	whyNot map[string]string // why none can
}

// Way is how commands are started in the containers that the engine makes with its default
// runtime, as far as that is known before there is one, and, where that is not by our
// init, why.
func (e *Engine) Way() (way, why string) {
	if _, err := e.chooseInit(""); err != nil {
		return sandbox.WayExec, err.Error()
	}
	return sandbox.WayInit, ""
}

// chooseInit is the program for a new container's init, or an error that says why it gets
// a keeper.
func (e *Engine) chooseInit(runtime string) (program string, err error) {
	e.ways.mu.Lock()
	why, not := e.ways.whyNot[runtime]
	e.ways.mu.Unlock()
	if not {
		return "", errors.New(why)
	}
	return e.initProgram()
}

// initError is why a container could not be made with our init, while none was yet.
type initError struct{ error }

func (e *initError) Unwrap() error { return e.error }

// unlessProven marks an error that may be due to our init, as long as no container
// had it: the container is then made without it.
func (e *Engine) unlessProven(runtime string, err error) error {
	e.ways.mu.Lock()
	defer e.ways.mu.Unlock()
	if e.ways.proven[runtime] {
		return err
	}
	return &initError{err}
}

func (e *Engine) proveInit(runtime string) {
	e.ways.mu.Lock()
	defer e.ways.mu.Unlock()
	if e.ways.proven == nil {
		e.ways.proven = map[string]bool{}
	}
	e.ways.proven[runtime] = true
}

// giveUpInit is called where a container could be made, but not with our init. That
// holds for all later ones.
func (e *Engine) giveUpInit(runtime string, because error) {
	e.ways.mu.Lock()
	defer e.ways.mu.Unlock()
	if e.ways.whyNot == nil {
		e.ways.whyNot = map[string]string{}
	}
	if !e.ways.proven[runtime] {
		e.ways.whyNot[runtime] = failure.OneLine(because.Error())
	}
}

// initCaps are what an init begins with where no command may be root: see capabilities. It gives up SETPCAP, and its user
// 0, before it starts a command, and no command has any.
var initCaps = []string{"KILL", "SETGID", "SETPCAP", "SETUID"}

// withInit gives a container our init in place of a keeper and of the engine's init.
func withInit(config *container.Config, host *container.HostConfig, spec sandbox.Spec, program string, endsWithUs bool) {
	no := false
	config.User, config.Entrypoint = "0:0", initArgs(spec, endsWithUs)
	config.OpenStdin, config.StdinOnce = true, endsWithUs
	config.AttachStdin, config.AttachStdout, config.AttachStderr = true, true, true
	host.Init, host.CapAdd = &no, capabilities(spec.Root)
	host.Mounts = append(slices.Clone(host.Mounts), readOnly(program, boxinit.Path))
	pids := *host.PidsLimit + boxinit.Threads
	host.PidsLimit = &pids
}

// initArgs are the init's program and arguments. An init that must outlive this process
// has a deadline.
func initArgs(spec sandbox.Spec, endsWithUs bool) []string {
	init := boxinit.Config{Carrier: boxinit.Frames, UID: lockdown.KeeperFor(spec.User), Root: spec.Root}
	if !endsWithUs {
		init.Deadline = spec.Deadline.Unix()
	}
	return init.Args()
}

// hasInit reports whether a container's main process is our init, or says to be.
func hasInit(about container.InspectResponse) bool {
	return len(about.Config.Entrypoint) > 0 && about.Config.Entrypoint[0] == boxinit.Path
}

// checkInit compares a container that has our init with what withInit makes. Its labels
// are sealed.
func checkInit(about container.InspectResponse) error {
	h := about.HostConfig
	caps := slices.Clone(h.CapAdd)
	for i := range caps {
		caps[i] = strings.TrimPrefix(caps[i], "CAP_")
	}
	slices.Sort(caps)
	programs := 0
	for _, m := range h.Mounts {
		if m.Target == boxinit.Path && m.Type == mount.TypeBind && m.ReadOnly {
			programs++
		}
	}
	return firstNot([]fact{
		{slices.Equal(about.Config.Entrypoint, labelledInitArgs(about.Config.Labels)) && len(about.Config.Cmd) == 0, "its init has other arguments"},
		{about.Config.User == "0:0", "its init has another user"},
		{slices.Equal(caps, capabilities(about.Config.Labels[labelRoot] != "")), "its init has other capabilities"},
		{h.Init == nil || !*h.Init, "it has two inits"},
		{programs == 1, "its init is not mounted, or can be replaced"},
	})
}

// labelledInitArgs are the arguments of the init of a container with these labels.
func labelledInitArgs(labels map[string]string) []string {
	spec := sandbox.Spec{User: labelledUser(labels[labelUser]), Root: labels[labelRoot] != ""}
	spec.Deadline, _ = time.Parse(time.RFC3339, labels[labelDeadline])
	return initArgs(spec, endsWithMaker(labels))
}

// initStartError explains the start that failed of a container that has our init.
func initStartError(err error) error {
	return engineError(errors.New(failure.OneLine(err.Error())), "starting the container with belljar's own init").Hint("see: belljar doctor; or set engine.init to none")
}

func noAnswer(err error) error {
	return engineError(err, "the container's init does not answer").Hint("see: belljar doctor; or set engine.init to none")
}
