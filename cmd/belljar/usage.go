package main

import (
	"strings"

	"belljar/sandbox"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// tellsResult marks the subcommands whose --format json prints a command's result.
const tellsResult = "result"

// usageError is an error in the command line.
type usageError struct{ error }

func (e usageError) Unwrap() []error {
	return []error{e.error, &sandbox.Error{Cause: sandbox.CauseInvalid}}
}

// misused reports why a subcommand could not be called, such as an unknown
// flag. A program that waits for a JSON result gets one.
func misused(root *cobra.Command, args []string, err error) error {
	cmd, rest, _ := root.Find(args)
	if _, tells := cmd.Annotations[tellsResult]; !tells {
		return err
	}
	show, unknown := newPrinter(formatIn(cmd.Flags(), rest))
	if unknown != nil || show.format == "text" {
		return err
	}
	return show.refused(sandbox.Command{}, usageError{err})
}

// formatIn is the last --format before COMMAND: if another flag was wrong, it
// may not have been read yet. What follows an unknown flag may be its value.
func formatIn(flags *pflag.FlagSet, args []string) string {
	format := "text"
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' && args[0] != "--" {
		name, value, has := strings.Cut(args[0], "=")
		args = args[1:]
		if !has && len(args) > 0 && takesValue(flags, name, args[0]) {
			value, args = args[0], args[1:]
		}
		if name == "--format" {
			format = value
		}
	}
	return format
}

// takesValue reports whether the next argument is the flag's value.
func takesValue(flags *pflag.FlagSet, name, next string) bool {
	flag := flags.Lookup(strings.TrimPrefix(name, "--"))
	if !strings.HasPrefix(name, "--") { // one letter or several, of which the first that takes a value takes the rest
		for letters := name[1:]; ; letters = letters[1:] {
			flag = flags.ShorthandLookup(letters[:1])
			if len(letters) == 1 {
				break
			}
			if flag != nil && flag.NoOptDefVal == "" {
				return false
			}
		}
	}
	if flag == nil {
		return !strings.HasPrefix(next, "-")
	}
	return flag.NoOptDefVal == ""
}
