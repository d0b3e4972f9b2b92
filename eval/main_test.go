package eval_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"belljar"
	"belljar/config"
	"belljar/eval"
	"belljar/eval/run"
	"belljar/eval/suite"
	"belljar/images"
	"belljar/internal/boxinit/boxinittest"
	"belljar/sandbox"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		boxinittest.Clean()
		os.Exit(code)
	}))
}

// python is an image with python3 and pytest.
const python = "belljar/debian:eval"

// bench is an engine for one test, which leaves no container.
type bench struct {
	runner *belljar.Runner
	config *config.Config
}

// have finds the image. CI builds it, which takes a minute, or takes Docker's.
func have(t *testing.T, host *belljar.Host) error {
	_, err := host.Images.Resolve(t.Context(), python, sandbox.PullNever)
	if err == nil || os.Getenv("CI") == "" {
		return err
	}
	debian := images.Debian{Packages: []string{"python3", "python3-pytest", "git"}, Tag: python}
	switch store := host.Images.(type) {
	case *images.Store:
		_, err = store.BuildDebian(t.Context(), debian)
	case *images.Disk:
		file := filepath.Join(t.TempDir(), "image.tar")
		if exec.Command("docker", "save", "--output", file, python).Run() == nil {
			_, err = store.Import(t.Context(), file, "")
		} else {
			_, err = store.BuildDebian(t.Context(), debian)
		}
	}
	return err
}

// engine opens the host's engine. Without one, or without the image, the test is skipped,
// except in CI.
func engine(t *testing.T) *bench {
	t.Helper()
	c, err := config.Load(config.Options{Env: os.Environ(), NoWorkdir: true})
	if err != nil {
		t.Fatal(err)
	}
	c.Audit.Enabled = false
	c.Engine.Init = boxinittest.Binary(t)  // this test may be linked dynamically
	if c.Engine.Kind != config.EngineOCI { // which has its images there
		c.StateDir = t.TempDir()
	}
	for name, p := range c.Profiles {
		p.Pool = sandbox.PoolSize{Max: sandbox.NoPool}
		c.Profiles[name] = p
	}
	host, err := belljar.Connect(t.Context(), c)
	if err == nil {
		err = have(t, host)
	}
	if err != nil && os.Getenv("CI") == "" && os.Getenv("ALL_CHEATS") == "" {
		t.Skipf("NOT TESTED: %v; the image has: belljar images build debian --packages python3,python3-pytest,git --tag %s", err, python)
	}
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{belljar.New(host, c), c}
	b.runner.Warm()
	t.Cleanup(func() {
		left, err := b.runner.Sessions(context.Background())
		for _, s := range left {
			if strings.HasPrefix(s.Name, "eval-"+b.id(t)+"-") {
				t.Errorf("a container is left: %+v", s)
			}
		}
		if err != nil {
			t.Error(err)
		}
		b.runner.Close()
		host.Close()
	})
	return b
}

// id is that of the test's runs.
func (b *bench) id(t *testing.T) string { return strings.ToLower(t.Name()[:8]) }

// run evaluates tasks.
func (b *bench) run(t *testing.T, r run.Run, tasks []suite.Task, answers *suite.Answers) []run.Result {
	t.Helper()
	return b.runWith(t, r, tasks, func(h *eval.Harness) { h.Answers = answers })
}

// runWith evaluates tasks with a harness that is changed.
func (b *bench) runWith(t *testing.T, r run.Run, tasks []suite.Task, change func(h *eval.Harness)) []run.Result {
	t.Helper()
	r.Version, r.ID, r.Options.Controls, r.Options.Retries, r.Trials = run.Version, b.id(t), true, 1, max(1, r.Trials)
	for _, task := range tasks {
		r.Tasks = append(r.Tasks, run.Task{ID: task.ID, SHA256: task.SHA256})
	}
	dir, err := run.Create(filepath.Join(t.TempDir(), "run"), r)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	h := b.harness(tasks)
	h.Dir = dir
	change(h)
	began := time.Now()
	if err := h.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	results, err := dir.Results()
	if err != nil {
		t.Fatal(err)
	}
	if want := len(tasks) * r.Trials; len(results) != want {
		t.Errorf("%d results, want %d", len(results), want)
	}
	t.Logf("%d trials in %s", len(results), time.Since(began).Round(time.Millisecond))
	slices.SortFunc(results, func(x, y run.Result) int { return x.Trial - y.Trial })
	return results
}

func (b *bench) harness(tasks []suite.Task) *eval.Harness {
	b.config.Profiles[sandbox.DefaultProfile] = eval.Profile(b.config.Profiles[sandbox.DefaultProfile], tasks)
	b.config.Profiles["rooted"] = eval.Rooted(b.config.Profiles[sandbox.DefaultProfile], tasks)
	return &eval.Harness{Runner: b.runner, Profile: sandbox.DefaultProfile, Rooted: "rooted", Tasks: tasks, Jobs: 3}
}

// refuse is why the engine cannot run tasks.
func (b *bench) refuse(t *testing.T, tasks []suite.Task) error {
	return b.harness(tasks).Refuse(t.Context())
}

// lines writes objects as lines of JSON.
func lines(t *testing.T, objects ...map[string]any) string {
	t.Helper()
	var text []byte
	for _, o := range objects {
		line, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		text = append(append(text, line...), '\n')
	}
	name := filepath.Join(t.TempDir(), "lines.jsonl")
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// load reads tasks.
func load(t *testing.T, objects ...map[string]any) []suite.Task {
	t.Helper()
	tasks, err := suite.Load([]string{lines(t, objects...)}, suite.Allow{})
	if err != nil {
		t.Fatal(err)
	}
	return tasks
}

// phases is what a result says about its phases, for messages.
func phases(r run.Result) string {
	var b strings.Builder
	for _, p := range r.Phases {
		b.WriteString("\n  " + string(p.Name) + " " + p.Detail + ": " + string(p.Cause) + " " + p.Message + " " + strings.TrimSpace(p.Stdout.Tail+p.Stderr.Tail))
	}
	return b.String()
}
