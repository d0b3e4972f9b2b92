// Package docker is the sandbox.Engine over the Docker API.
//
//	engine, err := docker.Connect(ctx, "")
//	defer engine.Close()
//
// The one rule: a container never outlives whoever asked for it. Its keeper
// reads a stdin that the engine closes when our connection goes, it removes
// itself when its keeper ends, and its labels let a later process sweep up what
// an engine's crash left.
//
// # Design
//
// The keeper and the engine's init run as a user of their own, so that a
// command, which has no capability, can neither signal nor trace them: a
// stopped keeper would be a dead man's switch that does not trip.
//
// A container is ended by closing its keeper's stdin, which spares the engine
// starting the runtime once more to deliver a kill; the kill follows where that
// does not help at once.
//
// Exit codes come from the engine's exec_die event or from inspecting the exec,
// whichever knows first, and never from what a command writes.
package docker
