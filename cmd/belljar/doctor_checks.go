package main

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"

	"belljar"
	"belljar/config"
	"belljar/sandbox"
	"belljar/sandbox/docker"
	"belljar/sandbox/kubernetes"
)

// patient is what the checks examine, and what they learn for each other.
type patient struct {
	config  *config.Config // nil: it has errors
	host    *belljar.Host  // nil: its engine cannot be reached
	docker  *docker.Engine // nil: it is another
	about   docker.About
	trial   trial
	pod     func() (kubernetes.Inside, error)
	noImage bool // the default profile's image is missing
}

// checks run in this order. A check is skipped if something that it needs is missing.
var checks = []struct {
	name  string
	needs func(*patient) string // what is missing; nil: it needs nothing
	make  func(context.Context, *patient) finding
}{
	{"engine-version", needDocker, func(_ context.Context, p *patient) finding { return checkEngineVersion(p.about, p.networks()) }},
	{"runtimes", needDocker, func(_ context.Context, p *patient) finding { return checkRuntimes(p.about, p.profiles()) }},
	{"runc", needDocker, func(_ context.Context, p *patient) finding { return checkRunc(p.about, p.profiles()) }},
	{"runtime", needOCI, checkRuntime},
	{"cgroups", needOCI, checkCgroups},
	{"rights", needKubernetes, checkRights},
	{"admission", needKubernetes, checkAdmission},
	{"pod-seccomp", needKubernetes, checkPodSeccomp},
	{"pod-users", needKubernetes, checkPodUsers},
	{"network-policy", needKubernetes, checkNetworkPolicy},
	{"limits", needDocker, func(_ context.Context, p *patient) finding { return checkLimits(p.about) }},
	{"seccomp", needDocker, func(_ context.Context, p *patient) finding { return checkSeccomp(p.about) }},
	{"apparmor", needDocker, func(_ context.Context, p *patient) finding { return checkAppArmor(p.about) }},
	{"users", needDocker, func(ctx context.Context, p *patient) finding {
		return checkUsers(p.about, p.refusedRoots(ctx), p.last())
	}},
	{"storage", needDocker, func(_ context.Context, p *patient) finding { return checkStorage(p.about) }},
	{"engine-warnings", needDocker, func(_ context.Context, p *patient) finding { return checkWarnings(p.about) }},
	{"engine-disk", needDocker, func(_ context.Context, p *patient) finding { return checkEngineDisk(p.about) }},
	{"temp-disk", nil, func(context.Context, *patient) finding { return checkDisk(os.TempDir(), "TMPDIR") }},
	{"state-disk", needConfig, func(_ context.Context, p *patient) finding { return checkState(p.config.StateDir) }},
	{"serve", needConfig, func(_ context.Context, p *patient) finding { return checkServe(p.config) }},
	{"audit", needConfig, func(_ context.Context, p *patient) finding { return checkAudit(p.config) }},
	{"orphans", needEngine, checkOrphans},
	{"image", needBoth, checkImages},
	{"command", needBoth, checkCommand},
	{"processes", needBoth, checkProcesses},
	{"way", needBoth, checkWay},
}

// notThisEngine is why a check of another engine is left out.
const notThisEngine = "the engine is another"

// kind is the engine's: that of the host, or where it cannot be reached, the one that was to be.
func (p *patient) kind() string {
	switch {
	case p.cluster() != nil:
		return config.EngineKubernetes
	case p.host != nil && p.docker == nil:
		return config.EngineOCI
	case p.host == nil && p.config != nil && p.config.Engine.Kind != config.EngineAuto:
		return p.config.Engine.Kind
	}
	return config.EngineDocker
}

func (p *patient) needKind(kind string) string {
	if p.kind() != kind {
		return notThisEngine
	}
	return needEngine(p)
}

func needDocker(p *patient) string { return p.needKind(config.EngineDocker) }
func needOCI(p *patient) string    { return p.needKind(config.EngineOCI) }
func needKubernetes(p *patient) string {
	return cmp.Or(p.needKind(config.EngineKubernetes), needConfig(p))
}

func needEngine(p *patient) string {
	if p.host == nil {
		return "no engine"
	}
	return ""
}

func needConfig(p *patient) string {
	if p.config == nil {
		return "no configuration"
	}
	return ""
}

func needBoth(p *patient) string {
	return cmp.Or(needConfig(p), needEngine(p))
}

// diagnose runs all checks and shows each.
func diagnose(ctx context.Context, g *globals, flags map[string]string, show func(check)) {
	p := &patient{}
	show(check{"configuration", p.readConfig(g, flags)})
	show(check{"engine", p.reachEngine(ctx)})
	if p.host != nil {
		defer p.host.Close()
	}
	for _, c := range checks {
		missing := ""
		if c.needs != nil {
			missing = c.needs(p)
		}
		if missing == notThisEngine {
			continue
		}
		if missing != "" {
			show(check{c.name, skip("%s", missing)})
			continue
		}
		show(check{c.name, c.make(ctx, p)})
	}
}

// profiles are the configured ones, by name; none without a
// configuration.
func (p *patient) profiles() map[string]sandbox.Profile {
	if p.config == nil {
		return nil
	}
	return p.config.Profiles
}

// networks are those that users made and the configuration gives to commands.
func (p *patient) networks() []string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(p.profiles())) {
		if network := p.profiles()[name].Network; network != "none" && network != "bridge" {
			list = appendNew(list, network)
		}
	}
	return list
}

func (p *patient) readConfig(g *globals, flags map[string]string) finding {
	c, err := g.loadConfig(flags)
	if err != nil {
		return configProblem(err)
	}
	p.config = c
	profiles := strings.Join(slices.Sorted(maps.Keys(c.Profiles)), ", ")
	if c.File == "" {
		return ok("no sandbox.yaml: using the defaults, with profile %s", profiles)
	}
	return ok("%s, with profiles %s", c.File, profiles)
}

// configProblem reports one problem with its own hint, and several in a row.
func configProblem(err error) finding {
	problems, _ := errors.AsType[config.Problems](err)
	if one, is := errors.AsType[*config.Problem](err); is {
		problems = config.Problems{one}
	}
	if len(problems) == 1 && problems[0].Hint != "" {
		bare := *problems[0]
		bare.Hint = ""
		return fail(problems[0].Hint, "%v", &bare)
	}
	return fail("fix the configuration, then run: belljar doctor", "%s", strings.ReplaceAll(err.Error(), "\n", "; "))
}

// reachEngine connects. Without a configuration it looks only where the
// docker command would.
func (p *patient) reachEngine(ctx context.Context) finding {
	c, which := &config.Config{Engine: config.Engine{Kind: config.EngineDocker}}, " (docker's default, because the configuration has errors)"
	if p.config != nil {
		c, which = p.config, ""
	}
	host, err := belljar.Connect(ctx, c)
	if err != nil {
		return p.problem(err)
	}
	if p.docker, _ = host.Engine.(*docker.Engine); p.docker == nil {
		p.host = host
		if p.cluster() != nil {
			return p.aboutKubernetes(ctx)
		}
		return p.aboutOCI()
	}
	if p.about, err = p.docker.About(ctx); err != nil {
		host.Close()
		return p.problem(err)
	}
	p.host = host
	a := p.about
	return ok("docker: %s at %s%s, API %s (engine up to %s, belljar up to %s); %s, Linux %s", a.Version, a.Host, which, a.API.Used, a.API.Engine, a.API.Client, a.Machine.OS, a.Machine.Kernel)
}

// circular is a hint that brought the user here.
const circular = "see: belljar doctor"

// last is what there is to look at where an error has no better hint.
func (p *patient) last() string {
	switch p.kind() {
	case config.EngineKubernetes:
		in := ""
		if p.host != nil {
			in = " -n " + p.cluster().Namespace()
		} else if named := p.config.Engine.Kubernetes.Namespace; named != "" {
			in = " -n " + named
		}
		return "see what the cluster says: kubectl get events" + in + "; kubectl auth can-i --list" + in
	case config.EngineOCI:
		return "see the kernel's log: journalctl -k"
	}
	return "see the engine's log: journalctl -u docker"
}

// problem is a failure of belljar or the engine, with its hint as the fix.
func (p *patient) problem(err error) finding { return problem(err, p.last()) }

func problem(err error, last string) finding {
	e, is := errors.AsType[*sandbox.Error](err)
	if !is {
		return fail(last, "%v", err)
	}
	text := err.Error()
	for ; is; e, is = errors.AsType[*sandbox.Error](e.Err) { // the underlying error may have a better hint
		text = strings.Replace(text, " ("+e.Hint+")", "", 1)
		fix := strings.TrimSuffix(e.Hint, "; "+circular)
		if fix = strings.TrimPrefix(strings.TrimPrefix(fix, circular), "; "); fix != "" {
			return fail(fix, "%s", text)
		}
	}
	return fail(last, "%s", text)
}

func appendNew(list []string, text string) []string {
	if text == "" || slices.Contains(list, text) {
		return list
	}
	return append(list, text)
}
