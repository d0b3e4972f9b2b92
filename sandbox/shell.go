package sandbox

import (
	"fmt"
	"strings"
)

// ShellArgs are what follows `sh -c` to run a script: the script itself. A script longer
// than one argument may be is split, after a script that joins the parts and leaves no trace.
func ShellArgs(shell, script string) []string { return shellArgs(shell, script, MaxArgument) }

func shellArgs(shell, script string, most int) []string {
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
