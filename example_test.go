package belljar_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"belljar"
	"belljar/config"
	"belljar/sandbox"
)

// A program that stays runs a command in a warm container, two in a session, and
// one whose output it reads as it comes.
func Example() {
	ctx := context.Background()
	runner, err := belljar.Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer runner.Close()
	if err := runner.Ready(ctx); err != nil {
		log.Print(err) // the next command makes its own container
	}
	run := func(c sandbox.Command) sandbox.Result {
		r, _ := sandbox.Run(ctx, runner, c) // with an error, the status is fatal or denied
		fmt.Printf("%s, exit code %d: %s", r.Status, r.ExitCode, r.Stdout.Bytes())
		return r
	}
	r := run(sandbox.Command{Script: "echo hello; exit 3"})
	fmt.Println("warm:", r.Container.Warm)

	defer runner.RemoveSession(ctx, "sum")
	run(sandbox.Command{Script: "echo 41 > n; echo saved", Session: "sum"})
	run(sandbox.Command{Script: "expr $(cat n) + 1", Session: "sum"})

	x, err := runner.Start(ctx, sandbox.Command{Script: "for i in 1 2 3; do echo $i; sleep 0.1; done"})
	if err != nil {
		log.Print(err)
		return
	}
	for e := range x.Events() {
		os.Stdout.Write(e.Data)
	}
	// Output:
	// error, exit code 3: hello
	// warm: true
	// success, exit code 0: saved
	// success, exit code 0: 42
	// 1
	// 2
	// 3
}

// Open with a configuration of the program's own.
func ExampleOpen() {
	cfg, err := config.Load(config.Options{Env: os.Environ(), NoWorkdir: true, Flags: map[string]string{"limits.memory": "64MiB", "pool.max": "0", "pool.min": "0"}})
	if err != nil {
		log.Fatal(err)
	}
	runner, err := belljar.Open(context.Background(), cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer runner.Close()
	r, err := sandbox.Run(context.Background(), runner, sandbox.Command{Script: "tail /dev/zero"})
	fmt.Println(r.Cause, r.ExitCode, err)
	// Output: oom_killed 137 <nil>
}
