package oci

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"belljar/internal/ownfile"
	"belljar/sandbox"
	"belljar/sandbox/internal/bindmount"
	"belljar/sandbox/internal/cgroup"
	"belljar/sandbox/internal/failure"
	"belljar/sandbox/internal/userns"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// rootless is what an engine has whose user is not root. A process in a user namespace of its own mounts what a
// container needs, and becomes the runtime. Its processes and files are this one's to end and to read: who
// made a user namespace has all rights in it.
type rootless struct {
	ids   *userns.Caller
	base  string // the path of the control group below which containers have theirs; "" with Config.BestEffort, if there is none
	none  error  // why there is none
	notes string // the directory of records
}

// bestEffort is sandbox.ContainerInfo.Limits of a container without them.
const bestEffort = "best-effort"

// openRootless is nil for root. An error says what is missing.
func openRootless(config Config) (*rootless, error) {
	if os.Geteuid() == 0 {
		return nil, nil
	}
	ids, err := userns.OfCaller()
	if err != nil {
		return nil, err
	}
	u := &rootless{ids: ids, notes: notesOf(config.Dir)}
	if err := ownfile.MakeDir(u.notes); err != nil {
		return nil, engineError(err, "making a directory for records of containers").Hint("set XDG_STATE_HOME to a writable directory")
	}
	base, err := cgroup.Delegated()
	switch {
	case err == nil:
		u.base = base
	case config.BestEffort:
		u.none = err
	default:
		return nil, engineError(err, "user %d may make no control groups, so memory, processors and processes would have no limits", os.Getuid()).
			Hint("start belljar in a group that is delegated to this user: with systemd, systemd-run --user --scope -p Delegate=yes belljar ARG...; or run it as root; or, to do without these limits, set engine.limits: best-effort")
	}
	return u, nil
}

// notesOf is the directory of records in a state directory.
func notesOf(state string) string { return filepath.Join(state, "oci-containers") }

// group is the path of the control group of that name.
func (u *rootless) group(name string) string {
	if u == nil {
		return name
	}
	return strings.TrimPrefix(path.Join(u.base, name), "/")
}

func (u *rootless) limits() string {
	if u != nil && u.none != nil {
		return bestEffort
	}
	return ""
}

// NoLimits is why containers have no limits on memory, processors and processes, with Config.BestEffort; else nil.
func (e *Engine) NoLimits() error {
	if e.user == nil {
		return nil
	}
	return e.user.none
}

// check refuses what takes root.
func (u *rootless) check(spec sandbox.Spec) error {
	if u == nil || !spec.Root {
		return nil
	}
	return engineError(nil, "root in a container needs belljar to run as root: it has no user IDs that only this container has").As(sandbox.CauseInvalid).
		Hint("run belljar as root, or use a profile with another user")
}

// order is a launch as another process gets it, with paths in place of open files.
type order struct {
	Dir, Runtime, ID string
	Config           *specs.Spec
	Root, Init       string
	Sources          []string
	Users            map[string]string
	Groups           []string
	Listens          bool
	Layer            *userns.Root
}

func (m *making) order() (o order, err error) {
	o.Init = m.engine.init.Name()
	for _, s := range m.judged {
		o.Sources = append(o.Sources, s.Path)
	}
	o.Root, err = filepath.EvalSymlinks(m.dir)
	return o, err
}

// launcher is the first argument of that process. This package's init runs it, in any program that contains it.
const launcher = "belljar-oci-launch"

// Its files, but for those that the runtime passes on.
const (
	socketFD = 3
	orderFD  = 4 // the order is complete at its end; then it is the listening socket
	readyFD  = 5 // closed once it is the runtime; before that, an error
)

// launcherCapabilities are what it needs in its user namespace. The runtime has all.
var launcherCapabilities = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_DAC_OVERRIDE, unix.CAP_CHOWN, unix.CAP_FOWNER, unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_SYS_PTRACE}

// start starts the runtime in a user namespace and a mount namespace of its own.
func (u *rootless) start(l *launch, m *making) (_ *launched, err error) {
	o, err := m.order()
	if err != nil {
		return nil, err
	}
	o.Dir, o.Runtime, o.ID, o.Config, o.Users, o.Groups, o.Listens, o.Layer = l.dir, l.runtime, l.id, l.config, l.users, l.groups, l.listens, l.layer
	text, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("encoding the container's order: %w", err)
	}
	run := &launched{}
	defer func() {
		if err != nil {
			run.close()
		}
	}()
	fd, err := unix.MemfdCreate(logFile, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	run.log = os.NewFile(uintptr(fd), logFile)
	nothing, err := noInput()
	if err != nil {
		return nil, err
	}
	defer nothing.Close()
	theirOrder, ourOrder, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirOrder.Close()
	defer ourOrder.Close()
	ourReady, theirReady, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer ourReady.Close()
	defer theirReady.Close()
	run.process, err = os.StartProcess("/proc/self/exe", []string{launcher}, &os.ProcAttr{
		Dir: "/", Env: runtimeEnv, Files: append([]*os.File{nothing, run.log, run.log, l.socket, theirOrder, theirReady}, l.holds...),
		Sys: &syscall.SysProcAttr{Setsid: true, Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS, AmbientCaps: launcherCapabilities},
	})
	if err != nil {
		return nil, engineError(err, "making a user namespace").
			Hint("allow them to this user: sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone and kernel.apparmor_restrict_unprivileged_userns; or run belljar as root")
	}
	if err := run.openPidfd(); err != nil {
		return nil, err
	}
	theirReady.Close()
	theirOrder.Close()
	late := time.Now().Add(startTimeout)
	ourReady.SetReadDeadline(late)
	ourOrder.SetWriteDeadline(late)
	if err = u.order(run, ourOrder, ourReady, text); err == nil {
		run.private, err = os.OpenFile(filepath.Join(fmt.Sprintf("/proc/%d/root", run.process.Pid), l.dir), unix.O_PATH|unix.O_DIRECTORY, 0)
	}
	if err != nil {
		run.process.Kill()
		run.process.Wait()
		run.pidfd.Close()
		if said := run.said(); said != "" { // the reason for whatever else failed
			err = saidError(said)
		}
		return nil, err
	}
	return run, nil
}

// order has a launcher start the runtime.
func (u *rootless) order(run *launched, ourOrder io.WriteCloser, ready io.Reader, text []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	if err := u.ids.Map(ctx, run.process.Pid); err != nil {
		return err
	}
	if _, err := ourOrder.Write(text); err != nil {
		return fmt.Errorf("ordering the container: %w", err)
	}
	ourOrder.Close()
	said, err := io.ReadAll(ready)
	switch {
	case err != nil:
		return fmt.Errorf("waiting for the runtime to start: %w", err)
	case len(said) > 0:
		return errors.New(failure.OneLine(string(said)))
	}
	return nil
}

func init() {
	if len(os.Args) != 1 || os.Args[0] != launcher {
		return
	}
	unix.CloseOnExec(readyFD)
	err := launchHere()
	io.WriteString(os.NewFile(readyFD, "ready"), err.Error())
	os.Exit(1)
}

// orderFile stays open: the collector must not close what orderFD is later.
var orderFile *os.File

// launchHere becomes the runtime, or returns why not. It runs in a process of its own.
func launchHere() error {
	orderFile = os.NewFile(orderFD, "order")
	text, err := io.ReadAll(orderFile)
	if err != nil {
		return err
	}
	var o order
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(&o); err != nil {
		return fmt.Errorf("reading the container's order: %w", err) // who was to give it has ended
	}
	l := &launch{dir: o.Dir, runtime: o.Runtime, id: o.ID, config: o.Config, users: o.Users, groups: o.Groups, listens: o.Listens, layer: o.Layer}
	for _, s := range append([]string{o.Root, o.Init}, o.Sources...) {
		fd, _, err := bindmount.OpenSource(s) // what is mounted is compared with what was judged, once it is
		if err != nil {
			return err
		}
		tree, err := clone(fd)
		if err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
		l.sources = append(l.sources, tree)
	}
	l.lower, l.init, l.sources = l.sources[0], l.sources[1], l.sources[2:]
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("separating mounts from the host's: %w", err)
	}
	if err := hideUnified(); err != nil {
		return err
	}
	if err := l.prepare(); err != nil {
		return err
	}
	passed := 1
	if l.listens {
		listener, err := listenHere()
		if err != nil {
			return err
		}
		if err := unix.Dup3(int(listener.Fd()), orderFD, 0); err != nil {
			return err
		}
		passed = 2
	} else {
		unix.CloseOnExec(orderFD)
	}
	return fmt.Errorf("starting %s: %w", l.runtime, syscall.Exec(l.runtime, l.args(passed), runtimeEnv))
}
