package suite

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"belljar/internal/lazyregexp"
	"belljar/internal/target"
	"belljar/sandbox"
)

func unsupported(format string, args ...any) error {
	return sandbox.Invalid("belljar eval cannot run this task", "%s is not supported", fmt.Sprintf(format, args...))
}

// refuse refuses by name what belljar does not do.
func (f *folder) refuse() error {
	for _, name := range f.order {
		base := path.Base(name)
		dir := path.Dir(name)
		ofStep, _ := path.Match(StepsDir+"/*/tests", dir)
		isCompose := strings.HasPrefix(base, "docker-compose.") || strings.HasPrefix(base, "compose.")
		if isCompose && (ofStep || dir == "environment" || dir == "tests") || ofStep && base == "Dockerfile" {
			return unsupported("%s", name)
		}
	}
	s, all := f.set, []environment{f.set.Environment}
	for _, v := range append([]verifier{s.Verifier}, verifiers(s.Steps)...) {
		if v.Environment != nil {
			all = append(all, *v.Environment)
		}
	}
	for _, e := range all {
		switch {
		case e.GPUs > 0:
			return unsupported("gpus")
		case e.TPU != nil:
			return unsupported("tpu")
		case e.OS != "" && e.OS != "linux":
			return unsupported("os %q", e.OS)
		case len(e.Servers) > 0:
			return unsupported("[[environment.mcp_servers]]")
		}
		if e.Skills != "" {
			f.notice("skills_dir is ignored: no agent runs in the container")
		}
		if err := f.noHostVariables(e.Env); err != nil {
			return err
		}
	}
	for _, v := range append([]verifier{s.Verifier}, verifiers(s.Steps)...) {
		if err := f.noHostVariables(v.Env); err != nil {
			return err
		}
	}
	return f.noHostVariables(s.Solution.Env)
}

func verifiers(steps []step) (list []verifier) {
	for _, s := range steps {
		list = append(list, s.Verifier)
	}
	return list
}

// fromHost is a part of a variable's value that is the host's, or has a default.
var fromHost = lazyregexp.New(`\$\{[A-Za-z_][A-Za-z0-9_]*:-([^{}]*)\}`)

// noHostVariables replaces what would be taken from the host by its default.
func (f *folder) noHostVariables(env map[string]string) error {
	for name, value := range env {
		env[name] = fromHost.Get().ReplaceAllString(value, "$1")
		if strings.Contains(env[name], "${") {
			return unsupported("variable %s, which is taken from the host and has no default,", name)
		}
		if env[name] != value {
			f.notice("variable %s has its default: nothing is taken from the host", name)
		}
	}
	return nil
}

// users decides whether the task has a root user. A task cannot name another: all commands run as the
// profile's.
func (f *folder) users() error {
	f.task.Root = f.task.Root || f.allow.Root
	all := []any{f.set.Agent.User, f.set.Verifier.User}
	for _, s := range f.set.Steps {
		all = append(all, s.Agent.User, s.Verifier.User)
	}
	for _, user := range all {
		switch name := fmt.Sprint(user); {
		case user == nil:
		case name == "root" || name == "0":
			f.task.Root = true
		default:
			f.notice("user %q is ignored: commands run as the profile's user", name)
		}
	}
	return nil
}

// rootDirs makes the task one with a root user where it works in directories that only root can write.
func (f *folder) rootDirs() error {
	defer f.seed()
	if f.task.Root {
		return nil
	}
	dirs := f.task.Dirs()
	for i := range f.task.Steps.List {
		dirs = append(dirs, f.task.Steps.List[i].Task.Dirs()...)
	}
	for _, dir := range dirs {
		for _, kernel := range []string{"/proc", "/sys", "/dev"} {
			if target.Within(kernel, dir) {
				return sandbox.Invalid("use another directory, such as /app", "%s is a directory of the kernel", dir)
			}
		}
		isFile := path.Dir(dir) == "/" && path.Ext(dir) != "" // an artifact such as /out.json: directories alone can be in memory
		if isFile || target.CheckTmpfs(dir) != nil || target.Within("/root", dir) {
			f.task.Root = true
			f.notice("it works in %s: its containers have a root user and a writable root", dir)
			return nil
		}
	}
	return nil
}

// seed says that directories in memory hide what the image has in the working directory.
func (f *folder) seed() {
	f.task.Seed = !f.task.Root
	for i := range f.task.Steps.List {
		t := &f.task.Steps.List[i].Task
		t.Root, t.Seed = f.task.Root, f.task.Seed
	}
}

// network is what a container has, of settings of which the first that says something counts.
func (f *folder) network(list ...policy) (public bool, err error) {
	for _, p := range list {
		if len(p.hosts) > 0 || p.mode == "allowlist" {
			return false, unsupported("a network with allowed_hosts (network_mode = \"allowlist\")")
		}
	}
	i := slices.IndexFunc(list, func(p policy) bool { return p.mode != "" })
	if i < 0 {
		f.notice("the task does not say whether it has a network: it has none")
		return false, nil
	}
	switch mode := list[i].mode; {
	case mode == "no-network":
		return false, nil
	case mode != "public":
		return false, unsupported("network_mode = %q", mode)
	case !f.allow.Network:
		return false, sandbox.Invalid("run it with --allow-network, or write network_mode = \"no-network\"", "the task has network_mode = \"public\" (or allow_internet = true), which is not allowed")
	}
	return true, nil
}

// policy is a network as a table of task.toml has it.
type policy struct {
	mode  string
	hosts []any
}

func (e environment) policy() policy {
	p := policy{mode: e.NetworkMode}
	for _, h := range e.AllowedHosts {
		p.hosts = append(p.hosts, h)
	}
	if p.mode == "" && e.AllowInternet != nil {
		p.mode = map[bool]string{true: "public", false: "no-network"}[*e.AllowInternet]
	}
	return p
}

func (a agent) policy() policy    { return policy{a.NetworkMode, a.Hosts} }
func (v verifier) policy() policy { return policy{v.NetworkMode, v.Hosts} }

// mode decides whether the grader shares the agent's container.
func (f *folder) mode(v verifier) (shared bool, err error) {
	switch mode := cmp.Or(v.EnvironmentMode, f.set.Verifier.EnvironmentMode); {
	case mode == "" || mode == "separate":
		return false, nil
	case mode != "shared":
		return false, unsupported("[verifier] environment_mode = %q", mode)
	case v.Environment != nil:
		return false, sandbox.Invalid(`write environment_mode = "separate"`, "[verifier.environment] contradicts environment_mode = %q", mode)
	case !f.allow.Shared:
		return false, sandbox.Invalid(`write environment_mode = "separate" and declare artifacts, or run it with --allow-shared`, "environment_mode = %q is not allowed: whatever the agent left could grade itself", mode)
	}
	f.notice("the agent's container grades: scores are unsealed")
	return true, nil
}

// artifacts are those of lists, or the working directory.
func (f *folder) artifacts(lists ...[]any) (all []Artifact, err error) {
	for _, a := range slices.Concat(lists...) {
		one := Artifact{}
		switch a := a.(type) {
		case string:
			one.Path = a
		case map[string]any:
			if err := f.artifact(&one, a); err != nil {
				return nil, err
			}
		default:
			return nil, sandbox.Invalid("write a path, or {source, destination, exclude}", "an artifact is neither")
		}
		one.Path = strings.TrimSuffix(one.Path, "/")
		all = append(all, one)
	}
	if len(all) == 0 {
		all = []Artifact{{Path: f.task.Workdir}}
		f.notice("the task declares no artifacts: all of %s is graded", f.task.Workdir)
	}
	return all, nil
}

func (f *folder) artifact(one *Artifact, table map[string]any) error {
	for key, value := range table {
		text, isText := value.(string)
		switch key {
		case "source":
			one.Path = text
		case "service":
			if text != "main" {
				return unsupported("artifact %q of service %q", table["source"], value)
			}
		case "destination":
			if !isText || path.IsAbs(text) || slices.Contains(strings.Split(text, "/"), "..") {
				return sandbox.Invalid("write a relative path without ..", "destination %q of artifact %q is malformed", value, table["source"])
			}
			f.notice("destination of artifact %q is ignored: it is kept by its own path", table["source"])
		case "exclude":
			list, ok := value.([]any)
			if !ok {
				return sandbox.Invalid("write a list of names", "exclude of artifact %q is no list", table["source"])
			}
			for _, e := range list {
				one.Exclude = append(one.Exclude, fmt.Sprint(e))
			}
		default:
			f.notice("key %q of artifact %q is unknown and ignored", key, table["source"])
		}
	}
	if one.Path == "" {
		return sandbox.Invalid("write {source = \"/app/result\"}", "an artifact has no source")
	}
	return nil
}
