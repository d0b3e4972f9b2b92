package local_test

import (
	"context"
	"fmt"

	"belljar/sandbox"
	"belljar/sandbox/local"
	"belljar/sandbox/sandboxtest"
)

// A Runner of parts of one's own: here a fake engine, on which every command
// prints its script. What the profile leaves open is that of sandbox.Defaults.
func ExampleNew() {
	engine := &sandboxtest.Engine{Script: func(p *sandboxtest.Proc) int {
		fmt.Fprintln(p.Stdout, p.Script)
		return 0
	}}
	runner := local.New(engine, &sandboxtest.Images{})
	runner.Profiles["build"] = sandbox.Profile{Limits: sandbox.Limits{Memory: 2 << 30}}
	defer runner.Close()

	r, err := sandbox.Run(context.Background(), runner, sandbox.Command{Script: "make", Profile: "build"})
	if err != nil {
		fmt.Println(err)
		return
	}
	made := engine.Specs()[0]
	fmt.Printf("%sas %v with %d MiB, %d processes, network %s", r.Stdout.Bytes(), made.User, made.Limits.Memory>>20, made.Limits.Pids, made.Network)
	// Output:
	// make
	// as 65534:65534 with 2048 MiB, 128 processes, network none
}

// A program that stays keeps containers ready.
func ExampleLocal_Ready() {
	runner := local.New(&sandboxtest.Engine{Script: func(*sandboxtest.Proc) int { return 0 }}, &sandboxtest.Images{})
	defer runner.Close()
	ctx := context.Background()
	if err := runner.Ready(ctx); err != nil {
		fmt.Println(err)
		return
	}
	r, _ := sandbox.Run(ctx, runner, sandbox.Command{Script: "true"})
	fmt.Println("warm:", r.Container.Warm)
	// Output: warm: true
}
