// Package local is the sandbox.Runner that runs untrusted commands on a
// sandbox.Engine.
//
//	runner := local.New(engine, images)
//	defer runner.Close()
//	result, err := sandbox.Run(ctx, runner, sandbox.Command{Script: "make test"})
//
// # Design
//
// A container's main process is a keeper that only waits for its standard
// input to end, and the command is an exec beside it. So the command's end does
// not tear the container down, what it left behind can be listed, and when our
// process dies the engine closes the keeper's input and the container goes too.
//
// A program that stays calls [Local.Warm]: containers are then kept ready, and in
// each waits a gate, a shell that only needs to be told its command. It is asked
// whether it is there before it is told, and a command is told to one gate only:
// so it never runs twice. Each container is used once.
//
// A secret is told to a gate, too, also where the container was made for its
// command: what an exec is told, the engine shows. It is taken out of the output
// where that comes in, so that nothing behind has one to leak.
//
// A session's container is used again, by commands that trust each other. What is
// known of it lies in a file under a lock that holds across processes; what runs
// in it is told with the command that started it, by what no process can change
// (the session of setsid(2) that it began in) or hide (its parent, while it
// lives), and otherwise only if one command alone could have.
//
// The package knows no container engine: see [sandbox.Engine].
package local
