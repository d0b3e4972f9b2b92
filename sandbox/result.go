package sandbox

import (
	"io/fs"
	"time"
)

// Fail fills r for a command that could not run, or whose end is unknown.
func (r *Result) Fail(err error) {
	r.Cause, r.Message, r.ExitCode, r.Error = CauseOf(err), err.Error(), ExitNeverRan, nil
	switch r.Cause {
	case CauseDenied:
		r.Status, r.Error = StatusDenied, ErrorOf(err)
		r.Policy, r.Error.Judgment = r.Error.Judgment, nil
	case CauseCanceled:
		r.Status = StatusCanceled
	default:
		r.Status, r.Error = StatusFatal, ErrorOf(err)
	}
}

// Status is a result's summary in one word.
type Status string

// The statuses. The empty status is invalid.
const (
	StatusSuccess  Status = "success"  // exited with 0
	StatusError    Status = "error"    // failed, or ended by a limit other than time
	StatusTimeout  Status = "timeout"  // ended by the wall or the idle timeout
	StatusCanceled Status = "canceled" // ended because the caller asked
	StatusDenied   Status = "denied"   // refused by policy, never ran
	StatusFatal    Status = "fatal"    // belljar or the engine failed, or the request was unusable
)

// Cause says why a command ended.
type Cause string

// The causes. The empty cause is invalid.
const (
	CauseExited      Cause = "exited"
	CauseSignaled    Cause = "signaled"     // exit status 128+n: by convention, ended by signal n
	CauseWallTimeout Cause = "wall_timeout" // Command.Timeout passed
	CauseIdleTimeout Cause = "idle_timeout" // Command.IdleTimeout passed without output
	CauseOutputLimit Cause = "output_limit" // Limits.Output passed, with OutputEnd
	CauseOOMKilled   Cause = "oom_killed"   // exit status 137, and the kernel killed because memory ran out
	CausePidsLimit   Cause = "pids_limit"   // failed, and forks were refused at Limits.Pids
	CauseDiskFull    Cause = "disk_full"    // failed, and a writable directory was full at the end
	CauseCanceled    Cause = "canceled"
	CauseDenied      Cause = "denied"
	CauseInvalid     Cause = "invalid_command" // unusable as asked: empty, too long, a bad mount, …
	CauseImage       Cause = "image_error"
	CauseBusy        Cause = "busy"         // too many commands run and wait: see Error.RetryAfter
	CauseEngine      Cause = "engine_error" // the engine refused or failed
	CauseEngineLost  Cause = "engine_lost"  // the engine or the container went away: the exit status is unknown
)

// Exit codes of commands that did not exit by themselves.
const (
	ExitEnded    = -1 // ended by a limit or by the caller
	ExitNeverRan = -2
)

// Result is the outcome of one command. Its JSON form is in json.go.
type Result struct {
	ID          string
	Command     string
	Dir         string
	Shell       string // that ran it: ShellSh or ShellBash
	Description string
	Profile     string
	Session     string
	User        User   // with its numbers; zero if unknown
	Method      string // "pty" with Command.TTY, otherwise "pipe"; "" if it was refused

	Status   Status
	Cause    Cause
	Message  string    // one line for a person, with the limit or the next step; "" on a plain exit
	ExitCode int       // the command's own, ExitEnded or ExitNeverRan
	Signal   string    // "SIGKILL", with CauseSignaled and CauseOOMKilled
	Error    *Error    // with StatusFatal and StatusDenied: Message in parts
	Policy   *Judgment // nil where none was made

	// SessionLost says why the session's container is gone, with its files and
	// processes. It is in the result of the command that lost it, and of the
	// next command, which has a new container.
	SessionLost string

	Stdout, Stderr Output
	Streams        Streams // StreamsView and StreamsNone: Stdout and Stderr have no Head and Tail; "" is StreamsFull
	Views          *Views  // nil if none was requested, or Summary replaces them
	Screen         *Shot   // with a terminal
	Summary        string  // by Profile.Summarize, of a long output

	Files []CollectedFile // that Command.Collect names, by path; see Evidence.CollectError, too

	// Masked is how many times a secret was masked, in output, process lists and messages.
	// Everything in the result, also lengths and hashes, is about the masked output.
	Masked int

	Lingering []Process // what still ran when the command ended, without the keeper and init; in a session, of all its commands
	Evidence  Evidence
	Resources Resources
	Timing    Timing
	Container ContainerInfo
}

// Output is one stream in a result: Head, then Dropped bytes that are not there, then
// Tail. Without Head and Tail, by Result.Streams, Dropped is what was not kept at all.
type Output struct {
	Head, Tail []byte
	Dropped    int64
	Encoding   string // "utf-8-replaced": in Head and Tail U+FFFD stands for invalid bytes; "utf-8": they are text, with NULs; "": they are as written
	Total      int64  // bytes the command wrote
	Lines      int64  // line ends that it wrote
	SHA256     string // of all output, in hex
}

// CollectedFile is a file as the command left it. Its container, which is not trusted, says so.
type CollectedFile struct {
	Path      string      `json:"path"` // relative to the workdir
	Mode      fs.FileMode `json:"-"`    // permissions
	Size      int64       `json:"size"`
	Truncated bool        `json:"truncated,omitempty"` // Content is its beginning: all have Limits.Result together
	Error     string      `json:"error,omitempty"`     // why it was not read: it is a link, for example
	Content   []byte      `json:"-"`
}

// Bytes is what was kept, without the gap's mark.
func (o Output) Bytes() []byte {
	return append(o.Head[:len(o.Head):len(o.Head)], o.Tail...)
}

// Process is one process of a container.
type Process struct {
	PID            int    `json:"pid"`                // inside the container; 0 if only the host's is known
	PPID           int    `json:"ppid"`               // inside the container; 0 is outside it
	PGID           int    `json:"pgid"`               // inside the container
	SID            int    `json:"-"`                  // inside the container; 0 if only the host's is known
	StartTicks     int64  `json:"-"`                  // when it started; with PID it names one process
	HostPID        int    `json:"host_pid,omitempty"` // on the engine's host, if it is known for certain
	UID            int    `json:"uid"`                // inside the container
	User           string `json:"user"`               // the name of that number on the engine's host, or on belljar's
	State          string `json:"state"`              // as ps(1): R, S, D, T, Z
	ElapsedSeconds int64  `json:"elapsed_seconds"`
	RSSBytes       int64  `json:"rss_bytes"`
	Command        string `json:"command"`
	CommandID      string `json:"command_id,omitempty"` // the command that started it, if known
}

// Evidence is what the kernel and the engine counted. Counts without a source are 0;
// Source lists the sources.
type Evidence struct {
	OOMKills      int       `json:"oom_kills"`               // processes that the kernel killed because memory ran out
	PidsLimitHits int       `json:"pids_limit_hits"`         // forks refused
	DiskFull      []string  `json:"disk_full,omitempty"`     // writable directories without free space or inodes at the end
	KilledBy      string    `json:"killed_by,omitempty"`     // "belljar", "oom" or "outside"
	StoppedBy     Signal    `json:"stopped_by,omitempty"`    // if belljar ended it: "SIGTERM", or "SIGKILL" where that was not enough
	Source        string    `json:"source,omitempty"`        // "cgroup", "events" or "cgroup,events"
	Killed        []Process `json:"killed,omitempty"`        // in a session that continues: the command's processes that belljar ended
	OutputError   string    `json:"output_error,omitempty"`  // why output may be missing
	ListError     string    `json:"list_error,omitempty"`    // why Lingering is unknown
	CollectError  string    `json:"collect_error,omitempty"` // why Result.Files may be incomplete
	RemoveError   string    `json:"remove_error,omitempty"`  // why the container may still exist
}

// Resources is what the container used, with its keeper. Zero is unknown.
type Resources struct {
	CPUSeconds     float64 `json:"cpu_seconds"`
	MaxMemoryBytes int64   `json:"max_memory_bytes"`
}

// Timing is measured from the moment the runner took the command, except for
// FirstOutput, which counts from the command's start and is 0 without output.
type Timing struct {
	Queued      time.Duration // until a free slot and the image were found
	Start       time.Duration // taking or making the container and starting the command
	FirstOutput time.Duration
	Total       time.Duration // until the result was known and the container gone; a pool's container is removed later
}

// The ways in which a container's commands are started.
const (
	WayInit = "init" // by belljar's own init
	WayExec = "exec" // by the engine, which shows what they are given to all who ask
)

// ContainerInfo says where a command ran.
type ContainerInfo struct {
	ID          string `json:"id"`
	Image       string `json:"image"`
	ImageDigest string `json:"image_digest"`
	Engine      string `json:"engine"` // "docker", "oci" or "kubernetes"
	Way         string `json:"way"`    // WayInit or WayExec; it does not change
	Runtime     string `json:"runtime"`
	Root        string `json:"root,omitempty"`   // how commands that are root are contained: "userns" or "gvisor"; "" if none may be
	Limits      string `json:"limits,omitempty"` // "best-effort": none on memory, CPUs and pids, and no evidence of them; "no-pids": none on pids; "" if all are enforced
	Warm        bool   `json:"warm"`             // taken from the pool
	Reused      bool   `json:"reused"`           // a session's, and used before
}
