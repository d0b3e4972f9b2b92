// Package shellargs passes scripts of any length to a shell.
package shellargs

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"belljar/sandbox"
)

// Of are what follows `sh -c` to run a script: the script itself. A script longer
// than one argument may be is split, after a script that joins the parts and leaves no trace.
func Of(shell, script string) []string { return split(shell, script, sandbox.MaxArgument) }

func split(shell, script string, most int) []string {
	if len(script) <= most {
		return []string{script}
	}
	var join strings.Builder
	args := []string{"", shell}
	for i := 1; script != ""; i++ {
		n := cut(script, most)
		fmt.Fprintf(&join, "${%d}", i)
		args, script = append(args, script[:n]), script[n:]
	}
	args[0] = `eval "set --;` + join.String() + `"`
	return args
}

// cut is the length of the longest beginning of at most that many bytes which does not
// end within a rune: an engine's API may carry nothing but UTF-8.
func cut(text string, most int) int {
	if len(text) <= most {
		return len(text)
	}
	for n := most; n > max(0, most-utf8.UTFMax); n-- {
		if utf8.RuneStart(text[n]) {
			return n
		}
	}
	return most
}
