// Command belljar runs untrusted shell commands, each in a locked-down container, and
// reports why they ended.
//
// One subcommand is one file. They parse flags, call a sandbox.Runner and print;
// what a command may do and how it ends is decided below them.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"syscall"

	"belljar/sandbox"
)

// Exit codes of belljar itself; see docs/cli.md. Any other is the command's.
const (
	exitTimeout  = 124
	exitFailed   = 125 // belljar or the engine failed, or the command line was wrong
	exitDenied   = 126
	exitCanceled = 130
	exitKilled   = 137
	exitPipe     = 141 // the reader of our stdout is gone, as in `belljar doctor | head -1`
)

func main() { os.Exit(run(&globals{}, os.Args[1:])) }

func run(g *globals, args []string) int {
	// If the reader of our output goes away, the write must fail instead of killing
	// us: the container has to be removed first.
	signal.Ignore(syscall.SIGPIPE)
	root := rootOf(g)
	root.SetArgs(args)
	err := root.ExecuteContext(context.Background())
	if _, told := errors.AsType[exitError](err); err != nil && !told {
		err = misused(root, args, err)
	}
	if exit, ok := errors.AsType[exitError](err); ok {
		return int(exit)
	}
	if unread(err) {
		return exitPipe
	}
	if err != nil {
		tellError(os.Stderr, err)
		return exitFor(err)
	}
	return 0
}

// unread reports whether the reader of our stdout went away.
func unread(err error) bool {
	failed, ok := errors.AsType[*fs.PathError](err)
	return ok && failed.Path == os.Stdout.Name() && errors.Is(failed, syscall.EPIPE)
}

// exitError ends the program with a status and no further message.
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
