package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"belljar/sandbox"

	"github.com/spf13/cobra"
)

// interruptible is ctx, cancelled by the first signal that asks belljar to end; the
// second closes kill. A third ends the program at once, with the default action:
// the engine then removes the container. SIGQUIT is one of them: its default action, a
// dump, would leave the container, and a terminal that is raw.
func interruptible(ctx context.Context) (canceled context.Context, kill <-chan struct{}, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	killed, done := make(chan struct{}), make(chan struct{})
	signals := make(chan os.Signal, 3)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		if !signal.Ignored(s) { // as nohup does
			signal.Notify(signals, s)
		}
	}
	go func() {
		for count := 1; ; count++ {
			select {
			case <-done:
				return
			case <-signals:
			}
			switch count {
			case 1:
				cancel()
			case 2:
				close(killed)
			default:
				os.Exit(exitCanceled)
			}
		}
	}()
	return ctx, killed, func() { signal.Stop(signals); close(done); cancel() }
}

// stoppable is a subcommand whose context ends with the first signal that asks
// belljar to end: it removes what it made, in the engine or on the disk.
func stoppable(run func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		ctx, _, stop := interruptible(cmd.Context())
		defer stop()
		cmd.SetContext(ctx)
		err := run(cmd, args)
		if err != nil && ctx.Err() != nil {
			return &sandbox.Error{Cause: sandbox.CauseCanceled, Message: "canceled", Err: err}
		}
		return err
	}
}
