package e2e

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"belljar/eval/run"
)

// evalEngine is the engine for evaluations: the one whose containers cost least, with its image.
var evalEngine = sync.OnceValues(func() (env []string, err error) {
	env = os.Environ()
	if hasRuntime() {
		env = append(env, "BELLJAR_ENGINE_KIND=oci")
		build := exec.Command(binary, "images", "build", "base")
		build.Env = env
		_, err = build.Output()
	}
	return env, err
})

// evaluating is a directory with tasks and runs.
type evaluating struct {
	dir string
	env []string
}

// evaluate writes tasks as lines of JSON into suite.jsonl.
func evaluate(t *testing.T, lines ...string) *evaluating {
	t.Helper()
	needEngine(t)
	env, err := evalEngine()
	if err != nil {
		t.Fatal(err)
	}
	return evaluateOn(t, env, lines...)
}

// evaluateOn is evaluate with that environment's engine.
func evaluateOn(t *testing.T, env []string, lines ...string) *evaluating {
	t.Helper()
	e := &evaluating{t.TempDir(), slices.Clip(env)} // others may append to it, too
	e.write(t, "suite.jsonl", strings.Join(lines, "\n")+"\n")
	return e
}

func (e *evaluating) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(e.dir, name), []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
}

// command is belljar eval, in the directory.
func (e *evaluating) command(args ...string) *exec.Cmd {
	cmd := exec.Command(binary, append([]string{"eval"}, args...)...)
	cmd.Dir, cmd.Env = e.dir, e.env
	return cmd
}

// run runs it, and returns what it wrote.
func (e *evaluating) run(t *testing.T, status int, args ...string) string {
	t.Helper()
	cmd := e.command(args...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != status {
		t.Fatalf("belljar eval %q: %v, want exit status %d\n%s%s", args, err, status, out, e.logs())
	}
	return string(out)
}

// logs are what the trials of the directory's runs logged.
func (e *evaluating) logs() (all string) {
	filepath.WalkDir(e.dir, func(name string, of fs.DirEntry, err error) error {
		if err == nil && of.Type().IsRegular() && strings.Contains(name, "/logs/") {
			text, _ := os.ReadFile(name)
			all += fmt.Sprintf("%s:\n%.2000s\n", strings.TrimPrefix(name, e.dir), text)
		}
		return nil
	})
	return all
}

// results are those of a run, by task and trial.
func (e *evaluating) results(t *testing.T, out string) map[run.Key]run.Result {
	t.Helper()
	d, err := run.Open(filepath.Join(e.dir, out))
	if err != nil {
		t.Fatal(err)
	}
	list, err := d.Results()
	if err != nil {
		t.Fatal(err)
	}
	by := map[run.Key]run.Result{}
	for _, r := range list {
		by[r.Key()] = r
	}
	return by
}

// read reads a file of the directory.
func (e *evaluating) read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(e.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// left are the containers and processes that a run of that directory left, and its files
// elsewhere.
func (e *evaluating) left(t *testing.T, out string) (left []string) {
	t.Helper()
	var r run.Run
	if err := json.Unmarshal([]byte(e.read(t, out+"/run.json")), &r); err != nil {
		t.Fatal(err)
	}
	list := exec.Command(binary, "session", "ls", "--format", "json")
	list.Env = e.env
	text, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "eval-"+r.ID+"-") {
		left = append(left, string(text))
	}
	files, _ := filepath.Glob(filepath.Join(os.TempDir(), "belljar-eval-"+r.ID+"-*"))
	return append(left, files...)
}
