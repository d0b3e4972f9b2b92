package main

import (
	"context"

	"belljar/config"
	"belljar/eval"
	evalrun "belljar/eval/run"
	"belljar/eval/suite"
	"belljar/sandbox"

	"github.com/spf13/pflag"
)

// evalAllow is what tasks may ask for.
type evalAllow struct{ shared, network, build, root bool }

func (a *evalAllow) flags(flags *pflag.FlagSet) {
	flags.BoolVar(&a.shared, "allow-shared", false, "let tasks be graded in the agent's container if they say so: such scores are unsealed")
	flags.BoolVar(&a.network, "allow-network", false, "give tasks a network if they say so, and the engine has one")
	flags.BoolVar(&a.build, "allow-build", false, "have Docker's engine build images of Dockerfiles that need it: what they run is root there, without belljar's lock-down")
	flags.BoolVar(&a.root, "root", false, "run all tasks with a root user and a writable root, not only those that say so")
}

// again adds the flags for what a run that is resumed or graded again does on this host.
func (a *evalAllow) again(flags *pflag.FlagSet) {
	flags.BoolVar(&a.network, "allow-network", false, "if the run has it: give tasks a network if they say so")
	flags.BoolVar(&a.build, "allow-build", false, "if the run has it: have Docker's engine build images of its Dockerfiles, outside belljar's lock-down")
}

// named refuses a run that does on this host what its operator did not name: its directory may come from anywhere.
func (a *evalAllow) named(o evalrun.Options) error {
	for _, one := range []struct {
		flag     string
		was, now bool
	}{{"--allow-network", o.AllowNetwork, a.network}, {"--allow-build", o.AllowBuild, a.build}} {
		switch {
		case one.was && !one.now:
			return sandbox.Invalid("if its tasks may do that on this host, name it again: "+one.flag, "the run was begun with %s", one.flag)
		case one.now && !one.was:
			return sandbox.Invalid("leave it out", "the run was begun without %s", one.flag)
		}
	}
	return nil
}

// options are those of a run, which a resumed one keeps.
func (a *evalAllow) options(o *evalrun.Options) {
	o.AllowShared, o.AllowNetwork, o.Root = o.AllowShared || a.shared, o.AllowNetwork || a.network, o.Root || a.root
	o.AllowBuild = o.AllowBuild || a.build
}

func allowed(o evalrun.Options) suite.Allow {
	return suite.Allow{Shared: o.AllowShared, Network: o.AllowNetwork, Build: o.AllowBuild, Root: o.Root}
}

// rootedProfile is the name of the profile for tasks with a root user. No configuration has it: names
// begin with a letter or a digit.
const rootedProfile = "-root"

// addRooted adds that profile.
func (f *evalFlags) addRooted(c *config.Config, tasks []suite.Task) {
	c.Profiles[rootedProfile] = eval.Rooted(c.Profiles[f.profile], tasks)
}

// refuse refuses tasks that the engine or the agent cannot do.
func refuse(ctx context.Context, h *eval.Harness, agent evalrun.Agent) error {
	for _, t := range h.Tasks {
		if agent.Kind == evalrun.Solutions && len(t.Steps.List) > 0 {
			return sandbox.Invalid("leave it out with --filter, or use an agent", "task %q has several steps, and answers made elsewhere are to one", t.ID)
		}
	}
	return h.Refuse(ctx)
}
