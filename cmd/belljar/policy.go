package main

import (
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"belljar/cmd/internal/question"
	"belljar/config"
	"belljar/policy"
	"belljar/sandbox"
	"belljar/view"

	"github.com/spf13/cobra"
)

const policyHelp = `Show what the command policy decides about a script, without running it.

The rules are policy.* of sandbox.yaml, and the script starts in the profile's
working directory. With --set, only the rules of a bundled set apply.

The container is the boundary; the policy is a guide. It knows only the text of the
script, not what the image calls ls or what a repository's settings run. It denies
what it cannot know. With default: allow, rules that deny are advice only: a program
that no rule names can start one that is denied. Use default: deny or default: ask
to enforce the rules.`

// exitAsk is the exit status for a script that needs an approval.
const exitAsk = 3

func policyCmd(g *globals) *cobra.Command {
	cmd := &cobra.Command{Use: "policy", Short: "Show what the command policy decides about a script", Long: policyHelp}
	cmd.AddCommand(policyCheckCmd(g), policyExplainCmd(g), policyTestCmd(g))
	return cmd
}

func policyCheckCmd(g *globals) *cobra.Command {
	f := &policyFlags{}
	cmd := &cobra.Command{
		Use:   "check [flags] [--] SCRIPT",
		Short: "Print one line: whether a script is allowed to run",
		Long: policyHelp + `

The exit status is 0 for allow, 126 for deny and 3 for ask.`,
		Example: `  belljar policy check --set readonly 'git log | head'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			text, v, err := f.judge(g, args)
			if err != nil {
				return err
			}
			if err := f.write(cmd.OutOrStdout(), text, v, writeVerdict); err != nil {
				return err
			}
			switch v.Decision {
			case policy.Allow:
				return nil
			case policy.Ask:
				return exitError(exitAsk)
			}
			return exitError(exitDenied)
		},
	}
	f.add(cmd, g)
	f.addDir(cmd)
	cmd.Flags().SetInterspersed(false) // what follows SCRIPT belongs to it
	return cmd
}

func policyExplainCmd(g *globals) *cobra.Command {
	f := &policyFlags{}
	cmd := &cobra.Command{
		Use:   "explain [flags] [--] SCRIPT",
		Short: "Show the decision, the part of the script that caused it, and the reason",
		Long: policyHelp + `

The exit status is 0 for every decision. check has a status for each decision.`,
		Example: `  belljar policy explain --set build 'make && git push'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			text, v, err := f.judge(g, args)
			if err != nil {
				return err
			}
			return f.write(cmd.OutOrStdout(), text, v, explain)
		},
	}
	f.add(cmd, g)
	f.addDir(cmd)
	cmd.Flags().SetInterspersed(false) // what follows SCRIPT belongs to it
	return cmd
}

type policyFlags struct {
	profile, set, dir, format string

	rules sandbox.Rules
}

func (f *policyFlags) add(cmd *cobra.Command, g *globals) {
	flags := cmd.Flags()
	flags.StringVar(&f.profile, "profile", sandbox.DefaultProfile, "use the policy of this `PROFILE` of sandbox.yaml")
	flags.StringVar(&f.set, "set", "", "use the bundled set `NAME` instead: "+strings.Join(policy.Sets(), ", "))
	formatFlag(cmd, &f.format)
	completeProfile(cmd, func() (*config.Config, error) { return g.loadConfig(nil) })
	cmd.RegisterFlagCompletionFunc("set", cobra.FixedCompletions(policy.Sets(), cobra.ShellCompDirectiveNoFileComp))
}

// addDir adds the flags for judging one script.
func (f *policyFlags) addDir(cmd *cobra.Command) {
	addRules(cmd.Flags(), &f.rules)
	cmd.Flags().StringVar(&f.dir, "dir", "", "where the script starts: a `DIR` in the container, absolute or relative to the profile's working directory")
	cmd.RegisterFlagCompletionFunc("dir", cobra.NoFileCompletions) // a directory in the container
}

func (f *policyFlags) judge(g *globals, args []string) (string, policy.Verdict, error) {
	var none policy.Verdict
	if err := textOrJSON(f.format); err != nil {
		return "", none, err
	}
	text := script(args)
	if strings.TrimSpace(text) == "" {
		return "", none, usagef("give a script, such as: belljar policy check 'git status'")
	}
	if f.dir != "" && !path.IsAbs(f.dir) && !filepath.IsLocal(f.dir) { // the same check as in run
		return "", none, usagef("--dir %q leads out of the working directory: name a directory in it, such as sub", f.dir)
	}
	judge, err := f.judging(g)
	if err != nil {
		return "", none, err
	}
	return text, judge(text, f.dir), nil
}

// judging returns a function that judges scripts by the directory that they start in:
// "" is the profile's, and a relative one is inside that.
func (f *policyFlags) judging(g *globals) (func(script, dir string) policy.Verdict, error) {
	if f.set != "" {
		if f.profile != sandbox.DefaultProfile {
			return nil, usagef("--set and --profile exclude each other: leave out one")
		}
		set, ok := policy.Bundled(f.set)
		if !ok {
			return nil, usagef("--set %q is unknown: use %s", f.set, strings.Join(policy.Sets(), ", "))
		}
		if f.dir != "" && !path.IsAbs(f.dir) {
			return nil, usagef("--dir %q is relative, and --set has no working directory: write an absolute path", f.dir)
		}
		commands, err := set.Compile()
		if err != nil {
			return nil, err
		}
		p, err := policy.Rules{Commands: commands}.Narrow(f.rules)
		if err != nil {
			return nil, err
		}
		return func(script, dir string) policy.Verdict { return p.JudgeScript(script, dir, sandbox.ShellSh) }, nil
	}
	c, err := g.loadConfig(nil)
	if err != nil {
		return nil, err
	}
	p, err := c.Profile(f.profile)
	if err != nil {
		return nil, err
	}
	rules, err := p.Policy.(sandbox.Narrower).Narrow(f.rules)
	if err != nil {
		return nil, err
	}
	return func(script, dir string) policy.Verdict {
		if !path.IsAbs(dir) {
			dir = path.Join(p.Workdir, dir)
		}
		return rules.JudgeScript(script, dir, p.Shell)
	}, nil
}

func (f *policyFlags) write(w io.Writer, script string, v policy.Verdict, text func(io.Writer, string, policy.Verdict) error) error {
	if f.format == "text" {
		return text(w, script, v)
	}
	return writeJSON(w, whole(v))
}

// whole replaces nil lists, which are null in JSON.
func whole(v policy.Verdict) policy.Verdict {
	v.Roots, v.Unknown, v.Commands = append([]string{}, v.Roots...), append([]policy.Unknown{}, v.Unknown...), append([]policy.CommandVerdict{}, v.Commands...)
	return v
}

func writeVerdict(w io.Writer, _ string, v policy.Verdict) error {
	_, err := fmt.Fprintln(w, verdictLine(v))
	return err
}

func verdictLine(v policy.Verdict) string {
	return view.SafeLine(v.Decision.String() + ": " + question.Reason(v.Who(), v.Span, v.Reason))
}

// explain shows the script with the deciding part underlined, and what was
// found in it.
func explain(w io.Writer, script string, v policy.Verdict) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", verdictLine(v))
	colour := paint(w, v.Decision)
	for _, r := range question.Rows(script, []policy.Span{v.Span}, 0) {
		fmt.Fprintf(&b, "  %s\n", r.Text)
		if r.Carets != "" {
			fmt.Fprintf(&b, "  %s\n", colour(r.Carets))
		}
	}
	if len(v.Roots) > 0 {
		fmt.Fprintf(&b, "\nruns: %s\n", view.SafeLine(strings.Join(v.Roots, ", ")))
	}
	for i, line := range question.Granted(v) {
		if i == 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s\n", view.SafeLine(line))
	}
	for i, u := range v.Unknown {
		if i == 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "unknown at %v: %s\n", u.Span, view.SafeLine(u.What))
	}
	if byDefault(v) {
		b.WriteString("\nAllowed by the default only: rules that deny are advice, because a program that no rule\nnames can start one that is denied. Use default: deny or default: ask to enforce the rules.\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// byDefault reports whether a command is allowed because no rule matches it.
func byDefault(v policy.Verdict) bool {
	return v.Decision == policy.Allow && slices.ContainsFunc(v.Commands, func(c policy.CommandVerdict) bool { return c.Rule == "" })
}
