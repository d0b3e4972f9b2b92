package main

import (
	"maps"
	"slices"

	"github.com/spf13/cobra"
)

// completeRun completes the values of run's flags.
func completeRun(cmd *cobra.Command, g *globals) {
	fixed := map[string][]string{
		"format":          {"text", "json", "ndjson"},
		"pull":            {"always", "missing", "never"},
		"on-output-limit": {"truncate", "end"},
		"view":            {"none", "separate", "merged"},
		"live":            {"raw", "view"},
	}
	for flag, values := range fixed {
		cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
	cmd.MarkFlagFilename("output-file")
	cmd.MarkFlagFilename("template")
	completeProfile(cmd, g)
}

// completeProfile completes --profile with those of the configuration.
func completeProfile(cmd *cobra.Command, g *globals) {
	cmd.RegisterFlagCompletionFunc("profile", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		c, err := g.loadConfig(nil)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return slices.Sorted(maps.Keys(c.Profiles)), cobra.ShellCompDirectiveNoFileComp
	})
}
