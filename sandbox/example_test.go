package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/local"
	"belljar/sandbox/sandboxtest"
)

// newRunner is one whose engine is a fake, on which every command does that. A
// real one is belljar.Open's.
func newRunner(program func(p *sandboxtest.Proc) int) *local.Local {
	return local.New(&sandboxtest.Engine{Script: program}, &sandboxtest.Images{})
}

// A failing command is a Result. An error says why there was none to run, or why
// its end is not known.
func ExampleRun() {
	runner := newRunner(func(p *sandboxtest.Proc) int {
		fmt.Fprintln(p.Stdout, "1 test failed")
		return 2
	})
	defer runner.Close()
	ctx := context.Background()

	r, err := sandbox.Run(ctx, runner, sandbox.Command{Script: "make test", Timeout: time.Minute})
	fmt.Println(r.Status, r.Cause, r.ExitCode, err)
	fmt.Printf("%s", r.Stdout.Bytes())

	_, err = sandbox.Run(ctx, runner, sandbox.Command{Script: "id", User: sandbox.User{Name: "root"}})
	if e, ok := errors.AsType[*sandbox.Error](err); ok {
		fmt.Println(e.Cause, e.Message)
	}
	// Output:
	// error exited 2 <nil>
	// 1 test failed
	// invalid_command user "root" is root, and commands never run as root
}

// Events are read to their end, which is the result.
func ExampleExecution() {
	runner := newRunner(func(p *sandboxtest.Proc) int {
		fmt.Fprintln(p.Stdout, "compiling")
		fmt.Fprintln(p.Stdout, "linking")
		return 0
	})
	defer runner.Close()
	x, err := runner.Start(context.Background(), sandbox.Command{Script: "make"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for e := range x.Events() {
		switch e.Type {
		case sandbox.EventStdout, sandbox.EventStderr:
			os.Stdout.Write(e.Data)
		case sandbox.EventResult:
			fmt.Println(e.Result.Cause, e.Result.ExitCode)
		}
	}
	// Output:
	// compiling
	// linking
	// exited 0
}
