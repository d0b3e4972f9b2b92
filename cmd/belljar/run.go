package main

import (
	"context"
	"errors"

	"belljar/sandbox"

	"github.com/spf13/cobra"
)

const runHelp = `Run one command as "sh -c" in a new, locked-down container; --shell bash or auto
chooses another shell.

A single argument is a shell script. Several arguments are a program and its
arguments: belljar quotes and joins them. Script and environment can have 1.9 MiB
together. The command's stdout and stderr go to belljar's stdout and stderr.
belljar's own messages go to stderr and begin with "belljar: ".

The exit status is the command's own, or
  124  timeout                   126  denied by policy, or not executable
  125  belljar or the engine     127  not found
       failed, or a usage error  130  canceled
                                 137  killed: SIGKILL, memory, output limit

--format report prints a text for a language model instead: what happened, why, what
usually helps, and a bounded view of the output. report-brief leaves out what the
caller knows. What comes first in it is belljar's, the output is at the end.

With --format json or ndjson, stdout always has exactly one result with a cause,
even if belljar fails. A wrong flag, value or sandbox.yaml has the cause
invalid_command.

Ctrl-C cancels the command: belljar lists its processes and kills them. A second
Ctrl-C kills them without the list.

With --detach, belljar prints the command's ID and returns when the command has
started, or waits for its session. belljar wait ID prints the output and the result,
belljar kill ID ends the command, and belljar ps lists what is running. A command that
is refused is reported as usual.

If the command policy says ask, belljar asks for your approval at the terminal: once
for each command or, if you answer "always" in a session, once for its programs
until the session ends. --yes approves everything, and the audit log says so.
Without a terminal, or without an answer within policy.ask_timeout, the command is
denied.

With -t the command gets a terminal, and its stdout and stderr are one stream. With
-it it is your terminal: keys such as Ctrl-C, Ctrl-Z and Ctrl-D go to the command.
TERM is the same as yours and pagers are cat, unless -e sets them. The idle timeout
applies, too: --idle-timeout 0 turns it off.

With --session NAME the container is kept: files and background processes stay for
the next command, but not variables or the directory. Commands in a session run one
at a time.
Redirect the output of background processes: server >log 2>&1 &. A timeout or Ctrl-C
ends the session's container, unless you add --on-timeout command. The next command
reports that, and gets a new container.

With -H ADDRESS, or BELLJAR_HOST, the command runs at a sidecar (belljar serve): with
its configuration, policy, images and sessions, and with mounts of its host. Your
sandbox.yaml and BELLJAR_* settings have no effect, and of your environment it gets
only what -e names. If the connection breaks, the command runs on, and belljar
continues with its output when the sidecar answers again; if it does not for 30s, the
cause is engine_lost. If the policy says ask, those who may approve at the sidecar are
asked. BELLJAR_TOKEN_FILE names a file with the token, if the sidecar needs one, or
BELLJAR_TOKEN is the token; BELLJAR_TLS_CA, BELLJAR_TLS_CERT and BELLJAR_TLS_KEY name
PEM files for https.`

const runExamples = `  belljar run 'echo out; echo err >&2; exit 3'
  belljar run -- ls -la '/a b'
  belljar run --idle-timeout 30s --memory 1GiB -v "$PWD:/work:ro" 'make test'
  tar c . | belljar run -i 'tar x && ls'
  belljar run -it sh
  id=$(belljar run -d 'make test'); belljar wait "$id"
  belljar run --session dev 'python3 -m http.server >log 2>&1 &'
  belljar run --format json 'sleep 100 & echo started' | jq .lingering
  belljar run -H unix:///run/belljar/belljar.sock 'make test'
  belljar run --template review.md --args 'main..topic' -v "$PWD:/work:ro"`

func runCmd(g *globals) *cobra.Command {
	f := &runFlags{keys: map[string]string{}}
	cmd := &cobra.Command{
		Use:     "run [flags] [--] COMMAND [ARG...]",
		Short:   "Run one command in a new container",
		Long:    runHelp + templateHelp,
		Example: runExamples,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runRun(cmd.Context(), g, f, args)
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&f.session, "session", "", "run in session `NAME`: its container is kept for later commands")
	completeRun(cmd, g)
	return cmd
}

// templateHelp is part of run's help.
const templateHelp = `

With --template FILE there is no COMMAND. FILE is a text in which belljar replaces
each !{COMMAND} with the output of that command and its exit status, and {{args}}
with --args: as one quoted word in a command, as text elsewhere. The policy judges
all commands before the first one runs; if one is denied, none runs. belljar prints
the text when all commands have ended. If a later command cannot run, belljar stops
there and prints the text so far.`

// runRun shows why a command did not run, in the requested format.
func runRun(ctx context.Context, g *globals, f *runFlags, args []string) error {
	show, err := newPrinter(f.format)
	if err != nil {
		return err
	}
	var command sandbox.Command
	if f.detach && g.supervisor == nil && g.sidecar() == "" {
		if err = f.check(); err == nil {
			err = startSupervisor(ctx, show)
		}
	} else {
		err = runShown(ctx, g, f, args, &command, show)
	}
	if _, told := errors.AsType[exitError](err); err == nil || told {
		return err
	}
	return show.refused(command, err)
}

// runShown runs the command that the flags describe, and fills it in.
func runShown(ctx context.Context, g *globals, f *runFlags, args []string, command *sandbox.Command, show *printer) error {
	ctx, kill, stop := interruptible(ctx)
	defer stop()
	ctx, unwatch := g.supervisor.watch(ctx)
	defer unwatch()
	var err error
	if *command, err = f.command(ctx, args); err != nil {
		return err
	}
	if err := f.check(); err != nil {
		return err
	}
	fill, err := openTemplate(ctx, f, args, show)
	if err != nil {
		return err
	}
	terminal, err := newTerminal(ctx, f)
	if err != nil {
		return err
	}
	defer terminal.close()
	terminal.lend(command, show)
	runner, err := f.open(ctx, g, command, show)
	if err != nil {
		return err
	}
	defer runner.close()
	if f.detach && g.supervisor == nil {
		return detachThere(ctx, runner, *command, show)
	}
	if err := f.output(ctx, show); err != nil {
		return err
	}
	if fill != nil {
		return fill.run(ctx, runner, *command, kill)
	}
	x, err := runner.Start(ctx, *command)
	if err != nil {
		return err
	}
	show.file.begin()
	if g.supervisor != nil {
		g.supervisor.stdin = f.stdin
		return g.supervisor.follow(ctx, x, runner, show, kill)
	}
	err = follow(x, show, terminal, kill)
	if show.terminal && f.format == "text" && runner.isHere != nil {
		if hint := meantImage(args, show.result, runner.isHere); hint != "" {
			show.say(hint)
		}
	}
	return err
}

// follow shows the command's events until its result.
func follow(x sandbox.Execution, show *printer, terminal *terminal, kill <-chan struct{}) error {
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
				terminal.begin()
			case sandbox.EventResult:
				terminal.restore() // from here on, belljar writes to it
			}
			if err := show.event(event); err != nil {
				x.Kill() // without a reader the command has no purpose
			}
		}
	}
}
