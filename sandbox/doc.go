// Package sandbox runs commands that nobody vouches for, and tells how each of
// them ended.
//
// The one rule: a command's fate is never guessed. Whatever happens, the
// [Result] says why the command ended, with the evidence, the output kept so
// far and what was still running; where that cannot be known it says so.
//
//	runner := &sandbox.Local{Engine: engine, Images: images, Profiles: profiles}
//	result, err := sandbox.Run(ctx, runner, sandbox.Command{Script: "make test"})
//
// A failing command is a Result with a nil error. An error means that we failed
// or refused; the Result then still holds what is known.
//
// # Design
//
// A container's main process is a keeper that only waits for its standard
// input to end, and the command is an exec beside it. So the command's end does
// not tear the container down, what it left behind can be listed, and when our
// process dies the engine closes the keeper's input and the container goes too.
//
// The package knows no container engine: see [Engine]. It imports only the
// standard library.
package sandbox
