// Package run is the files of one evaluation, in its directory: run.json says what ran,
// and each line of results.jsonl how one trial ended. The harness writes them; reports
// and receipts read nothing else.
//
// The one rule: only the verdict [Passed] is a pass. A trial without a line has not
// ended, and one of side [Infrastructure] says nothing about the solution: it is not
// in the denominator of a score.
//
//	r, err := run.Open(dir)
//	results, err := r.Results()
package run

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"belljar/sandbox"
)

// The names in a run's directory.
const (
	RunFile     = "run.json"
	ResultsFile = "results.jsonl"
	Logs        = "logs"      // TASK/TRIAL/PHASE.stdout and .stderr
	Artifacts   = "artifacts" // TASK/TRIAL.tar: what was graded
)

// Version is that of the files that this package writes.
const Version = 1

// Run is what ran, as run.json has it. It does not change once it is written.
type Run struct {
	Version int       `json:"version"`
	ID      string    `json:"id"`
	Started time.Time `json:"started"`
	Belljar string    `json:"belljar"` // its version
	Suite   Suite     `json:"suite"`
	Agent   Agent     `json:"agent"`
	Trials  int       `json:"trials"` // of each task
	Config  string    `json:"config"` // the SHA-256, in hex, of the settings that commands ran with
	Options Options   `json:"options"`
	Tasks   []Task    `json:"tasks"`
	Notices []string  `json:"notices,omitempty"` // what its operator was told
}

// Suite is where the tasks come from.
type Suite struct {
	Paths  []string `json:"paths"`
	SHA256 string   `json:"sha256"` // of all tasks that the run has: see Digest
	All    string   `json:"all"`    // the same of all its shards together
}

// Digest is the digest of a list of tasks, by their names and digests.
func Digest(tasks []Task) string {
	sum := sha256.New()
	for _, t := range tasks {
		fmt.Fprintf(sum, "%q %s\n", t.ID, t.SHA256)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// AgentKind is who solves the tasks.
type AgentKind string

// The kinds of agents.
const (
	Oracle    AgentKind = "oracle"    // the task's own solution
	Nop       AgentKind = "nop"       // no one: no task may pass
	Program   AgentKind = "command"   // a program of the operator's, on belljar's host
	Solutions AgentKind = "solutions" // answers made elsewhere
	Regrade   AgentKind = "regrade"   // no one: the artifacts of an earlier run are graded again
)

// Agent is who solved the tasks.
type Agent struct {
	Kind    AgentKind `json:"kind"`
	Command []string  `json:"command,omitempty"` // of a Program
	Dir     string    `json:"dir,omitempty"`     // where a Program starts
	Path    string    `json:"path,omitempty"`    // of Solutions; with Regrade, the run's directory
	SHA256  string    `json:"sha256,omitempty"`  // of Solutions; with Regrade, of its results.jsonl
}

// Options are those of the harness that decide what a trial's verdict means.
type Options struct {
	Controls     bool   `json:"controls"`
	AllowShared  bool   `json:"allow_shared"`
	AllowNetwork bool   `json:"allow_network,omitempty"`
	AllowBuild   bool   `json:"allow_build,omitempty"`
	Root         bool   `json:"root,omitempty"`   // all tasks have a root user and a writable root
	Retries      int    `json:"retries"`          // of trials that the infrastructure failed
	Filter       string `json:"filter,omitempty"` // the tasks' names match it
	Shard        string `json:"shard,omitempty"`  // such as "2/5"
}

// Task is one task of a run.
type Task struct {
	ID      string   `json:"id"`
	Source  string   `json:"source"` // the folder, or the file and its line
	SHA256  string   `json:"sha256"` // of all that the task consists of
	Image   string   `json:"image"`  // of the agent, and of the subject where the verifier has none
	Digest  string   `json:"image_digest,omitempty"`
	Images  []Image  `json:"verifier_images,omitempty"` // of verifiers that have others, also of steps
	Grading Grading  `json:"grading"`
	Sealed  bool     `json:"sealed"`
	Notices []string `json:"notices,omitempty"` // what the harness decided for a task that does not say it
	Files   []File   `json:"files,omitempty"`   // what it brings into containers, to name what was changed
}

// Image is an image, and what its name meant when the run began.
type Image struct {
	Name   string `json:"name"`
	Digest string `json:"digest,omitempty"`
}

// File is a file of a task.
type File struct {
	Path   string `json:"path"` // in the container; that of a control of the task's own begins with its name
	SHA256 string `json:"sha256"`
}

// Grading is how a task's artifacts are graded.
type Grading string

// The ways of grading.
const (
	ByExpect Grading = "expect" // output is compared outside of any container
	ByCheck  Grading = "check"  // a script's exit status
	ByReward Grading = "reward" // tests/test.sh writes a reward
)

// DefaultReward is the name of a reward that is a number only.
const DefaultReward = "reward"

// Verdict is how a trial ended.
type Verdict string

// The verdicts. The empty verdict is invalid.
const (
	Passed   Verdict = "passed"
	Failed   Verdict = "failed"
	Tampered Verdict = "tampered" // a control passed, or the reward was forged
	Timeout  Verdict = "timeout"
	OOM      Verdict = "oom"
	Skipped  Verdict = "skipped" // it did not run, as after --fail-fast
	Error    Verdict = "error"   // see Side
)

// Side is whose doing a verdict is. It is "" where the trial passed or was skipped.
type Side string

// The sides.
const (
	BySolution     Side = "agent"          // the agent's, or what it made
	ByTask         Side = "task"           // the task's image, tests or verifier
	Infrastructure Side = "infrastructure" // ours, the engine's or the host's: never the solution's failure
)

// Result is one line of results.jsonl: how a trial ended. Of several lines about one trial the
// last counts.
type Result struct {
	Task      string             `json:"task"`
	Trial     int                `json:"trial"` // from 1
	Attempt   int                `json:"attempt"`
	Verdict   Verdict            `json:"verdict"`
	Side      Side               `json:"side,omitempty"`
	Phase     PhaseName          `json:"phase,omitempty"` // that decided
	Cause     sandbox.Cause      `json:"cause,omitempty"` // of that phase's end
	Message   string             `json:"message,omitempty"`
	Reward    *float64           `json:"reward,omitempty"`
	Rewards   map[string]float64 `json:"rewards,omitempty"` // of reward.json
	Sealed    bool               `json:"sealed"`
	Started   time.Time          `json:"started"`
	Millis    float64            `json:"duration_ms"`
	Steps     []Step             `json:"steps,omitempty"` // of a task with several, those that ran
	Phases    []Phase            `json:"phases"`
	Controls  []Control          `json:"controls,omitempty"`
	Artifacts []Artifact         `json:"artifacts"`
	Refused   []string           `json:"refused,omitempty"` // what was not taken out of the agent's container, and why
	Lingering []sandbox.Process  `json:"lingering"`         // what the agent left running
	Notices   []string           `json:"notices,omitempty"`
}

// Step is how a step of a task ended.
type Step struct {
	Name    string             `json:"name"`
	Verdict Verdict            `json:"verdict"`
	Message string             `json:"message,omitempty"`
	Reward  *float64           `json:"reward,omitempty"`
	Rewards map[string]float64 `json:"rewards,omitempty"`
	Millis  float64            `json:"duration_ms"`
}

// PhaseName says what a phase does.
type PhaseName string

// The phases of a trial.
const (
	Setup   PhaseName = "setup"   // the agent's container is made ready
	Work    PhaseName = "agent"   // the agent works
	Collect PhaseName = "collect" // its artifacts are taken out
	Verify  PhaseName = "verify"  // they are graded
	Check   PhaseName = "control" // they are graded against tests that must fail
)

// Phase is one command of a trial in a container, or a program on the host.
type Phase struct {
	Name      PhaseName         `json:"name"`
	Step      string            `json:"step,omitempty"`   // of a task with several
	Detail    string            `json:"detail,omitempty"` // such as a control's name, or which case
	Status    sandbox.Status    `json:"status"`
	Cause     sandbox.Cause     `json:"cause"`
	ExitCode  int               `json:"exit_code"`
	Signal    string            `json:"signal,omitempty"`
	Message   string            `json:"message,omitempty"`
	Millis    float64           `json:"duration_ms"`
	Evidence  sandbox.Evidence  `json:"evidence"`
	Resources sandbox.Resources `json:"resources"`
	Lingering int               `json:"lingering"` // processes left when it ended
	Container string            `json:"container,omitempty"`
	Image     string            `json:"image_digest,omitempty"`
	Stdout    Output            `json:"stdout"`
	Stderr    Output            `json:"stderr"`
}

// Output is what a phase wrote to one stream. All of it that was kept is in the logs.
type Output struct {
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256,omitempty"` // of the log
	Tail   string `json:"tail,omitempty"`   // its end, as UTF-8; hostile: show it as text only
	Log    string `json:"log,omitempty"`    // below the run's directory
}

// Control is a grading that must fail.
type Control struct {
	Name    string `json:"name"`
	Step    string `json:"step,omitempty"`    // of a task with several
	Passed  bool   `json:"passed"`            // then the verdict is Tampered, or the task is broken
	Skipped string `json:"skipped,omitempty"` // why it did not run
	Message string `json:"message,omitempty"` // what was seen
}

// Artifact is a file that was graded.
type Artifact struct {
	Path   string `json:"path"` // in the container, absolute
	Size   int64  `json:"size"`
	Mode   string `json:"mode"` // octal permissions
	SHA256 string `json:"sha256"`
}

// Key names a trial.
type Key struct {
	Task  string
	Trial int
}

// Key is the result's trial.
func (r Result) Key() Key { return Key{r.Task, r.Trial} }

// Counts reports whether the trial says something about the solution: whether it is in the
// denominator of a score.
func (r Result) Counts() bool {
	return r.Verdict != Skipped && (r.Verdict != Error || r.Side == BySolution)
}

// Final reports whether the trial is not run again when the run is resumed.
func (r Result) Final() bool {
	return r.Verdict != Skipped && (r.Verdict != Error || r.Side == BySolution || r.Side == ByTask)
}

// MarshalJSON writes empty lists as such.
func (r Result) MarshalJSON() ([]byte, error) {
	type plain Result
	r.Phases = append([]Phase{}, r.Phases...)
	r.Artifacts = append([]Artifact{}, r.Artifacts...)
	r.Lingering = append([]sandbox.Process{}, r.Lingering...)
	return json.Marshal(plain(r))
}
