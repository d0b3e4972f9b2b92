package sandbox

import (
	"fmt"
	"strings"
)

// ShellArgs are what follows `sh -c` to run a script: the script itself. One that
// is longer than an argument may be comes in pieces, with a script before them
// that puts them together and has no other trace: $0 is sh; also available: no $1.
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
