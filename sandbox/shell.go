package sandbox

import (
	"fmt"
	"strings"
)

// ShellArgs are what follows `sh -c` to run a script: the script itself. A script
// longer than one argument may be is split, after a script that joins the parts
// and leaves no other trace: $0 is sh, and there is no $1.
func ShellArgs(script string) []string { return shellArgs(script, MaxArgument) }

func shellArgs(script string, most int) []string {
	if len(script) <= most {
		return []string{script}
	}
	var join strings.Builder
	args := []string{"", "sh"}
	for i := 1; script != ""; i++ {
		n := cut(script, most)
		fmt.Fprintf(&join, "${%d}", i)
		args, script = append(args, script[:n]), script[n:]
	}
	args[0] = `eval "set --;` + join.String() + `"`
	return args
}
