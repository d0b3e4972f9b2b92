package suite

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"belljar/eval/run"
	"belljar/sandbox"
)

// line is a task as one line of JSON.
type line struct {
	ID          string            `json:"id"`
	Instruction string            `json:"instruction"`
	Image       string            `json:"image"`
	Setup       string            `json:"setup"`
	Files       map[string]string `json:"files"`     // by their paths, relative to /work
	Answer      string            `json:"answer"`    // the file that an answer of plain text is written to
	Artifacts   []string          `json:"artifacts"` // default: the answer
	Solution    json.RawMessage   `json:"solution"`  // the answer's text, or its files by their paths
	Solve       string            `json:"solve"`     // a script that makes the answer

	Command string            `json:"command"` // the program under test
	Stdin   string            `json:"stdin"`
	Expect  json.RawMessage   `json:"expect"` // its stdout, or a list of {stdin, stdout}
	Match   string            `json:"match"`  // exact, or lines
	Check   string            `json:"check"`  // a script whose exit status grades
	Tests   map[string]string `json:"tests"`  // the script's files, below /tests

	Timeout  float64 `json:"timeout"` // seconds, of the agent and of grading
	MemoryMB int64   `json:"memory_mb"`
	CPUs     float64 `json:"cpus"`
}

const (
	defaultTimeout = time.Minute
	maxTimeout     = 24 * time.Hour
)

func loadLines(name string) ([]Task, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var tasks []Task
	var errs []error
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		text := lineText(lines.Bytes(), n)
		if len(text) == 0 {
			continue
		}
		source := fmt.Sprintf("%s:%d", filepath.ToSlash(name), n)
		t, err := parseLine(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", source, err))
			continue
		}
		t.Source = source
		tasks = append(tasks, t)
	}
	if err := lineError(name, lines.Err()); err != nil {
		errs = append(errs, err)
	}
	return tasks, errors.Join(errs...)
}

// lineText is what a line says, the first of which may begin with a byte order mark.
func lineText(line []byte, number int) []byte {
	if number == 1 {
		line = bytes.TrimPrefix(line, []byte("\uFEFF"))
	}
	return bytes.TrimSpace(line)
}

func lineError(name string, err error) error {
	if errors.Is(err, bufio.ErrTooLong) {
		return sandbox.Invalid("put large data into the image", "%s has a line of more than %s", name, sandbox.FormatSize(maxLine))
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	return nil
}

func parseLine(text []byte) (Task, error) {
	var l line
	if err := StrictJSON(text, &l, true); err != nil {
		return Task{}, &sandbox.Error{Cause: sandbox.CauseInvalid, Message: "reading a task", Err: err, Hint: "docs/evaluation.md lists the keys"}
	}
	timeout := defaultTimeout
	if l.Timeout != 0 {
		if l.Timeout < 0 || l.Timeout > maxTimeout.Seconds() || math.IsNaN(l.Timeout) {
			return Task{}, sandbox.Invalid("write seconds, from 1 to a day", "timeout %g is out of range", l.Timeout)
		}
		timeout = time.Duration(l.Timeout * float64(time.Second))
	}
	if l.MemoryMB < 0 || l.MemoryMB > maxMB || l.CPUs < 0 || l.CPUs > maxCPUs {
		return Task{}, sandbox.Invalid("leave them out for the profile's", "memory_mb %d or cpus %g is out of range", l.MemoryMB, l.CPUs)
	}
	sum := sha256.Sum256(text)
	bounds := Bounds{Timeout: timeout, Memory: l.MemoryMB << 20, CPUs: l.CPUs}
	t := Task{
		ID: l.ID, SHA256: hex.EncodeToString(sum[:]), Instruction: l.Instruction, Image: l.Image, Setup: l.Setup, Workdir: "/work",
		Files: files("/work", l.Files), Agent: bounds, Grader: Grader{Bounds: bounds, Tests: files(TestsDir, l.Tests)},
	}
	if l.Answer != "" {
		t.Answer = path.Join("/work", l.Answer)
		if len(l.Artifacts) == 0 {
			l.Artifacts = []string{l.Answer}
		}
	}
	for _, a := range l.Artifacts {
		t.Artifacts = append(t.Artifacts, Artifact{Path: path.Join("/work", a)})
	}
	if len(t.Artifacts) == 0 {
		return t, sandbox.Invalid(`name the file that an answer is written to, as "answer": "solution.py"`, "the task has no answer and no artifacts")
	}
	if err := l.solution(&t); err != nil {
		return t, err
	}
	if err := l.grader(&t.Grader); err != nil {
		return t, err
	}
	return t, t.complete()
}

func (l line) solution(t *Task) (err error) {
	t.Solution.Script = l.Solve
	if len(l.Solution) > 0 {
		t.Solution.Files, err = t.answer(l.Solution)
	}
	return err
}

func (l line) grader(g *Grader) error {
	switch {
	case (l.Check == "") == (len(l.Expect) == 0):
		return sandbox.Invalid("use check for a script that grades, or expect for the output of command", "the task needs either check or expect")
	case l.Check != "" && (l.Command != "" || l.Stdin != "" || l.Match != ""):
		return sandbox.Invalid("leave them out, or use expect", "command, stdin and match belong to expect, not to check")
	case l.Check != "":
		g.By, g.Script = run.ByCheck, l.Check
		return nil
	case l.Command == "" || len(l.Tests) > 0:
		return sandbox.Invalid("with expect, command is what runs, and no tests are in its container", "expect needs command, and has no tests")
	}
	g.By, g.Command = run.ByExpect, l.Command
	switch l.Match {
	case "", "lines":
	case "exact":
		g.Exact = true
	default:
		return sandbox.Invalid("use exact or lines", "match %q is unknown", l.Match)
	}
	var one *string // null is no output
	if json.Unmarshal(l.Expect, &one) == nil && one != nil {
		g.Cases = []Case{{l.Stdin, *one}}
		return nil
	}
	var list []struct {
		Stdin  string  `json:"stdin"`
		Stdout *string `json:"stdout"`
	}
	err := StrictJSON(l.Expect, &list, true)
	for _, c := range list {
		if c.Stdout == nil {
			return sandbox.Invalid(`write "stdout": "" if it is to write nothing`, "a case of expect has no stdout")
		}
	}
	if err != nil || len(list) == 0 || l.Stdin != "" {
		return sandbox.Invalid("write the output as a string, or a list of {stdin, stdout}", "expect is neither")
	}
	for _, c := range list {
		g.Cases = append(g.Cases, Case{c.Stdin, *c.Stdout})
	}
	return nil
}

// files are texts by their paths, below a directory.
func files(dir string, texts map[string]string) (list []sandbox.File) {
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		full := dir + "/" + name // an absolute or unclean name is refused later
		list = append(list, sandbox.File{Path: full, Content: []byte(texts[name]), Mode: 0o644})
	}
	return list
}

// answer reads an answer: a text, or files by their paths.
func (t *Task) answer(raw json.RawMessage) ([]sandbox.File, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return t.textAnswer(text)
	}
	var texts map[string]string
	if err := json.Unmarshal(raw, &texts); err != nil {
		return nil, sandbox.Invalid("write a text, or an object of texts by their paths", "an answer is neither a text nor files")
	}
	list := files(t.Workdir, texts)
	return list, checkFiles(list)
}

func (t *Task) textAnswer(text string) ([]sandbox.File, error) {
	if t.Answer == "" {
		return nil, sandbox.Invalid(`give files by their paths, or name the file in the task: "answer": "solution.py"`, "task %q does not say which file an answer of plain text is", t.ID)
	}
	return []sandbox.File{{Path: t.Answer, Content: []byte(text), Mode: 0o644}}, nil
}
