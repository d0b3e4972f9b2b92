package main

import (
	"github.com/spf13/cobra"
)

const evalHelp = `Score solutions that no one trusts, and be fooled by none: each is graded in a new
container, next to tests that it cannot write, without a network; what passes is graded
again against controls, tests that must fail.

docs/evaluation.md says how tasks are written, what a verdict means, and what is
promised and what is not.`

func evalCmd(g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "eval",
		Short: "Score untrusted solutions of tasks",
		Long:  evalHelp,
	}
	cmd.AddCommand(evalRunCmd(g), evalResumeCmd(g), evalCheckCmd(g), evalRegradeCmd(g), evalMergeCmd(g), evalReportCmd(g), evalVerifyCmd(g))
	return cmd
}
