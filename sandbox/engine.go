package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"io/fs"
	"slices"
	"time"
)

// Engine makes containers. Every Engine passes sandboxtest.TestEngine.
type Engine interface {
	// Create returns a started container in which only its keeper runs. If ctx is cancelled, or with an error, no container
	// stays behind. Where it cannot contain Spec.Root or bound Limits.Disk, it is a *Error of CauseInvalid that says what is missing.
	Create(ctx context.Context, spec Spec) (Container, error)
	// Sessions lists this user's running session containers, of one name or all, of any process.
	Sessions(ctx context.Context, name string) ([]Kept, error)
	// Adopt opens a container that Sessions listed. One that is gone is a
	// *Error of CauseEngineLost.
	Adopt(ctx context.Context, kept Kept) (Container, error)
	// Files returns an image's files, nil for those that do not exist. Links are followed within the image. Nothing of the
	// image runs. What is not a regular file, or is larger than most, is a *Error of CauseImage.
	Files(ctx context.Context, image Image, names []string, most int64) ([][]byte, error)
	// Modes are those of an image's files, or ModeIrregular; of links, with ModeSymlink.
	Modes(ctx context.Context, image Image, names []string) ([]fs.FileMode, error)
}

// Container is one container and what runs in it.
type Container interface {
	Info() ContainerInfo
	// Exec starts a process. Cancelling ctx cancels the start, not the process.
	// A user that is root, without Spec.Root, or the keeper is a *Error of CauseInvalid.
	Exec(ctx context.Context, exec Exec) (Running, error)
	// Processes lists what runs, without the keeper. It must come before Remove. With
	// an error the list may be incomplete, as when they come and go too quickly.
	Processes(ctx context.Context) ([]Process, error)
	// Counters reads what the kernel counted so far; after Remove, what it
	// counted up to the end, as far as that was read.
	Counters(ctx context.Context) (Counters, error)
	// Lost is closed once the container is known to have ended or to be stuck, or once an event about that may have been
	// missed. Remove closes it, too.
	Lost() <-chan struct{}
	// Signal sends a signal to processes as Processes listed them, and never to another process that reuses a PID.
	// Processes that are gone are no error. A signal that does not exist is a *Error of CauseInvalid.
	Signal(ctx context.Context, list []Process, signal Signal) error
	// Remove kills everything in the container and returns when it is gone.
	// A container that is already gone is no error.
	Remove(ctx context.Context) error
	// Close releases a session's container, which keeps running.
	Close() error
}

// Running is a started process.
type Running interface {
	// Exited is closed once the process itself is known to have ended. Its status may come later: background
	// processes that hold its streams delay it until they end or are killed.
	Exited() <-chan struct{}
	// HasEnded reports whether the process itself has ended, and when; zero if that is unknown.
	HasEnded(ctx context.Context) (when time.Time, yes bool)
	// Wait returns the exit status from the engine, after the streams ended or, if a background process holds them open,
	// after a bounded drain. An error is a *Error: CauseEngineLost if the status cannot be known.
	// Cancelling ctx ends the wait; Container.Remove ends the process.
	Wait(ctx context.Context) (status int, err error)
	// Cut says, once Wait returned, why output may be missing; "" if it is complete.
	Cut() string
	// Resize changes the size of the process's terminal. After its end it does nothing.
	Resize(ctx context.Context, size TerminalSize) error
}

// Exec is a process to start: `sh -c Script`, see package internal/shellargs.
type Exec struct {
	Script string
	Shell  string // "" is ShellSh
	Dir    string
	Env    []string // "NAME=value", complete
	User   User
	Stdin  io.Reader     // nil means empty
	TTY    *TerminalSize // a terminal, whose output all goes to Stdout; nil for none

	// Stdout and Stderr get every byte, each from one goroutine at a time and never both at once. A Write must come back
	// soon once the container is being removed: an engine whose stream is not read cannot kill.
	Stdout, Stderr io.Writer
}

// Spec is a container to make.
type Spec struct {
	Command  string // the ID of the command it is for, or, without one yet, a unique name
	Session  string // the session it is for: it outlives our process, up to Deadline
	Pool     string // the profile whose pool it is for
	Image    Image
	User     User // of the commands, or of a session's first; the keeper runs as a user of its own
	Root     bool // commands may be RootUser, which is contained: it has no rights outside, whatever it does
	Workdir  string
	Mounts   []Mount // sources resolved and allowed
	Tmpfs    []string
	Limits   Limits
	Network  string
	Runtime  string
	Deadline time.Time // after this, any belljar may remove it

	Workspace string        // of a session: the directory that its files are in
	Idle      time.Duration // of a session: how long it stays without a command
}

// Print is a fingerprint of a container's properties, without the command, session or pool that it is for. It has the
// image's name: a session keeps the image that it began with.
func (s Spec) Print() string {
	as := []any{s.Image.Reference, s.User.Unnamed(), s.Network, s.Runtime, s.Limits.OfContainer(), slices.Concat([]Mount{}, s.Mounts)}
	if len(s.Tmpfs) > 0 { // without any the hash must not change: sessions outlive a belljar
		as = append(as, s.Tmpfs)
	}
	if s.Root {
		as = append(as, s.Root)
	}
	text, _ := json.Marshal(as)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Kept is a session's container.
type Kept struct {
	Session           string
	ID                string
	Image, ImageID    string
	Print             string // Spec.Print of what it was made as
	User              User   // of its first command
	Created, Deadline time.Time
	Workspace         string        // as in its Spec; "" where the engine does not keep that
	Idle              time.Duration // as in its Spec; 0 where the engine does not keep that
}

// Counters is what a container used, and which limits it reached, since it was made.
type Counters struct {
	Evidence
	Resources
	IOBytes int64 // read and written, on disks and networks; 0 is unknown
	OOMPeak int64 // MaxMemoryBytes as it was read with the last of OOMKills; 0 is unknown
	Stopped bool  // something ended the container, and neither belljar nor the kernel, out of memory, did
}

// Images finds images.
type Images interface {
	// Resolve pins a reference, fetching or building the image as the policy
	// says. An error is a *Error of CauseImage that says how to get the image.
	Resolve(ctx context.Context, reference string, pull PullPolicy) (Image, error)
	// Watch calls changed when it begins to watch images, with each change, and,
	// with false, when it cannot watch any more, until ctx is cancelled. The
	// meaning of a reference that was resolved since does not change until the
	// next call.
	Watch(ctx context.Context, changed func(watching bool))
}

// Image is a pinned image.
type Image struct {
	Reference string   // as requested
	ID        string   // what containers are made from: "sha256:…"
	Digest    string   // the registry's digest, or ID for an image that has none
	EnvNames  []string // variables its configuration sets, to be unset
	Volumes   []string // volumes it declares, to be masked
}
