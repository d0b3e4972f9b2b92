// Command belljar runs commands that nobody vouches for, each in a locked-down
// container, and tells the truth about how they ended.
//
// One subcommand is one file. They parse flags, call a sandbox.Runner and print;
// what a command may do and how it ends is decided below them.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"belljar/sandbox"
	"belljar/view"
)

// Exit codes of belljar's own; see docs/cli.md. Any other is the command's.
const (
	exitTimeout  = 124
	exitFailed   = 125 // belljar or the engine failed, or was used wrongly
	exitDenied   = 126
	exitCanceled = 130
	exitKilled   = 137
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	// A reader of our output that goes away is an error of that write, not
	// our death: the container has to go first.
	signal.Ignore(syscall.SIGPIPE)
	if len(args) == 2 && args[0] == guardCommand {
		guard(args[1])
		return 0
	}
	cmd := rootCmd()
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(context.Background())
	if exit, ok := errors.AsType[exitError](err); ok {
		return int(exit)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "belljar: "+view.Safe(err.Error()))
		return exitFor(err)
	}
	return 0
}

// exitError ends the program with a status, everything having been said.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

func exitFor(err error) int {
	switch sandbox.CauseOf(err) {
	case sandbox.CauseDenied:
		return exitDenied
	case sandbox.CauseCanceled:
		return exitCanceled
	}
	return exitFailed
}
