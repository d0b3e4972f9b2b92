package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"belljar/sandbox"
	"belljar/sandbox/docker"

	"github.com/spf13/cobra"
	"mvdan.cc/sh/v3/syntax"
)

const runHelp = `Run one command as "sh -c" in a fresh, locked-down container.

One argument is a shell script, passed on as it is; several are quoted and
joined. The command's stdout and stderr are belljar's; belljar's own words go to
stderr, each line beginning with "belljar: ".

The exit status is the command's own, or
  124  a timeout passed          126  denied by policy, or not executable
  125  belljar or the engine     127  not found
       failed, or a usage error  130  canceled
                                 137  killed: SIGKILL, memory, output limit

Ctrl-C cancels the command; twice kills it at once.

With -t the command has a terminal, with stdout for both its streams. With -it it
is yours: keys such as Ctrl-C, Ctrl-Z and Ctrl-D are the command's. TERM is as
here, and PAGER is cat, unless -e says otherwise. An idle timeout passes in a
terminal, too: --idle-timeout 0 turns it off.

With --session NAME the container is kept: files and background processes carry
over to the next command, and nothing else does. Commands in a session run one at
a time. What a command leaves in the background should not hold its output: write
>log 2>&1 &. A timeout, or Ctrl-C, ends the session's container, unless --on-timeout
command is given; the next command is told, and gets a new one.`

const runExamples = `  belljar run 'echo out; echo err >&2; exit 3'
  belljar run -- ls -la '/a b'
  belljar run --idle-timeout 30s --memory 1GiB -v "$PWD:/work:ro" 'make test'
  tar c . | belljar run -i 'tar x && ls'
  belljar run -it sh
  belljar run --session dev 'python3 -m http.server >log 2>&1 &'
  belljar run --format json 'sleep 100 & echo started' | jq .lingering`

// runFlags are run's flags. Those that are keys of sandbox.yaml go through the
// configuration, which knows their units and limits.
type runFlags struct {
	keys    map[string]string
	profile string
	env     []string
	envFile []string
	volumes []string
	mounts  []string
	stdin   bool
	tty     bool
	format  string
	live    string
	safe    bool
	file    string

	session  string
	parallel bool
	existing bool // the session must be there already
}

func runCmd(g *globals) *cobra.Command {
	f := &runFlags{keys: map[string]string{}}
	cmd := &cobra.Command{
		Use:     "run [flags] [--] COMMAND [ARG...]",
		Short:   "Run one command in a fresh container",
		Long:    runHelp,
		Example: runExamples,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runRun(cmd.Context(), g, f, args)
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&f.session, "session", "", "run in the container of session `NAME`, which is kept for further commands")
	completeRun(cmd, g)
	return cmd
}

// add adds the flags of all commands that run one.
func (f *runFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SetInterspersed(false) // what follows COMMAND is the command's
	for _, k := range []struct{ name, short, key, value, usage string }{
		{"timeout", "", "timeout", "DURATION", "end the command after this long, such as 10m"},
		{"idle-timeout", "", "idle_timeout", "DURATION", "end it after this long without output; 0 is never"},
		{"max-output", "", "limits.output", "SIZE", "keep this much of its output for the result, such as 16MiB"},
		{"on-timeout", "", "on_timeout", "WHAT", "in a session, a timeout ends its container, or only the command"},
		{"on-output-limit", "", "on_output_limit", "ACTION", "past that, truncate what is kept, or end the command"},
		{"memory", "m", "limits.memory", "SIZE", "memory and swap together, such as 512MiB"},
		{"cpus", "", "limits.cpus", "NUMBER", "CPUs it may use"},
		{"pids-limit", "", "limits.pids", "NUMBER", "processes and threads it may have"},
		{"network", "", "network", "NAME", "none, bridge or another network of the engine's"},
		{"runtime", "", "engine.runtime", "NAME", "OCI runtime, such as runsc"},
		{"image", "", "image", "REFERENCE", "image to run in"},
		{"pull", "", "pull", "WHEN", "fetch the image: always, missing or never"},
		{"workdir", "w", "workdir", "DIR", "working directory inside the container"},
		{"user", "u", "user", "UID:GID", "whom to run as, not 0"},
		{"view", "", "view.mode", "MODE", "views of the output in the result: none, separate or merged"},
		{"view-bytes", "", "view.bytes", "SIZE", "text in a view, such as 32KiB: its beginning and its end"},
		{"view-lines", "", "view.lines", "NUMBER", "lines in a view"},
		{"view-line-chars", "", "view.line_chars", "NUMBER", "characters of one line in a view"},
		{"charset", "", "view.charset", "NAME", "what the output is encoded in, such as shift_jis, where not to be detected"},
		{"live-every", "", "view.every", "DURATION", "time between two live views, such as 1s"},
	} {
		flags.VarP(&keyFlag{f.keys, k.key, k.value}, k.name, k.short, k.usage)
	}
	flags.StringVar(&f.profile, "profile", sandbox.DefaultProfile, "`PROFILE` of sandbox.yaml")
	flags.StringArrayVarP(&f.env, "env", "e", nil, "set `K=V`, or pass on K from here if env.allow has it")
	flags.StringArrayVar(&f.envFile, "env-file", nil, "set the variables in `FILE`")
	flags.StringArrayVarP(&f.volumes, "volume", "v", nil, "mount `SOURCE:TARGET[:ro]` if mounts.allow has it")
	flags.StringArrayVar(&f.mounts, "mount", nil, "the same as `type=bind,source=S,target=T[,readonly]`")
	flags.BoolVarP(&f.stdin, "interactive", "i", false, "pass stdin on to the command")
	flags.BoolVarP(&f.tty, "tty", "t", false, "give the command a terminal; with -i it is yours")
	flags.StringVar(&f.format, "format", "text", "`FORMAT`: text (the streams as they are), json (one result) or ndjson (events)")
	flags.StringVar(&f.live, "live", string(sandbox.LiveRaw), "events tell of all output as it comes (`MODE` raw), or now and then of its end (view)")
	flags.BoolVar(&f.safe, "safe", false, "make visible what a terminal would act on in the command's output")
	flags.StringVar(&f.file, "output-file", "", "write all output to `FILE`, too, as it is")
	flags.BoolVar(&f.parallel, "parallel", false, "do not wait for the session's other parallel commands")
}

// keyFlag is a flag that sets a key of the configuration.
type keyFlag struct {
	keys  map[string]string
	key   string
	value string // what help calls the flag's value
}

func (k *keyFlag) String() string     { return k.keys[k.key] }
func (k *keyFlag) Type() string       { return k.value }
func (k *keyFlag) Set(v string) error { k.keys[k.key] = v; return nil }

// script is the command line's one script.
func script(args []string) (string, error) {
	if len(args) <= 1 {
		return strings.Join(args, ""), nil
	}
	quoted := make([]string, len(args))
	for i, arg := range args {
		var err error
		if quoted[i], err = syntax.Quote(arg, syntax.LangPOSIX); err != nil {
			return "", usagef("argument %d cannot be quoted for a POSIX shell: %v", i+1, err)
		}
	}
	return strings.Join(quoted, " "), nil
}

func runRun(ctx context.Context, g *globals, f *runFlags, args []string) error {
	show, err := newPrinter(f.format)
	if err != nil {
		return err
	}
	ctx, kill, stop := interruptible(ctx)
	defer stop()
	command, err := f.command(args)
	if err != nil {
		return show.refused(command, err)
	}
	if err := f.check(); err != nil {
		return show.refused(command, err)
	}
	terminal, err := newTerminal(ctx, f)
	if err != nil {
		return show.refused(command, err)
	}
	defer terminal.close()
	terminal.lend(&command, show)
	c, err := g.loadConfig(f.keys)
	if err != nil {
		return show.refused(command, err)
	}
	if os.Getenv("BELLJAR_HOST") != "" {
		return show.refused(command, errSidecar)
	}
	if p, ok := c.Profiles[f.profile]; ok && f.format == "text" && !show.terminal {
		p.Summarize = sandbox.Summarize{} // nobody would see it
		c.Profiles[f.profile] = p
	}
	boundMemory(c.Profiles[f.profile].Limits.Output)
	engine, err := docker.Connect(ctx, c.Engine.Host)
	if err != nil {
		return show.refused(command, err)
	}
	defer engine.Close()
	release := startGuard(engine.Host())
	defer release()
	runner := newRunner(c, engine)
	defer runner.Close()
	defer sweep(ctx, engine, runner, show)()
	if f.existing {
		if err := haveSession(ctx, runner, f.session); err != nil {
			return show.refused(command, err)
		}
	}
	if err := f.output(show); err != nil {
		return show.refused(command, err)
	}
	x, err := runner.Start(ctx, command)
	if err != nil {
		return show.refused(command, err)
	}
	show.file.begin()
	return follow(x, show, terminal, kill, release)
}

// sweep removes what crashes left, beside the command; the function it returns
// ends that.
func sweep(ctx context.Context, engine *docker.Engine, runner *sandbox.Local, show *printer) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan int, 1)
	go func() {
		removed, _ := engine.Sweep(ctx) // what fails here, doctor tells
		runner.ExpireSessions(ctx)
		runner.SweepLogs(ctx)
		done <- removed
	}()
	return func() {
		cancel()
		if removed := <-done; removed > 0 && show.terminal {
			show.say(fmt.Sprintf("removed %d containers that an earlier belljar left behind", removed))
		}
	}
}

// boundMemory keeps our own memory small beside the output that a result holds,
// and lets the collector rest below that: a flood makes garbage as fast as it
// comes. GOMEMLIMIT wins.
func boundMemory(output int64) {
	const rest = 16 << 20 // events under way, and everything else
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(rest + output + output/4)
		debug.SetGCPercent(400)
	}
}

// errSidecar refuses to run here what is meant for elsewhere.
var errSidecar = &sandbox.Error{Cause: sandbox.CauseInvalid, Message: "BELLJAR_HOST names a sidecar, and this version cannot use one",
	Hint: "unset BELLJAR_HOST to run the command with this host's engine"}

// follow shows the command's events until its result, and says when it started.
func follow(x sandbox.Execution, show *printer, terminal *terminal, kill <-chan struct{}, started func()) error {
	for {
		select {
		case <-kill:
			x.Kill()
			kill = nil
		case event, more := <-x.Events():
			if !more {
				return show.exit()
			}
			switch event.Type {
			case sandbox.EventStart:
				started()
				terminal.begin()
			case sandbox.EventResult:
				terminal.restore() // what is said now is ours
			}
			if err := show.event(event); err != nil {
				x.Kill() // nobody reads it any more: the command has no purpose
			}
		}
	}
}

// check refuses flags that make no sense together.
func (f *runFlags) check() error {
	live := f.live == string(sandbox.LiveView)
	switch {
	case live && f.format != "ndjson":
		return usagef("--live view is told in events: add --format ndjson")
	case live && f.file != "":
		return usagef("--live view tells of the output's end only: leave out --output-file")
	case f.safe && f.tty:
		return usagef("--safe leaves nothing of a terminal's screen: leave out -t")
	}
	return nil
}

// output sees to where the command's output goes.
func (f *runFlags) output(show *printer) error {
	if f.safe {
		show.safe()
	}
	if f.file == "" {
		return nil
	}
	// What is in it stays until the command is not refused any more.
	file, err := os.OpenFile(f.file, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return &sandbox.Error{Cause: sandbox.CauseInvalid, Message: "opening the output file", Err: err, Hint: "--output-file: name a file that can be written"}
	}
	show.file = &outputFile{file: file}
	return nil
}

func (f *runFlags) command(args []string) (sandbox.Command, error) {
	text, err := script(args)
	c := sandbox.Command{Script: text, Profile: f.profile, Session: f.session, Parallel: f.parallel, Inherit: os.Environ()}
	if err != nil {
		return c, err
	}
	switch c.Live = sandbox.LiveMode(f.live); c.Live {
	case sandbox.LiveRaw, sandbox.LiveView:
	default:
		return c, usagef("--live %q is unknown: use raw or view", f.live)
	}
	if c.Env, err = envs(f.envFile, f.env); err != nil {
		return c, err
	}
	if c.Mounts, err = mounts(f.volumes, f.mounts); err != nil {
		return c, err
	}
	if f.stdin {
		c.Stdin = io.Reader(os.Stdin)
	}
	return c, nil
}
