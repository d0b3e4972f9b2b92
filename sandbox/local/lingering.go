package local

import (
	"fmt"
	"strings"

	"belljar/sandbox"
)

const (
	// maxCommands bounds the command lines of all processes in a result, in bytes, and shortCommand each of
	// those that then are cut.
	maxCommands  = 1 << 20
	shortCommand = 64
)

// boundLingering cuts command lines of what lingers where all take too much: a fork bomb's are as long as it likes. They
// have been masked.
func (x *execution) boundLingering() {
	all, cut := 0, 0
	for i := range x.result.Lingering {
		command := &x.result.Lingering[i].Command
		if len(*command) > shortCommand && all+len(*command) > maxCommands {
			*command = strings.ToValidUTF8((*command)[:shortCommand], "") + "…"
			cut++
		}
		all += len(*command)
	}
	if cut == 0 {
		return
	}
	said := fmt.Sprintf("truncated: the command lines of %d processes are cut, as all take more than %s", cut, sandbox.FormatSize(maxCommands))
	if e := &x.result.Evidence.ListError; *e == "" {
		*e = said
	} else {
		*e += "; " + said
	}
}
