package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"belljar/config"
	"belljar/policy"
	"belljar/sandbox"
	"belljar/view"

	"github.com/spf13/cobra"
)

func policyTestCmd(g *globals) *cobra.Command {
	f := &policyFlags{}
	cmd := &cobra.Command{
		Use:   "test [flags] FILE",
		Short: "Test the command policy against a table of scripts",
		Long: policyHelp + `

FILE is YAML: scripts, and the decision that the policy should make for each. rule
is the rule that should decide, or "" for the default. dir is where the script
starts; without it, the script starts in the profile's working directory. Both are
optional.

  tests:
    - {script: git status, decision: allow}
    - {script: git push -f, decision: deny, rule: no-force}
    - {script: rm out/a, decision: ask, dir: /work/sub}

Each script with a different decision prints one line. The exit status is 0 if all
tests pass, and 1 if any fails.`,
		Example: `  belljar policy test --profile build policy-tests.yaml`,
		Args:    cobra.ExactArgs(1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := textOrJSON(f.format); err != nil {
				return err
			}
			results, err := f.tests(cmd.Context(), g, args[0])
			if err != nil {
				return err
			}
			if f.format == "json" {
				err = writeJSON(cmd.OutOrStdout(), results)
			} else {
				err = results.write(cmd.OutOrStdout(), args[0])
			}
			if err == nil && results.Failed > 0 {
				return exitError(1)
			}
			return err
		},
	}
	f.add(cmd, g)
	return cmd
}

// policyResults are the results of a table's rows.
type policyResults struct {
	Tests  []policyResult `json:"tests"`
	Failed int            `json:"failed"`
}

type policyResult struct {
	OK     bool            `json:"ok"`
	Line   int             `json:"line"`
	Script string          `json:"script"`
	Dir    string          `json:"dir,omitempty"` // if it differs from the profile's
	Want   policy.Decision `json:"want"`
	Rule   *string         `json:"want_rule,omitempty"`
	Got    policy.Verdict  `json:"got"`
}

// maxPolicyTable bounds a table, in bytes.
const maxPolicyTable = 16 << 20

// tests judges the scripts of the table.
func (f *policyFlags) tests(ctx context.Context, g *globals, name string) (policyResults, error) {
	results := policyResults{Tests: []policyResult{}}
	data, err := readInput(ctx, name, maxPolicyTable)
	if err != nil {
		return results, &sandbox.Error{Cause: sandbox.CauseInvalid, Message: "reading the tests", Hint: "name a readable file", Err: err}
	}
	tests, err := config.ReadPolicyTests(name, data)
	if err != nil {
		return results, err
	}
	judge, err := f.judging(g)
	if err != nil {
		return results, err
	}
	for _, test := range tests {
		v := judge(test.Script, test.Dir)
		r := policyResult{Line: test.Line, Script: test.Script, Dir: test.Dir, Want: test.Decision, Rule: test.Rule, Got: whole(v)}
		if r.OK = v.Decision == test.Decision && (test.Rule == nil || *test.Rule == v.Rule); !r.OK {
			results.Failed++
		}
		results.Tests = append(results.Tests, r)
	}
	return results, nil
}

// write reports the failed rows, and their number.
func (results policyResults) write(w io.Writer, file string) error {
	var b strings.Builder
	for _, r := range results.Tests {
		if r.OK {
			continue
		}
		want := r.Want.String()
		if r.Rule != nil {
			want += ": " + policy.Verdict{Rule: *r.Rule}.Who()
		}
		fmt.Fprintf(&b, "%s:%d: %s: want %s, got %s\n", view.SafeLine(file), r.Line, cut(r.Script, 60), view.SafeLine(want), verdictLine(r.Got))
	}
	fmt.Fprintf(&b, "%d tests, %d failed\n", len(results.Tests), results.Failed)
	_, err := io.WriteString(w, b.String())
	return err
}
