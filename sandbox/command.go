package sandbox

import (
	"io"
	"io/fs"
	"time"
)

// Admission bounds how many commands run, and how many wait. A zero field means that of Defaults: nothing is unlimited.
type Admission struct {
	MaxRunning int
	MaxQueued  int // in sessions' queues, too; NoQueue for none
	MaxWait    time.Duration
}

// Command is a request: a script and its settings. Zero fields mean those of the
// profile; an unset field never means unlimited. Its JSON form has everything but
// Stdin and Resize, which stream while it runs.
type Command struct {
	ID     string // names the command in events, labels and results; chosen when empty
	Script string // passed to `sh -c` unchanged; at most MaxScript bytes, without NUL
	Shell  string // what runs it instead of sh: see ShellBash

	Dir string // absolute, or relative to the profile's working directory, which it must not leave

	// Description says what the command is for, in the caller's words and at
	// most MaxDescription bytes. It is shown in approvals and recorded in the
	// audit log.
	Description string
	Caller      Caller

	// Env holds "NAME=value", or "NAME", which is taken from Inherit and refused unless the profile's policy allows it.
	Env []string
	// Inherit is the caller's environment. Only what the profile's policy allows reaches the command.
	Inherit []string

	// Stdin is read until it or the command ends; nil is empty. A Read that
	// blocks past the command's end is abandoned, unless Stdin has a
	// SetReadDeadline.
	Stdin io.Reader `json:"-"`

	// Files are written before it starts. Collect are patterns of files that are read into
	// the result once it ended, unless it is canceled: relative to the workdir, as path.Match
	// has them for each element, and "**" for any elements.
	Files   []File
	Collect []string

	// Session names a container that is kept for further commands. It is made
	// for the first, and all have the same image, limits and mounts. The first's
	// user owns /work and what Tmpfs names; all may write to /tmp.
	Session  string
	Parallel bool // run at the same time as the session's other parallel commands
	Existing bool // refused unless the session exists when its turn comes

	Profile string // "" is DefaultProfile
	Image   string // a reference, such as "belljar/base"
	Pull    PullPolicy
	User    User
	Mounts  []Mount
	Tmpfs   []string // more directories in memory, of Limits.Tmp each; nil is the profile's
	Network string   // "none", or a network of the engine; never "host"
	Runtime string   // an OCI runtime the engine knows, such as "runsc"
	Limits  Limits

	Timeout       time.Duration // limits the whole command; from MinTimeout to the profile's MaxTimeout
	IdleTimeout   time.Duration // limits the time without activity, from 50ms; NoIdleTimeout turns it off
	Idle          Idle          // in addition to the profile's
	OnOutputLimit OutputAction
	OnTimeout     TimeoutAction // in a session
	StopGrace     time.Duration // from SIGTERM to SIGKILL where it is ended, up to MaxStopGrace; NoStopGrace is none
	Rules         Rules

	// TTY gives the command a terminal, whose output is all stdout; nil means none. Resize delivers new sizes of the terminal until the command ends.
	TTY    *TerminalSize
	Resize <-chan TerminalSize `json:"-"`

	View     View
	Live     LiveMode
	Streams  Streams
	Encoding Encoding
}

// File is a file that a command finds. It belongs to the command's user, and replaces a file, but nothing else.
type File struct {
	Path    string // relative to the workdir, or absolute below it, /tmp or a directory of Tmpfs; without ".."
	Content []byte
	Mode    fs.FileMode // permissions; 0 is 0644
}

// Caller says who requested a command, for the audit log.
type Caller struct {
	FrontEnd string `json:"front_end"`       // "cli", "http" or "mcp"
	Token    string `json:"token,omitempty"` // the name of the token, not the token
	User     string `json:"user,omitempty"`  // the account, if known
}

// LiveMode says how events show output while the command runs.
type LiveMode string

// The live modes. The empty mode is LiveRaw.
const (
	LiveRaw  LiveMode = "raw"  // each chunk, as it comes
	LiveView LiveMode = "view" // the end of the output, or the screen, from time to time: see EventView, EventScreen
)

// Streams says what of stdout and stderr is in the result. The empty value is the
// profile's; if that is empty, too, StreamsView for a command with a view.
type Streams string

// What is in the result.
const (
	StreamsFull Streams = "full" // both, within Limits.Result
	StreamsView Streams = "view" // only their views
	StreamsNone Streams = "none" // neither
)

// Encoding says what invalid UTF-8 becomes in events and in the result's streams.
type Encoding string

// The encodings. The empty encoding is the profile's.
const (
	EncodingExact   Encoding = "exact"   // it stays: base64 in JSON
	EncodingReplace Encoding = "replace" // U+FFFD, one for each maximal part of a character
)

// The names and bounds of commands.
const (
	// DefaultProfile is the profile of a command that names none.
	DefaultProfile = "default"
	// ShellAuto is bash if the image has it, else sh.
	ShellAuto = "auto"
	ShellBash = "bash"
	ShellSh   = "sh"
	// MaxArgument is the longest argument or variable, in bytes: Linux takes none
	// of 32 pages or more with its closing NUL (MAX_ARG_STRLEN, execve(2)).
	MaxArgument = 32*4096 - 1
	// MaxScript is the longest script, in bytes, less what the environment takes.
	// The kernel gives arguments and environment together 2 MiB, a quarter of an
	// 8 MiB stack (execve(2)); the rest is for what the engine adds.
	MaxScript = 2<<20 - 64<<10
	// MaxDescription is the longest description, in bytes.
	MaxDescription = 1000
	// MaxEnviron bounds a command's environment as a whole, in bytes.
	MaxEnviron = 1 << 20
	// MinTimeout is the shortest timeout.
	MinTimeout = time.Second
	// NoIdleTimeout is the idle timeout that never passes.
	NoIdleTimeout = time.Duration(-1)
	// NoStopGrace is SIGKILL at once.
	NoStopGrace = time.Duration(-1)
	// MaxStopGrace is the longest time from SIGTERM to SIGKILL.
	MaxStopGrace = time.Minute
	// NoQueue is the Admission.MaxQueued with which no command waits for others.
	NoQueue = -1
	// NoPool is the PoolSize.Max that turns a pool off.
	NoPool = -1
)

// Mount shows a directory or file of the engine's host, or a volume, to a command.
type Mount struct {
	Source   string // on the engine's host, absolute; or a volume's name: on Kubernetes, of a PersistentVolumeClaim of the engine's namespace
	Target   string // in the container, absolute
	Writable bool

	// Steady: no command may write to the directories above Source, and so none can swap it while it is mounted. Prepare sets it.
	Steady bool `json:"-"`
}

// PullPolicy says when an image is pulled from its registry.
type PullPolicy string

// The pull policies, as docker names them. The empty policy is the profile's.
const (
	PullAlways  PullPolicy = "always"
	PullMissing PullPolicy = "missing"
	PullNever   PullPolicy = "never"
)

// OutputAction says what happens when a command's output passes its limit.
type OutputAction string

// The output actions. The empty action is the profile's.
const (
	OutputTruncate OutputAction = "truncate" // keep the first and the last part, count the rest
	OutputEnd      OutputAction = "end"      // end the command with CauseOutputLimit
)

// TimeoutAction says what ends in a session if a command reaches a timeout or its output limit, or is canceled.
type TimeoutAction string

// The timeout actions. The empty action is the profile's.
const (
	EndContainer TimeoutAction = "container" // everything, and the session is lost
	EndCommand   TimeoutAction = "command"   // the command's own processes
)

// PoolSize is how many containers are kept warm. If Max is 0, Min and Max are those of Defaults; NoPool turns the pool off.
type PoolSize struct {
	Min, Max int           // how many are ready, normally and at most, if many commands come
	MaxAge   time.Duration // an older one is replaced; 0 means that of Defaults
}

// SessionLife bounds a session.
type SessionLife struct {
	Idle time.Duration // without a command
	Max  time.Duration // in all
}

// Profile is the defaults and bounds of a kind of command. A zero field means that of Defaults: never unlimited, never root.
type Profile struct {
	Image         string
	Pull          PullPolicy
	Timeout       time.Duration
	IdleTimeout   time.Duration // NoIdleTimeout: none
	Idle          Idle
	MaxTimeout    time.Duration
	Workdir       string
	Shell         string
	Tmpfs         []string // directories in memory, in addition to /tmp and /work
	Mounts        []Mount  // of every command, before its own
	User          User
	Env           []string // "NAME=value", set for every command; empty, not nil, is none
	Secrets       []Secret // that rules can grant, with different names
	Limits        Limits
	Network       string
	Runtime       string // "" is the engine's default
	OnOutputLimit OutputAction
	OnTimeout     TimeoutAction
	StopGrace     time.Duration // 0: 2s in a session with EndCommand, else NoStopGrace
	Pool          PoolSize
	Session       SessionLife
	View          View
	Streams       Streams
	Encoding      Encoding
	LiveEvery     time.Duration // between two live views
	Summarize     Summarize
	AskTimeout    time.Duration // for a person to answer
	Policy        Policy        // nil allows no variables and no mounts, and judges no scripts
}

// Summarize is a program on belljar's host that reads long output on stdin and prints a summary on stdout. The zero Summarize means none.
type Summarize struct {
	Command []string // the program, by its absolute path or from PATH, and its arguments
	Over    int64    // bytes: longer output is summarized
	Replace bool     // with StreamsView, the summary replaces the views in the result
	Timeout time.Duration
}

// Spooling limits the output that is kept on disk.
type Spooling struct {
	Total   int64         // bytes of all commands together: the oldest output is removed first
	Age     time.Duration // after a command's end; 0 keeps nothing after it
	OnError SpoolAction
}

// SpoolAction says what happens to a command whose output cannot be stored, as on a full disk.
type SpoolAction string

// The spool actions. The empty action is SpoolContinue.
const (
	SpoolContinue SpoolAction = "continue" // it continues, and the result says what was lost
	SpoolEnd      SpoolAction = "end"      // it is ended with CauseOutputLimit
)

// Policy decides what a command gets from its caller and its host. It is pure: the same question always has the same answer.
type Policy interface {
	// AllowEnv says whether the caller's variable of that name may pass.
	AllowEnv(name string) bool
	// Steers says whether a variable, as NAME or NAME=value, can decide which code runs or which
	// servers it talks to. A caller who sets it can influence who gets a secret.
	Steers(setting string) bool
	// CheckMount refuses a mount with a *Error of CauseDenied that names the rule. A source on the host is resolved: absolute, and free of links.
	CheckMount(m Mount) error
	// Writable says whether a mount could let commands write to that directory of the host.
	Writable(dir string) bool
	// JudgeScript decides about a script that a shell runs in dir, and says why.
	JudgeScript(script, dir, shell string) Verdict
	// Hash identifies the policy: different policies have different hashes.
	Hash() string
}
