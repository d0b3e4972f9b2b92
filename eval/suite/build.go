package suite

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"belljar/sandbox"
)

// Build is an image that the engine builds before anything of the run begins. Its name says what it is built
// from: it is built once.
type Build struct {
	Image   string
	From    []string       // the images that it begins with
	Files   []sandbox.File // with Dockerfile; their paths are relative
	Timeout time.Duration
	Bounds
}

// builtPrefix is what the names of such images begin with. No registry is asked for them.
const builtPrefix = "belljar/eval-built:"

// defaultBuildTimeout is Harbor's.
const defaultBuildTimeout = 10 * time.Minute

// Builds are the images that a list of tasks needs to be built, each once.
func Builds(tasks []Task) (list []Build) {
	for _, t := range tasks {
		for _, b := range append(slices.Clone(t.Builds), Builds(stepTasks(t))...) {
			if !slices.ContainsFunc(list, func(o Build) bool { return o.Image == b.Image }) {
				list = append(list, b)
			}
		}
	}
	return list
}

// VerifierImages are the images that grade the task, and its steps, each once.
func (t *Task) VerifierImages() (list []string) {
	list = append(list, t.Grader.Image)
	for i := range t.Steps.List {
		list = append(list, t.Steps.List[i].Task.VerifierImages()...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func stepTasks(t Task) (list []Task) {
	for _, s := range t.Steps.List {
		list = append(list, s.Task)
	}
	return list
}

// instructions are a Dockerfile's, in words.
func instructions(text string) (list [][]string) {
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\\\n", " ")
	for line := range strings.SplitSeq(text, "\n") {
		if fields := strings.Fields(line); len(fields) > 0 && !strings.HasPrefix(fields[0], "#") {
			list = append(list, fields)
		}
	}
	return list
}

// toBuild reads a Dockerfile that the engine builds.
func (f *folder) toBuild(dir string) (b built, err error) {
	one, err := f.newBuild(dir)
	if err != nil {
		return b, err
	}
	b, user, from := f.scan(dir)
	for _, image := range from {
		if strings.Contains(image, "$") {
			return b, sandbox.Invalid("write the image's name", "%s/Dockerfile has FROM %s, a variable", dir, image)
		}
	}
	if b.from == "" {
		return b, sandbox.Invalid("name the image as docker_image", "%s/Dockerfile has no FROM", dir)
	}
	if b.root = user == "root" || user == "0"; user != "" && !b.root {
		f.notice("user %q of %s/Dockerfile is ignored: commands run as the profile's user", user, dir)
	}
	one.From, b.from, b.env = from, one.Image, f.variables(dir, b.env)
	f.task.Builds = append(f.task.Builds, one)
	return b, nil
}

// scan finds what belljar must know of an image that is built elsewhere: where its work is, its variables, its
// user, and the images that it begins with.
func (f *folder) scan(dir string) (b built, user string, from []string) {
	stages, stage := map[string]built{}, ""
	for _, words := range instructions(string(f.files[dir+"/Dockerfile"].Content)) {
		args := slices.DeleteFunc(slices.Clone(words[1:]), func(a string) bool { return strings.HasPrefix(a, "--") })
		switch word := strings.ToUpper(words[0]); {
		case len(args) == 0:
		case word == "FROM":
			earlier, isStage := stages[strings.ToLower(args[0])]
			if !isStage && args[0] != "scratch" && !slices.Contains(from, args[0]) {
				from = append(from, args[0])
			}
			b, user, stage = earlier, "", strings.ToLower(args[len(args)-1])
			b.from = args[0]
		case word == "WORKDIR" && !strings.Contains(args[0], "$"):
			b.moveTo(args[0])
		case word == "ENV" && strings.Contains(args[0], "="):
			b.env = append(b.env, args...)
		case word == "USER":
			user = args[0]
		}
		stages[stage] = b
	}
	return b, user, from
}

func (f *folder) newBuild(dir string) (one Build, err error) {
	one = Build{Files: f.below(dir, ""), Timeout: defaultBuildTimeout}
	if one.Bounds, err = f.set.Environment.bounds(0); err != nil {
		return one, err
	}
	if seconds := f.set.Environment.BuildTimeout; seconds > 0 {
		one.Timeout = min(duration(seconds), maxTimeout)
	}
	one.Network = f.allow.Network
	one.Image = builtPrefix + digestOf(one.Files)[:32]
	if one.Network { // what it runs may do something else without
		one.Image += "-net"
	}
	if _, ignores := f.files[dir+"/.dockerignore"]; ignores {
		f.notice("%s/.dockerignore is ignored: all of %s is there while the image is built", dir, dir)
	}
	return one, nil
}

// moveTo is WORKDIR.
func (b *built) moveTo(dir string) {
	b.workdir = path.Join("/", b.workdir, dir)
	if path.IsAbs(dir) {
		b.workdir = path.Clean(dir)
	}
}

// variables are those of ENV that are plain. Commands have no others of the image.
func (f *folder) variables(dir string, args []string) (plain []string) {
	for _, a := range args {
		name, value, ok := strings.Cut(a, "=")
		value = strings.Trim(value, `"`)
		if !ok || strings.ContainsAny(value, `"'$\`) {
			f.notice("variable %.100q of %s/Dockerfile is ignored: it is not plain", name, dir)
			continue
		}
		plain = append(plain, fmt.Sprintf("%s=%s", name, value))
	}
	return plain
}
