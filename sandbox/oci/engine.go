package oci

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"belljar/internal/lifeline"
	"belljar/internal/ownfile"
	"belljar/sandbox"
	"belljar/sandbox/internal/failure"
	"belljar/sandbox/internal/initfile"
	"belljar/sandbox/internal/proc"

	"golang.org/x/sys/unix"
)

// Config is what an Engine is made of.
type Config struct {
	// Dir is where belljar keeps its state, the same for all processes of a user. Engines
	// of other directories see neither its sessions nor what it lists as its own.
	Dir string
	// Runtime is the OCI runtime, its name or its path: crun, runc, or gVisor's runsc. "" is crun, or else runc.
	Runtime string
	// Init is the path of a program that contains package internal/boxinit and is linked
	// statically: belljar itself.
	Init string
	// Roots has the images' files.
	Roots Roots
	// OwnSessions: sessions end with this process, also if it is killed, and no other process
	// sees them, so they have names of their own.
	OwnSessions bool
	// BestEffort: a user who is not root, and may make no control groups, has containers without limits on
	// memory, processors and processes, and without evidence of them. Info says so.
	BestEffort bool
}

// Roots has the files of images. The disk store of package images is one.
type Roots interface {
	// Root is the directory of an image, by its ID. It stays as it is until held is closed, in
	// every process that inherited it.
	Root(ctx context.Context, id string) (dir string, held *os.File, err error)
	// Shifted is a copy of it, where the files of user 0 belong to user first, and so on. take chooses first, and is
	// told which ones there are copies for.
	Shifted(ctx context.Context, id string, take func(made []int) (first int, err error)) (dir string, held *os.File, err error)
}

// runtimes are those that are looked for, the best first.
var runtimes = []string{"crun", "runc"}

// Engine makes containers by an OCI runtime. It is safe for concurrent use.
type Engine struct {
	config  Config
	runtime string // its path
	dir     string // an empty directory, where containers mount theirs
	init    *os.File
	owner   proc.Owner
	filter  filter
	user    *rootless // nil for root

	life context.Context // until Close
	end  context.CancelFunc
	all  sync.WaitGroup // what waits for the ends of containers
	mu   sync.Mutex
	kept map[string]io.Closer // by the ID of a container of OwnSessions: it runs while this is open
	left sync.Map             // the names of containers that could not be removed: Sweep tries again

	watched sync.Once
	line    *lifeline.Line // the guard's, nil if it could not be started
}

// Open checks what an engine needs. Close closes it.
func Open(config Config) (*Engine, error) {
	runtime, err := findRuntime(config.Runtime)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(config.Dir, "oci")
	err = os.MkdirAll(config.Dir, 0o700)
	if err == nil {
		err = ownfile.MakeDir(dir)
	}
	if err != nil {
		return nil, engineError(err, "making the engine's directory").Hint("set XDG_STATE_HOME to a writable directory")
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, engineError(err, "looking for the engine's directory").Hint("set XDG_STATE_HOME to a writable directory")
	}
	config.Dir = filepath.Dir(dir)
	program, err := initfile.Find(config.Init)
	if err != nil {
		return nil, engineError(err, "this program cannot be the containers' init").Hint("set engine.init to a belljar that is linked statically")
	}
	init, err := os.Open(program)
	if err != nil {
		return nil, engineError(err, "opening the containers' init").Hint("set engine.init to a belljar that is linked statically")
	}
	user, err := openRootless(config)
	if err != nil {
		init.Close()
		return nil, err
	}
	e := &Engine{config: config, user: user, filter: filter{dir: config.Dir}, runtime: runtime, dir: dir, init: init, owner: proc.ThisProcess(), kept: map[string]io.Closer{}}
	e.life, e.end = context.WithCancel(context.Background())
	return e, nil
}

func findRuntime(name string) (string, error) {
	names := runtimes
	if name != "" {
		names = []string{name}
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil && filepath.IsAbs(path) {
			return path, nil
		}
	}
	if name != "" {
		return "", engineError(nil, "this host has no OCI runtime %q", name).Hint(runtimeHint(name))
	}
	return "", engineError(nil, "this host has no OCI runtime: neither %s", strings.Join(names, " nor ")).Hint(runtimeHint(names[0]))
}

// runtimeHint is what to do where a runtime that was named is not there.
func runtimeHint(name string) string {
	if slices.Contains(runtimes, name) {
		return "install it: apt-get install -y " + name
	}
	if filepath.IsAbs(name) {
		return "set engine.runtime to the path of an OCI runtime, or to crun or runc"
	}
	return "install " + name + ", or set engine.runtime to the path of an OCI runtime"
}

// Runtime is the path of the runtime.
func (e *Engine) Runtime() string { return e.runtime }

// Ping returns an error where containers cannot be made now.
func (e *Engine) Ping(context.Context) error {
	if _, err := os.Stat(e.runtime); err != nil {
		return engineError(err, "looking for the runtime").Hint(runtimeHint(cmp.Or(e.config.Runtime, filepath.Base(e.runtime))))
	}
	return nil
}

// Networks are the names of the networks that a command may use.
func (e *Engine) Networks(context.Context) ([]string, error) { return []string{"none"}, nil }

// Close ends the engine, and what only this process keeps. Containers go before it; sessions stay.
func (e *Engine) Close() error {
	for _, id := range e.keeps() {
		e.unkeep(id)
	}
	e.end()
	e.all.Wait()
	if e.line != nil {
		e.line.End()
	}
	return e.init.Close()
}

func (e *Engine) keep(id string, c io.Closer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.kept[id] = c
}

func (e *Engine) keeps() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Collect(maps.Keys(e.kept))
}

// unkeep has a container end, unless it has already.
func (e *Engine) unkeep(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c := e.kept[id]; c != nil {
		c.Close()
		delete(e.kept, id)
	}
}

// runtimeFor is the runtime of a container.
func (e *Engine) runtimeFor(spec sandbox.Spec) (string, error) {
	if spec.Runtime == "" || spec.Runtime == filepath.Base(e.runtime) || spec.Runtime == e.runtime {
		return e.runtime, nil
	}
	for _, name := range append(slices.Clone(runtimes), "runsc") {
		if spec.Runtime == name {
			if path, err := exec.LookPath(name); err == nil && filepath.IsAbs(path) {
				return path, nil
			}
		}
	}
	return "", engineError(nil, "this host has no runtime %q", spec.Runtime).As(sandbox.CauseInvalid).Hint("use crun, runc or runsc, or leave it out")
}

// clone is a detached mount of an open file or directory, without what is mounted below it.
func clone(fd int) (int, error) {
	tree, err := unix.OpenTree(fd, "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("cloning its mount: %w", err)
	}
	return tree, nil
}

// engineError begins an error.
var engineError = failure.New

// saidError is what a program said, as an error; nil if that is nothing.
func saidError(text string) error {
	if text == "" {
		return nil
	}
	return errors.New(text)
}

// joined are errors as one, on one line.
func joined(errs ...error) (err error) {
	for _, e := range errs {
		switch {
		case err == nil:
			err = e
		case e != nil:
			err = fmt.Errorf("%w; %w", err, e)
		}
	}
	return err
}
