package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path"
	"strings"

	"belljar/policy"
	"belljar/sandbox"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"mvdan.cc/sh/v3/syntax"
)

// runFlags are run's flags. Those for keys of sandbox.yaml go through package
// config, which knows their units and limits.
type runFlags struct {
	keys    map[string]string
	profile string
	env     []string
	envFile []string
	volumes []string
	mounts  []string
	attached
	format string
	live   string
	safe   bool
	dir    string // in the workspace
	moved

	description string
	yes         bool // approve everything
	rules       sandbox.Rules

	template string  // a file, or -
	args     *string // the template's arguments

	session  string
	parallel bool
	existing bool // the session must exist already
}

// attached is how a command is connected to belljar's caller.
type attached struct {
	stdin  bool
	tty    bool
	size   string // of the terminal, COLUMNSxROWS
	force  bool   // type stdin into it, which is no terminal
	detach bool
}

// add adds the flags of all subcommands that run a command.
func (f *runFlags) add(cmd *cobra.Command) {
	cmd.Annotations = map[string]string{tellsResult: "", takesHost: ""}
	flags := cmd.Flags()
	flags.SetInterspersed(false) // what follows COMMAND belongs to it
	for _, k := range []struct{ name, short, key, value, usage string }{
		{"timeout", "", "timeout", "DURATION", "end the command after this long, such as 10m"},
		{"idle-timeout", "", "idle_timeout", "DURATION", "end the command after this long without output; 0 means never"},
		{"idle-on", "", "idle.on", "WHAT", "what counts as activity for --idle-timeout: output, output+cpu or output+cpu+io"},
		{"idle-stdin", "", "idle.stdin", "BOOL", "whether stdin counts as activity for --idle-timeout: true or false"},
		{"max-output", "", "limits.output", "SIZE", "keep this much of the output, such as 16MiB"},
		{"max-result", "", "limits.result", "SIZE", "have this much of the kept output in the result, such as 1MiB"},
		{"streams", "", "streams", "WHAT", "what of stdout and stderr is in the result: full, view (only their views) or none; default: view with --view, otherwise full"},
		{"encoding", "", "encoding", "HOW", "output that is not UTF-8, in JSON: exact (base64) or replace (U+FFFD)"},
		{"on-timeout", "", "on_timeout", "WHAT", "what a timeout ends in a session: container (everything in it) or command"},
		{"stop-grace", "", "stop_grace", "DURATION", "send SIGTERM this long before SIGKILL, up to 1m; 0 means not at all"},
		{"on-output-limit", "", "on_output_limit", "ACTION", "if there is more output than --max-output: truncate it, or end the command"},
		{"memory", "m", "limits.memory", "SIZE", "memory and swap together, such as 512MiB"},
		{"cpus", "", "limits.cpus", "NUMBER", "CPUs that the command can use, such as 0.5"},
		{"pids-limit", "", "limits.pids", "NUMBER", "limit on processes and threads"},
		{"network", "", "network", "NAME", "none, bridge or another network of the engine"},
		{"runtime", "", "engine.runtime", "NAME", "OCI runtime, such as runsc"},
		{"image", "", "image", "REFERENCE", "image to run in"},
		{"pull", "", "pull", "WHEN", "when to pull the image: always, missing or never"},
		{"shell", "", "shell", "SHELL", "shell that runs the script: sh, bash, or auto (bash if the image has it)"},
		{"user", "u", "user", "USER", "user to run as, never root: UID:GID, NAME or NAME:GROUP of the image, or caller (who runs belljar)"},
		{"view", "", "view.mode", "MODE", "views of the output in the result: none, separate or merged; in text format, they replace the output"},
		{"view-bytes", "", "view.bytes", "SIZE", "limit on the text of a view, such as 32KiB: half for the beginning, half for the end"},
		{"view-lines", "", "view.lines", "NUMBER", "limit on the lines of a view"},
		{"view-line-chars", "", "view.line_chars", "NUMBER", "limit on the characters of one line of a view"},
		{"view-scrollback", "", "view.scrollback", "NUMBER", "lines that scrolled off the terminal's top, in the result's screen"},
		{"view-scrollback-bytes", "", "view.scrollback_bytes", "SIZE", "limit on the text of these lines"},
		{"charset", "", "view.charset", "NAME", "charset of the output, such as shift_jis; default: detect it"},
		{"live-every", "", "view.every", "DURATION", "time between two live views, such as 1s"},
	} {
		flags.VarP(&keyFlag{f.keys, k.key, k.value}, k.name, k.short, k.usage)
	}
	flags.Var(&listFlag{f.keys, "tmpfs", nil}, "tmpfs", "mount a writable tmpfs at `DIR`, in addition to /tmp and /work; limits.tmp is its size")
	flags.VarP((*workdirFlag)(f), "workdir", "w", "working directory in the container; a relative one, such as sub, is below workdir of sandbox.yaml")
	flags.StringVar(&f.profile, "profile", sandbox.DefaultProfile, "use this `PROFILE` of sandbox.yaml")
	flags.StringArrayVarP(&f.env, "env", "e", nil, "set `K=V`, or pass K from your environment if env.allow lists it")
	flags.StringArrayVar(&f.envFile, "env-file", nil, "set the variables in `FILE`")
	flags.StringArrayVarP(&f.volumes, "volume", "v", nil, "mount the host's SOURCE, or the volume of that name, at TARGET, as `SOURCE:TARGET[:ro]`, if mounts.allow permits it; only Kubernetes has volumes")
	flags.StringArrayVar(&f.mounts, "mount", nil, "the same as -v, as `type=bind,source=S,target=T[,readonly]`; a volume is of type=volume")
	flags.BoolVarP(&f.stdin, "interactive", "i", false, "pass stdin to the command")
	flags.BoolVarP(&f.tty, "tty", "t", false, "give the command a terminal; with -i, yours")
	flags.BoolVarP(&f.detach, "detach", "d", false, "run in the background: print the command's ID and return once it has started")
	flags.StringVar(&f.size, "tty-size", "", "size of the command's terminal, as `COLUMNSxROWS`, such as 120x40; default: that of your terminal, or 80x24")
	flags.BoolVar(&f.force, "force-tty", false, "with -i and -t, accept a stdin that is not a terminal: its bytes are typed in")
	flags.StringVar(&f.format, "format", "text", "output `FORMAT`: text (the command's output), json (one result), ndjson (events), report or report-brief (for a model)")
	flags.StringVar(&f.live, "live", string(sandbox.LiveRaw), "`MODE` of the events of --format ndjson: raw (all output) or view (the end of it, from time to time)")
	flags.BoolVar(&f.safe, "safe", false, "make control characters in the command's output visible")
	flags.StringVar(&f.file, "output-file", "", "also write all output to `FILE`, unchanged")
	flags.StringArrayVar(&f.files, "file", nil, "copy the local file SRC to PATH before the command starts, as `SRC[:PATH]`; PATH is relative to workdir, by default SRC's name")
	flags.StringArrayVar(&f.collect, "collect", nil, "after the command, read the files that match `PATTERN`, such as 'out/**', relative to workdir")
	flags.StringVar(&f.collectTo, "collect-to", "", "write collected files to the local directory `DIR`; with --format json they are in the result, too")
	flags.StringVar(&f.description, "description", "", "`TEXT` that says what the command is for; shown in approvals and in the audit log")
	flags.BoolVar(&f.yes, "yes", false, "approve everything that the policy asks about; belljar reports each approval")
	addRules(flags, &f.rules)
	flags.StringVar(&f.rules.Set, "set", "", "allow only what the bundled set `NAME` allows, of what the policy allows: "+strings.Join(policy.Sets(), ", "))
	flags.StringVar(&f.template, "template", "", "fill in the template `FILE`: replace each !{COMMAND} with the command's output; - is stdin")
	flags.Func("args", "`TEXT` for {{args}} in the template", func(text string) error { f.args = &text; return nil })
	flags.BoolVar(&f.parallel, "parallel", false, "run at the same time as the session's other parallel commands")
}

// addRules adds the flags of rules that narrow the policy.
func addRules(flags *pflag.FlagSet, rules *sandbox.Rules) {
	flags.StringArrayVar(&rules.Allow, "allow", nil, "allow only commands that match `PATTERN`, such as 'git status', of those that the policy allows; can be repeated")
	flags.StringArrayVar(&rules.Deny, "deny", nil, "deny commands that match `PATTERN`, such as 'git push'; can be repeated")
}

// keyFlag is a flag that sets a key of the configuration.
type keyFlag struct {
	keys  map[string]string
	key   string
	value string // the value's name in help
}

func (k *keyFlag) String() string     { return k.keys[k.key] }
func (k *keyFlag) Type() string       { return k.value }
func (k *keyFlag) Set(v string) error { k.keys[k.key] = v; return nil }

// listFlag sets a key that is a list; each use adds an item.
type listFlag struct {
	keys  map[string]string
	key   string
	items []string
}

func (l *listFlag) String() string { return "" }
func (l *listFlag) Type() string   { return "DIR" }
func (l *listFlag) Set(v string) error {
	l.items = append(l.items, v)
	text, err := json.Marshal(l.items) // JSON is YAML, too
	l.keys[l.key] = string(text)
	return err
}

// workdirFlag sets the key workdir, or a directory inside the workspace.
type workdirFlag runFlags

func (w *workdirFlag) String() string { return w.keys["workdir"] + w.dir }
func (w *workdirFlag) Type() string   { return "DIR" }
func (w *workdirFlag) Set(v string) error {
	delete(w.keys, "workdir")
	w.dir = ""
	if v == "" || path.IsAbs(v) {
		w.keys["workdir"] = v
	} else {
		w.dir = v
	}
	return nil
}

// script is the script that the arguments make.
func script(args []string) string {
	if len(args) <= 1 {
		return strings.Join(args, "")
	}
	quoted := make([]string, len(args))
	for i, arg := range args {
		quoted[i] = quote(arg, i == 0)
	}
	return strings.Join(quoted, " ")
}

// quote makes one word of any argument, for any shell. Package policy recognizes
// this form; see wordsOnly there.
func quote(arg string, first bool) string {
	plain := "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./:,+@%"
	if !first {
		plain += "=" // as the first word, NAME=value would be an assignment
	}
	if arg == "" || strings.Trim(arg, plain) != "" || first && syntax.IsKeyword(arg) {
		return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
	}
	return arg
}

// check refuses flags that contradict each other.
func (f *runFlags) check() error {
	live := f.live == string(sandbox.LiveView)
	switch {
	case f.args != nil && f.template == "":
		return usagef("--args needs a template: add --template FILE")
	case live && f.format != "ndjson":
		return usagef("--live view needs events: add --format ndjson")
	case live && f.file != "":
		return usagef("--live view shows only the end of the output: leave out --output-file")
	case f.safe && f.tty:
		return usagef("--safe and -t exclude each other: leave out one")
	case f.size != "" && !f.tty:
		return usagef("--tty-size is the size of a terminal: add -t")
	case f.force && (!f.tty || !f.stdin):
		return usagef("--force-tty types stdin into a terminal: add -i and -t")
	case f.checkMoved() != nil:
		return f.checkMoved()
	case f.inText() && f.keys["encoding"] == "replace":
		return usagef("--encoding replace is for JSON: add --format json or ndjson")
	case f.inText() && f.keys["streams"] != "":
		return usagef("--streams is about the result: add --format json or ndjson")
	case f.viewed() && f.tty && f.stdin:
		return usagef("--view shows the output when the command has ended: leave out -i or -t")
	case f.detach:
		return f.checkDetach()
	}
	return nil
}

// inText reports whether the output is shown as it is: of a command in the background, only
// the result is.
func (f *runFlags) inText() bool { return f.format == "text" && !f.detach }

// viewed reports whether views are shown instead of the output. A view that sandbox.yaml
// asks for is only in the result.
func (f *runFlags) viewed() bool {
	mode := f.keys["view.mode"]
	return f.inText() && mode != "" && mode != string(sandbox.ViewNone)
}

// useProfile does what depends on the settings.
func (f *runFlags) useProfile(c *sandbox.Command, p sandbox.Profile) error {
	if f.inText() {
		c.Encoding = sandbox.EncodingExact // text is the bytes themselves
	} else if f.file != "" && p.Encoding == sandbox.EncodingReplace {
		return usagef("--output-file writes the original bytes: add --encoding exact")
	}
	return nil
}

// approver answers questions of the policy.
func (f *runFlags) approver(show *printer) sandbox.Approver {
	if f.yes {
		return byYes{show}
	}
	return byTerminal{several: f.template != ""}
}

// output prepares where the command's output goes.
func (f *runFlags) output(ctx context.Context, show *printer) error {
	show.viewed, show.saveTo = f.viewed(), f.collectTo
	if !f.tty {
		show.textOnly(f.safe)
	}
	if f.file == "" {
		return nil
	}
	file, err := openOutput(ctx, f.file)
	if ctx.Err() != nil {
		return &sandbox.Error{Cause: sandbox.CauseCanceled, Message: "canceled before the output file had a reader"}
	}
	if err != nil {
		return &sandbox.Error{Cause: sandbox.CauseInvalid, Message: "opening the output file", Err: err, Hint: "--output-file: name a writable file"}
	}
	show.file = file
	return nil
}

func (f *runFlags) command(ctx context.Context, args []string) (sandbox.Command, error) {
	c := sandbox.Command{Script: script(args), Dir: f.dir, Description: f.description, Profile: f.profile, Session: f.session, Parallel: f.parallel, Existing: f.existing, Inherit: os.Environ(), Caller: caller(), Rules: f.rules}
	switch c.Live = sandbox.LiveMode(f.live); c.Live {
	case sandbox.LiveRaw, sandbox.LiveView:
	default:
		return c, usagef("--live %q is unknown: use raw or view", f.live)
	}
	var err error
	if c.Env, err = envs(ctx, f.envFile, f.env); err != nil {
		return c, err
	}
	if c.Mounts, err = mounts(f.volumes, f.mounts); err != nil {
		return c, err
	}
	if c.Files, err = readFiles(ctx, f.files); err != nil {
		return c, err
	}
	c.Collect = f.collect
	if f.stdin {
		c.Stdin = io.Reader(os.Stdin)
	}
	return c, nil
}
