package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"belljar/config"
	"belljar/view"

	"github.com/spf13/cobra"
)

func configCmd(g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check and show the configuration",
	}
	cmd.AddCommand(configValidateCmd(g), configShowCmd(g), configSchemaCmd())
	return cmd
}

func configValidateCmd(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:     "validate [FILE]",
		Short:   "Report every error in a configuration",
		Example: `  belljar config validate ./sandbox.yaml`,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				g.configPath = args[0]
			}
			c, err := g.loadConfig(nil)
			if err != nil {
				return err
			}
			name := cmp.Or(g.configPath, c.File, "no configuration file, using the defaults")
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: ok\n", view.SafeLine(name))
			return err
		},
	}
}

func configShowCmd(g *globals) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:     "show",
		Short:   "Show every setting and where it comes from",
		Example: `  belljar config show --format json`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if format != "text" && format != "json" {
				return usagef("--format %q is unknown: use text or json", format)
			}
			c, err := g.loadConfig(nil)
			if err != nil {
				return err
			}
			if format == "json" {
				return writeSettingsJSON(cmd.OutOrStdout(), c.Settings())
			}
			return writeSettings(cmd.OutOrStdout(), c.Settings())
		},
	}
	cmd.Flags().StringVar(&format, "format", "text", "output `FORMAT`: text or json")
	return cmd
}

func configSchemaCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "schema",
		Short:   "Print the JSON Schema of sandbox.yaml",
		Example: `  belljar config schema > sandbox.schema.json`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(config.Schema())
			return err
		},
	}
}

func writeSettings(w io.Writer, settings []config.Setting) error {
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "KEY\tVALUE\tSOURCE")
	for _, s := range settings {
		value := view.SafeLine(s.Value)
		if value == "" {
			value = `""`
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", view.SafeLine(s.Key), value, view.SafeLine(s.Source))
	}
	return table.Flush()
}

func writeSettingsJSON(w io.Writer, settings []config.Setting) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(settings)
}
