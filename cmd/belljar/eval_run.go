package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	evalrun "belljar/eval/run"
	"belljar/sandbox"

	"github.com/spf13/cobra"
)

const evalRunHelp = `Have an agent solve tasks, and grade what it made. PATH is a .jsonl file of plain
tasks, a task folder, or a folder of them.

AGENT is
  oracle        the tasks' own solutions: all should pass
  nop           does nothing: none should pass
With --solutions FILE or DIR, answers that were made elsewhere are graded instead:
lines of JSON, {"id", "answer"}, or a file or directory for each task.

With -- COMMAND, a program of yours on this host is the agent. It is started for each trial,
without a shell, and works in the trial's container with
  belljar run --session "$BELLJAR_SESSION" 'make test'
  BELLJAR_INSTRUCTION   a file with the instruction, and nothing else of the task
  BELLJAR_TASK, BELLJAR_TRIAL
                        the task's name, and the number of the trial
  BELLJAR_HOST          a sidecar that has this one container and nothing else
When it ends or its time is up, all its processes are ended, and then those in the
container. What it left there is graded even if it failed.

--out names the run's directory, which is new or empty. It has run.json,
results.jsonl with a line for each trial, logs, and the artifacts that were graded.
If belljar is killed, "belljar eval resume DIR" does the rest.

A verdict is passed, failed, tampered, timeout, oom, skipped or error. An error of side
infrastructure says nothing about the solution and is retried; it is not counted as
failed.

--sign writes a receipt that others can verify with the public key: belljar eval verify.
To make a pair of keys:
  openssl genpkey -algorithm ed25519 -out key.pem && chmod 600 key.pem
  openssl pkey -in key.pem -pubout -out key.pub

The exit status is 0 if all trials passed, 1 if some did not, and 125 if some ended
with an error, or belljar failed.`

// evalFlags are the flags of what runs trials.
type evalFlags struct {
	agent, solutions, out, profile string
	command                        []string
	filter, shard                  string
	jobs, trials, retries          int
	failFast, noControls           bool
	format                         string
	output                         evalOutput
	allow                          evalAllow
}

func (f *evalFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.profile, "profile", sandbox.DefaultProfile, "profile of sandbox.yaml, without its mounts, secrets and network")
	cmd.Flags().IntVar(&f.jobs, "jobs", 0, "trials at the same time (default: as many as the CPUs and the available memory of this host are enough for, by the limits of their tasks)")
	formatFlag(cmd, &f.format)
}

// addFailFast is not for what compares, or tests a suite: without all trials that says nothing.
func (f *evalFlags) addFailFast(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.failFast, "fail-fast", false, "end with the first trial that does not pass: those that run are cut off, and skipped")
}

// addOutput adds the flags of what makes a run's directory.
func (f *evalFlags) addOutput(cmd *cobra.Command) {
	f.output.flags(cmd.Flags())
	f.output.signFlags(cmd.Flags())
}

func evalRunCmd(g *globals) *cobra.Command {
	f := &evalFlags{}
	cmd := &cobra.Command{
		Use:   "run PATH... --out DIR (--agent AGENT | --solutions FILE | -- COMMAND...)",
		Short: "Solve tasks, and grade the solutions",
		Long:  evalRunHelp,
		Example: `  belljar eval run tasks.jsonl --agent oracle --out runs/oracle
  belljar eval run tasks.jsonl --solutions answers.jsonl --trials 5 --out runs/1
  belljar eval run ./tasks --out runs/3 -- python3 agent.py --model small
  belljar eval run tasks.jsonl --agent oracle --out runs/2 --junit junit.xml --html report.html --sign key.pem`,
		Args: needSuite,
		RunE: stoppable(func(cmd *cobra.Command, args []string) error {
			if at := cmd.ArgsLenAtDash(); at >= 0 {
				args, f.command = args[:at], args[at:]
			}
			return f.begin(cmd, g, args)
		}),
	}
	f.add(cmd)
	f.addFailFast(cmd)
	f.addOutput(cmd)
	f.allow.flags(cmd.Flags())
	cmd.Flags().StringVar(&f.agent, "agent", "", "who solves the tasks: `AGENT` is oracle or nop")
	cmd.Flags().StringVar(&f.solutions, "solutions", "", "grade the answers in this `FILE` or directory")
	cmd.Flags().StringVar(&f.out, "out", "", "the run's `DIR`ectory")
	cmd.Flags().IntVar(&f.trials, "trials", 1, "trials of each task")
	cmd.Flags().IntVar(&f.retries, "retries", 2, "times that a trial is repeated if the infrastructure fails it")
	cmd.Flags().StringVar(&f.filter, "filter", "", "only tasks whose names match this `GLOB`")
	cmd.Flags().StringVar(&f.shard, "shard", "", "only the `I/N`th part of the tasks, such as 2/5")
	cmd.Flags().BoolVar(&f.noControls, "no-controls", false, "grade once, without controls: a solution that cheats the tests passes")
	return cmd
}

func needSuite(cmd *cobra.Command, args []string) error {
	if len(args) > 0 && cmd.ArgsLenAtDash() != 0 {
		return nil
	}
	return sandbox.Invalid("such as: belljar eval run tasks.jsonl --agent oracle --out runs/1", "no suite is named")
}

// agentOf is the agent that the flags name.
func (f *evalFlags) agentOf() (evalrun.Agent, error) {
	given := 0
	for _, one := range []bool{f.agent != "", f.solutions != "", len(f.command) > 0} {
		if one {
			given++
		}
	}
	switch {
	case given != 1:
		return evalrun.Agent{}, sandbox.Invalid("use one of --agent oracle, --agent nop, --solutions FILE, or -- COMMAND", "%d agents are named", given)
	case len(f.command) > 0:
		return agentProgram(f.command)
	case f.solutions != "":
		path, err := filepath.Abs(f.solutions)
		return evalrun.Agent{Kind: evalrun.Solutions, Path: path}, err
	}
	switch kind := evalrun.AgentKind(f.agent); kind {
	case evalrun.Oracle, evalrun.Nop:
		return evalrun.Agent{Kind: kind}, nil
	}
	return evalrun.Agent{}, sandbox.Invalid("use oracle or nop, or a program of your own: -- COMMAND", "agent %q is unknown", f.agent)
}

func (f *evalFlags) begin(cmd *cobra.Command, g *globals, paths []string) error {
	agent, err := f.agentOf()
	if err != nil {
		return err
	}
	if f.out == "" {
		return sandbox.Invalid("name a new directory: --out runs/1", "the run needs a directory")
	}
	if f.trials < 1 || f.retries < 0 || f.jobs < 0 {
		return sandbox.Invalid("use at least 1 for --trials, and 0 or more for the others", "--trials, --jobs or --retries is too small")
	}
	for i := range paths {
		if paths[i], err = filepath.Abs(paths[i]); err != nil {
			return err
		}
	}
	r := evalrun.Run{
		Version: evalrun.Version, ID: newRunID(), Started: time.Now().UTC().Truncate(time.Second), Belljar: strings.TrimSpace(versionLine()),
		Suite: evalrun.Suite{Paths: paths}, Agent: agent, Trials: f.trials,
		Options: evalrun.Options{Controls: !f.noControls, Retries: f.retries, Filter: f.filter, Shard: f.shard},
	}
	e, err := f.open(cmd.Context(), g, &r)
	if err != nil {
		return err
	}
	defer e.close()
	dir, err := evalrun.Create(f.out, r)
	if err != nil {
		return err
	}
	defer dir.Close()
	return e.run(cmd, g, f, dir)
}

func evalResumeCmd(g *globals) *cobra.Command {
	f := &evalFlags{}
	cmd := &cobra.Command{
		Use:   "resume DIR [-- COMMAND...]",
		Short: "Finish a run that was ended",
		Long: `Finish a run whose belljar was ended or killed: run the trials without a result, and those
that the infrastructure failed. Containers that it left are removed. The suite, the
answers, the settings and the version of belljar must be those of the run: otherwise it is
refused. If its agent is a program on this host, name it again, and --profile,
--allow-network and --allow-build, too: the run's directory may come from anywhere, and what
runs on your host is what you say.`,
		Example: `  belljar eval resume runs/1
  belljar eval resume runs/3 -- python3 agent.py --model small`,
		Args: cobra.MinimumNArgs(1),
		RunE: stoppable(func(cmd *cobra.Command, args []string) error {
			if at := cmd.ArgsLenAtDash(); at >= 0 {
				args, f.command = args[:at], args[at:]
			}
			if len(args) != 1 {
				return usagef("name one run's directory")
			}
			dir, err := evalrun.Continue(args[0])
			if err != nil {
				return err
			}
			defer dir.Close()
			if err := f.resumes(dir); err != nil {
				return err
			}
			again := dir.Run
			e, err := f.open(cmd.Context(), g, &again)
			if err != nil {
				return err
			}
			defer e.close()
			if err := same(dir.Run, again); err != nil {
				return err
			}
			return e.run(cmd, g, f, dir)
		}),
	}
	f.add(cmd)
	f.addFailFast(cmd)
	f.addOutput(cmd)
	f.allow.again(cmd.Flags())
	return cmd
}

// resumes refuses to continue a run with another belljar, or with a program on this host that its operator did not name.
func (f *evalFlags) resumes(dir *evalrun.Dir) error {
	was := dir.Run
	if own := strings.TrimSpace(versionLine()); was.Belljar != own {
		return sandbox.Invalid("use the belljar that began it, or begin a new run", "the run was begun by %.100q, and this is %q", was.Belljar, own)
	}
	if err := f.allow.named(was.Options); err != nil {
		return err
	}
	if was.Agent.Kind == evalrun.Regrade && f.failFast {
		return sandbox.Invalid("leave out --fail-fast", "the run grades another again, and compares all of its verdicts")
	}
	if was.Agent.Kind != evalrun.Program {
		if len(f.command) > 0 {
			return sandbox.Invalid("leave it out", "a command is named, and the run's agent is none")
		}
		return nil
	}
	here, err := os.Getwd()
	if err == nil && (here != was.Agent.Dir || !slices.Equal(f.command, was.Agent.Command)) {
		err = sandbox.Invalid("if that is to run on this host, go to that directory, and name it after the run's: belljar eval resume DIR -- COMMAND", "the run's agent is the program %q in the directory %q", was.Agent.Command, was.Agent.Dir)
	}
	return err
}

// same refuses to continue a run as something else.
func same(was, is evalrun.Run) error {
	const hint = "restore it, or begin a new run"
	digests := map[string]string{}
	for _, t := range is.Tasks {
		digests[t.ID] = fmt.Sprint(t.SHA256, t.Digest, t.Images)
	}
	for _, t := range was.Tasks {
		if digests[t.ID] != fmt.Sprint(t.SHA256, t.Digest, t.Images) {
			return sandbox.Invalid(hint, "task %q or one of its images changed since the run began", t.ID)
		}
	}
	switch {
	case was.Suite.SHA256 != is.Suite.SHA256:
		return sandbox.Invalid(hint, "the suite has other tasks than when the run began")
	case was.Agent.SHA256 != is.Agent.SHA256:
		return sandbox.Invalid(hint, "the answers, or the earlier run, changed since the run began")
	case was.Config != is.Config:
		return sandbox.Invalid(hint+"; name its --profile, if it has one", "the profile's settings are not those that the run began with")
	}
	return nil
}
