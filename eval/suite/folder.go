package suite

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"belljar/eval/run"
	"belljar/sandbox"
)

// settingsFile is the file that makes a folder a task's.
const settingsFile = "task.toml"

// defaultWorkdir is where an image of a task folder has its work, if nothing says so.
const defaultWorkdir = "/app"

// maxDepth is how far below a folder of tasks they may be.
const maxDepth = 6

// loadFolders reads a task folder, or all that are in a folder, up to maxDepth levels down.
func loadFolders(name string, allow Allow) ([]Task, error) { return loadBelow(name, allow, maxDepth) }

func loadBelow(name string, allow Allow, depth int) ([]Task, error) {
	if _, err := os.Lstat(filepath.Join(name, settingsFile)); err == nil {
		t, err := loadFolder(name, allow)
		return []Task{t}, err
	}
	list, err := os.ReadDir(name)
	if err != nil {
		return nil, err
	}
	var tasks []Task
	var errs []error
	for _, entry := range list {
		at := filepath.Join(name, entry.Name())
		switch {
		case strings.HasPrefix(entry.Name(), "."):
		case entry.Type()&fs.ModeSymlink != 0:
			if _, err := os.Stat(filepath.Join(at, settingsFile)); err == nil {
				errs = append(errs, sandbox.Invalid("copy the folder to where the link is", "%q is a link", at))
			}
		case entry.IsDir() && depth > 1:
			below, err := loadBelow(at, allow, depth-1)
			tasks, errs = append(tasks, below...), append(errs, err)
		}
	}
	return tasks, errors.Join(errs...)
}

// folder is a task folder while it is read.
type folder struct {
	task  *Task
	files map[string]sandbox.File // by their paths in it
	order []string
	set   settings
	allow Allow
}

func loadFolder(name string, allow Allow) (Task, error) {
	t, err := readFolder(name, allow)
	if err != nil {
		return t, fmt.Errorf("%s: %w", name, err)
	}
	return t, nil
}

func readFolder(name string, allow Allow) (Task, error) {
	root, err := os.OpenRoot(name)
	if err != nil {
		return Task{}, err
	}
	defer root.Close()
	list, err := readTree(root, ".", "")
	if err != nil {
		return Task{}, err
	}
	abs, err := filepath.Abs(name)
	if err != nil {
		return Task{}, err
	}
	f := &folder{task: &Task{ID: filepath.Base(abs), Source: abs, SHA256: digestOf(list)}, files: map[string]sandbox.File{}, allow: allow}
	for _, file := range list {
		f.files[file.Path] = file
		f.order = append(f.order, file.Path)
	}
	for _, step := range []func() error{f.settings, f.refuse, f.users, f.image, f.steps, f.whole, f.rootDirs} {
		if err := step(); err != nil {
			return *f.task, err
		}
	}
	f.lineEnds()
	slices.Sort(f.task.Notices)
	f.task.Notices = slices.Compact(f.task.Notices)
	return *f.task, f.complete()
}

// lineEnds tells of scripts that no shell understands.
func (f *folder) lineEnds() {
	for _, name := range f.order {
		if path.Ext(name) == ".sh" && bytes.Contains(f.files[name].Content, []byte("\r\n")) {
			f.notice("%s has lines that end with CR and LF, which bash does not understand", name)
		}
	}
}

// whole is the task without its steps.
func (f *folder) whole() (err error) {
	t := f.task
	t.Instruction = withoutCanary(string(f.files["instruction.md"].Content))
	if _, ok := f.files["instruction.md"]; !ok && len(t.Steps.List) == 0 {
		f.notice("it has no instruction.md: an agent gets an empty instruction")
	}
	t.Ready = f.set.Environment.Healthcheck.script()
	if len(t.Steps.List) > 0 {
		for _, s := range t.Steps.List { // all of them need their directories
			t.Artifacts = append(t.Artifacts, s.Task.Artifacts...)
		}
		return f.limitsOf(t, f.set.Agent, f.set.Verifier)
	}
	if t.Artifacts, err = f.artifacts(f.set.Artifacts); err != nil {
		return err
	}
	t.Grader.Tests, t.Solution = f.below("tests", TestsDir), f.solutionOf("solution")
	if err := f.grading(t, f.set.Verifier); err != nil {
		return err
	}
	return f.limitsOf(t, f.set.Agent, f.set.Verifier)
}

// complete fills in the task and its steps, once it is known whether they have a root user.
func (f *folder) complete() error {
	for i := range f.task.Steps.List {
		s := &f.task.Steps.List[i]
		if err := s.Task.complete(); err != nil {
			return fmt.Errorf("step %q: %w", s.Name, err)
		}
	}
	return f.task.complete()
}

func (f *folder) notice(format string, args ...any) {
	f.task.Notices = append(f.task.Notices, fmt.Sprintf(format, args...))
}

// below are the files of a directory of the folder, under other paths.
func (f *folder) below(dir, at string) (list []sandbox.File) {
	for _, name := range f.order {
		if rest, ok := strings.CutPrefix(name, dir+"/"); ok {
			file := f.files[name]
			file.Path = path.Join(at, rest)
			list = append(list, file)
		}
	}
	return list
}

// withoutCanary is an instruction without the comments at its beginning that only mark it.
func withoutCanary(text string) string {
	for {
		line, rest, more := strings.Cut(text, "\n")
		trimmed := strings.TrimSpace(line)
		isComment := strings.HasPrefix(trimmed, "#") || strings.HasPrefix(trimmed, "<!--")
		if !more || !isComment || !strings.Contains(strings.ToLower(trimmed), "canary") {
			return strings.TrimLeft(text, "\n")
		}
		text = rest
	}
}

// image finds the image, where the agent works, and what is there.
func (f *folder) image() error {
	t, e := f.task, f.set.Environment
	t.Image, t.Workdir = e.DockerImage, e.Workdir
	t.Env = assignments(e.Env)
	var built built
	if t.Image == "" {
		var err error
		if built, err = f.dockerfile("environment"); errors.Is(err, fs.ErrNotExist) {
			err = sandbox.Invalid("name it as docker_image in [environment]", "the task has no image: neither docker_image nor environment/Dockerfile")
		}
		if err != nil {
			return err
		}
		t.Image, t.Files, t.Env, t.Root = built.from, built.files, append(built.env, t.Env...), t.Root || built.root
	} else { // what else built it does not matter
		built, _, _ = f.scan("environment")
	}
	if t.Workdir == "" {
		if t.Workdir = built.workdir; t.Workdir == "" || t.Workdir == "/" {
			t.Workdir = defaultWorkdir
		}
	}
	if _, ok := f.files["environment/Dockerfile"]; !ok { // which would say where they are
		t.Files = f.below("environment", t.Workdir)
	}
	return nil
}

// grading finds what grades the task, or a step of it.
func (f *folder) grading(t *Task, v verifier) (err error) {
	g := &t.Grader
	g.By, g.Script, g.Env = run.ByReward, "exec bash "+TestScript, assignments(v.Env)
	if !slices.ContainsFunc(g.Tests, func(file sandbox.File) bool { return file.Path == TestScript }) {
		return sandbox.Invalid("write the script that grades", "the task has no tests/test.sh")
	}
	if g.Shared, err = f.mode(v); err != nil {
		return err
	}
	if t.Collect, err = v.hooks(); err != nil {
		return err
	}
	if v.Environment != nil {
		g.Image, g.Workdir = v.Environment.DockerImage, v.Environment.Workdir
		g.Env = append(assignments(v.Environment.Env), g.Env...)
	}
	if g.Image == "" && !g.Shared {
		if err := f.testsImage(g); err != nil {
			return err
		}
	}
	return f.controls(g)
}

// testsImage is the verifier's image where tests/ has a Dockerfile.
func (f *folder) testsImage(g *Grader) error {
	built, err := f.dockerfile("tests")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, file := range built.files {
		if !strings.HasPrefix(file.Path, TestsDir+"/") {
			return sandbox.Invalid("use an image that has it, as docker_image in [verifier.environment]", "tests/Dockerfile copies %s, and only %s is filled", file.Path, TestsDir)
		}
	}
	g.Image, g.Env = built.from, append(built.env, g.Env...)
	g.Workdir = cmp.Or(g.Workdir, built.workdir)
	return nil
}

// controls are the task's own.
func (f *folder) controls(g *Grader) error {
	for _, name := range f.order {
		rest, ok := strings.CutPrefix(name, "controls/")
		own, _, in := strings.Cut(rest, "/")
		if !ok || !in || len(g.Controls) > 0 && g.Controls[len(g.Controls)-1].Name == own {
			continue
		}
		c := Control{Name: own, Tests: f.below("controls/"+own, TestsDir)}
		if err := checkFiles(c.Tests); err != nil {
			return err
		}
		g.Controls = append(g.Controls, c)
	}
	return nil
}

// solutionOf is the solution that a directory of the folder has, if any.
func (f *folder) solutionOf(dir string) Solution {
	if dir != "solution" {
		dir += "/solution"
	}
	if _, ok := f.files[dir+"/solve.sh"]; !ok {
		if len(f.below(dir, "")) > 0 {
			f.notice("%s/ is ignored: it has no solve.sh", dir)
		}
		return Solution{}
	}
	return Solution{Script: "exec bash " + SolutionDir + "/solve.sh", With: f.below(dir, SolutionDir), Env: assignments(f.set.Solution.Env)}
}
