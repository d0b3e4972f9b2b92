// Package suite reads tasks to be evaluated, and the answers to them: lines of JSON, and
// task folders.
//
// The one rule: what a task asks for and belljar does not do is refused by name when
// the suite is read, before anything runs. Nothing is ignored without a notice.
//
//	tasks, err := suite.Load([]string{"tasks.jsonl"}, suite.Allow{})
package suite

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"belljar/eval/run"
	"belljar/internal/target"
	"belljar/sandbox"
)

// Bounds of a suite.
const (
	MaxTasks   = 100_000
	MaxID      = 200      // bytes of the name of a task, or of a step
	MaxFiles   = 1000     // of one task, or one answer
	MaxContent = 16 << 20 // bytes of them
	MaxName    = 1000     // bytes of a path
	MaxNames   = 1 << 20  // bytes of all paths of a list
	maxLine    = 32 << 20
)

// Task is one task.
type Task struct {
	ID          string
	Source      string // the folder, or the file and its line
	SHA256      string // of all that it consists of
	Instruction string
	Image       string
	Workdir     string         // where the agent works and its answer is
	Seed        bool           // what the image has in Workdir is there, too
	Env         []string       // of every container of the task
	Files       []sandbox.File // that it begins with; absolute
	Setup       string         // a script that makes a container ready, for the agent and for grading
	Answer      string         // the file that an answer of plain text is written to; absolute
	Artifacts   []Artifact     // that are graded
	Solution    Solution
	Around
	Root    bool // its containers have a root user and a writable root
	Agent   Bounds
	Grader  Grader
	Steps   Steps // of a task that has several; its own solution and grader are then none
	Notices []string
}

// Around is what is done before and after the agent works.
type Around struct {
	Builds  []Build // images, before the run begins
	Ready   string  // a script for the agent's container alone, after Setup
	Collect []Hook  // that run in it once the agent ended
}

// Sealed reports whether no step of the task is graded in the agent's container.
func (t *Task) Sealed() bool {
	for i := range t.Steps.List {
		if !t.Steps.List[i].Task.Sealed() {
			return false
		}
	}
	return !t.Grader.Shared
}

// Hook is a command in the agent's container, after the agent.
type Hook struct {
	Command string
	Timeout time.Duration
}

// Allow is what tasks may ask for, and who runs them must have allowed.
type Allow struct {
	Shared  bool // to be graded in the agent's container
	Network bool // a network
	Build   bool // that the engine builds their images, without belljar's lock-down
	Root    bool // nothing: all have a root user and a writable root
}

// Artifact is a file or a directory that is taken out of the agent's container.
type Artifact struct {
	Path    string   // absolute
	Exclude []string // names of files and directories in it that stay, as path.Match has them
}

// Solution is the task's own. Without any, no oracle can solve it.
type Solution struct {
	Files  []sandbox.File // the answer itself
	Script string         // or what makes it, in the agent's container
	With   []sandbox.File // next to the script, below /solution
	Env    []string
}

// Exists reports whether there is one.
func (s Solution) Exists() bool { return s.Script != "" || len(s.Files) > 0 }

// Bounds are limits of one container. A zero bound is the profile's.
type Bounds struct {
	Timeout time.Duration
	Memory  int64
	CPUs    float64
	Disk    int64 // bytes of each writable directory, and of a writable root
	Network bool  // a public network
}

// Limits are those of a command.
func (b Bounds) Limits() sandbox.Limits {
	return sandbox.Limits{Memory: b.Memory, CPUs: b.CPUs, Tmp: b.Disk}
}

// Grader is how the artifacts are graded.
type Grader struct {
	By       run.Grading
	Image    string
	Workdir  string         // where the script runs; "" is the task's
	Shared   bool           // it grades in the agent's container, and can be fooled there
	Command  string         // by expect: the program under test
	Cases    []Case         // by expect
	Exact    bool           // by expect: white space at the ends of lines counts
	Script   string         // by check and by reward: what grades
	Shell    string         // that runs it
	Tests    []sandbox.File // by check and by reward, below /tests
	Controls []Control      // the task's own
	Env      []string
	Bounds
}

// Case is what a program reads, and must write.
type Case struct{ Stdin, Stdout string }

// Control is a variant of the tests that no solution can satisfy.
type Control struct {
	Name  string
	Tests []sandbox.File // in place of those with the same paths
}

// Where a task's parts are in containers.
const (
	TestsDir    = "/tests"
	SolutionDir = "/solution"
	RewardDir   = "/logs/verifier"
	LogsDir     = "/logs/artifacts"
)

// Load reads tasks from files of JSON lines, task folders, and folders of them. The error
// names everything that is wrong.
func Load(paths []string, allow Allow) ([]Task, error) {
	var all []Task
	var errs []error
	for _, p := range paths {
		tasks, err := load(p, allow)
		all, errs = append(all, tasks...), append(errs, err)
	}
	seen := map[string]string{}
	for _, t := range all {
		if first, again := seen[t.ID]; again {
			errs = append(errs, sandbox.Invalid("give each its own", "tasks %s and %s have the same id %q", first, t.Source, t.ID))
		}
		seen[t.ID] = t.Source
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, sandbox.Invalid("name a file of JSON lines or a task folder", "there is no task in %s", strings.Join(paths, ", "))
	}
	if len(all) > MaxTasks {
		return nil, sandbox.Invalid("split it", "the suite has %d tasks, over the limit of %d", len(all), MaxTasks)
	}
	return all, nil
}

func load(name string, allow Allow) ([]Task, error) {
	about, err := os.Stat(name)
	if err != nil {
		return nil, &sandbox.Error{Cause: sandbox.CauseInvalid, Message: "opening a suite", Err: err, Hint: "name a file of JSON lines or a task folder"}
	}
	switch {
	case about.Mode().IsRegular() && filepath.Ext(name) == ".jsonl":
		return loadLines(name)
	case about.IsDir():
		return loadFolders(name, allow)
	}
	return nil, sandbox.Invalid("name a .jsonl file or a task folder", "%q is neither a file of JSON lines nor a folder", name)
}

// Digest is the digest of a list of tasks.
func Digest(tasks []Task) string {
	var list []run.Task
	for _, t := range tasks {
		list = append(list, run.Task{ID: t.ID, SHA256: t.SHA256})
	}
	return run.Digest(list)
}

// complete fills in what a task does not say, and checks it.
func (t *Task) complete() error {
	t.Workdir = cmp.Or(t.Workdir, "/work")
	t.Grader.Image = cmp.Or(t.Grader.Image, t.Image)
	t.Grader.Shell = cmp.Or(t.Grader.Shell, sandbox.ShellSh)
	t.Grader.Workdir = cmp.Or(t.Grader.Workdir, t.Workdir)
	if err := checkID(t.ID); err != nil {
		return err
	}
	for i := range t.Artifacts {
		a := &t.Artifacts[i]
		if !path.IsAbs(a.Path) {
			a.Path = path.Join(t.Workdir, a.Path)
		}
		if err := checkArtifact(a.Path); err != nil {
			return err
		}
		for _, pattern := range a.Exclude {
			if _, err := path.Match(pattern, ""); err != nil {
				return sandbox.Invalid("write a name, or a pattern such as *.pyc", "exclude %q of artifact %q is malformed", pattern, a.Path)
			}
		}
	}
	lists := [][]sandbox.File{t.Files, t.Solution.Files, t.Solution.With, t.Grader.Tests}
	for _, files := range lists {
		if err := checkFiles(files); err != nil {
			return err
		}
	}
	for _, dir := range t.Dirs() { // none where the root is writable
		if err := target.CheckTmpfs(dir); err != nil {
			return sandbox.Invalid("use a directory that is not the system's, such as /app", "%s is a directory of the system, and images are read-only", dir)
		}
	}
	if len(t.Steps.List) == 0 && (t.Agent.Timeout < sandbox.MinTimeout || t.Grader.Timeout < sandbox.MinTimeout) {
		return sandbox.Invalid("at least "+sandbox.FormatDuration(sandbox.MinTimeout), "a timeout is too short")
	}
	return nil
}

// checkID refuses a name that cannot be shown, or used in a path.
func checkID(id string) error {
	if id == "" || len(id) > MaxID || strings.ContainsFunc(id, func(r rune) bool { return r < ' ' || r > '~' }) {
		return sandbox.Invalid(fmt.Sprintf("use at most %d printable ASCII characters", MaxID), "task id %q is unusable", id)
	}
	return nil
}

// reserved are directories that only the harness fills.
var reserved = []string{TestsDir, SolutionDir, RewardDir}

func checkArtifact(name string) error {
	clean := path.Clean(name)
	for _, dir := range reserved {
		if target.Within(dir, clean) || target.Within(clean, dir) {
			return sandbox.Invalid("declare only what the agent makes", "artifact %q overlaps %s", name, dir)
		}
	}
	if clean != name || strings.ContainsRune(name, 0) {
		return sandbox.Invalid("write it without . and ..", "artifact %q is no clean path", name)
	}
	return nil
}

func checkFiles(files []sandbox.File) error {
	size, names := 0, 0
	for _, f := range files {
		size, names = size+len(f.Content), names+len(f.Path)
		if !path.IsAbs(f.Path) || path.Clean(f.Path) != f.Path || strings.ContainsRune(f.Path, 0) || len(f.Path) > MaxName {
			return sandbox.Invalid(fmt.Sprintf("write paths without . and .., of at most %d bytes", MaxName), "file %.200q is no clean path", f.Path)
		}
	}
	if names > MaxNames {
		return sandbox.Invalid("use shorter paths", "the paths of %d files are over %s", len(files), sandbox.FormatSize(MaxNames))
	}
	if len(files) > MaxFiles || size > MaxContent {
		return sandbox.Invalid("put large data into the image", "%d files with %s, over the limit of %d or %s", len(files), sandbox.FormatSize(int64(size)), MaxFiles, sandbox.FormatSize(MaxContent))
	}
	return nil
}
