package main

import (
	"os"
	"syscall"
	"testing"
)

// Ctrl-\ before a command has the terminal is a request to end, too: the default action, a
// dump, left the terminal as it was for the command.
func TestQuitEnds(t *testing.T) {
	ctx, kill, stop := interruptible(t.Context())
	defer stop()
	for _, ended := range []<-chan struct{}{ctx.Done(), kill} {
		if err := syscall.Kill(os.Getpid(), syscall.SIGQUIT); err != nil {
			t.Fatal(err)
		}
		<-ended
	}
}
