// Package local is the sandbox.Runner that runs untrusted commands on a
// sandbox.Engine.
//
//	runner := local.New(engine, images)
//	defer runner.Close()
//	result, err := sandbox.Run(ctx, runner, sandbox.Command{Script: "make test"})
//
// # Design
//
// A container's main process is a keeper that only waits for its standard input
// to end, and the command is an exec beside it. So the command's end does not tear
// the container down, what it left running can be listed, and when our process
// dies the engine closes the keeper's input and the container goes too.
//
// A command runs in a place: a container that is made for it (cold), one of its
// profile's pool (warm), or its session's. What it writes is masked, kept in a
// spool, drawn on its screen and passed on as events, in that order.
//
// A program that stays calls [Local.Warm]: containers are then kept ready, and in
// each waits a gate, a shell that only needs to read its command. It is asked
// whether it answers before it gets the command, and only one gate gets it: so a
// command never runs twice. Each container is used once.
//
// Secrets go to a gate, too, even in a cold place: the engine shows what an exec is
// given. They are masked where output comes in, so that nothing behind has one to
// leak.
//
// A session's container is used again, by commands that trust each other. Its
// record is a file under a lock that holds across processes. Which command started
// a process is known from what no process can change (the session of setsid(2)
// that it began in) or hide (its parent, while it lives), and otherwise only if
// one command alone could have.
//
// The package knows no container engine: see [sandbox.Engine].
package local
