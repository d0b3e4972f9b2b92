// Package docker is the sandbox.Engine over the Docker API.
//
//	engine, err := docker.Connect(ctx, "")
//	defer engine.Close()
//
// The one rule: a container never outlives whoever asked for it. Its keeper
// reads a stdin that the engine closes when our connection goes, it removes
// itself when its keeper ends, and its sealed labels let a later process sweep up
// what an engine's crash left.
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
// There is no keeper yet while the engine makes a container, which may take it
// seconds. For that time the program starts itself once more, as the guard: it
// reads from a pipe what is being made, and removes that where the pipe ends
// without a word. Who embeds this package has it too: an init starts it, so that
// nothing of the program's own runs in it.
//
// Anybody can make a container with belljar's labels, and an image that has some
// does. Each container of ours has all of them, under a seal: an HMAC over them,
// the container's name and a nonce, with a key in Engine.Dir that only this user
// can read. What has no seal of ours is not listed as a session, adopted, looked
// into or removed; nor is what has a copy of one, and not the lock-down. A journal
// of names on disk would tell as much, at the price of a write for each command,
// and be wrong whenever that fails. Other users' containers are left to them.
//
// A mount's source is judged before the engine opens it, and a command with a
// writable mount can swap files in between. The engine is given a bind that was
// made from the open file; without one only sources that no command can swap
// are mounted. To look afterwards is not enough: the image's sh runs by then,
// and gVisor's mounts cannot be seen from the host.
//
// The engine opens an image's /etc/passwd and /etc/group itself whenever something
// starts, and so does the runtime inside: in a FIFO there both wait for ever, with a
// lock on the container, and an engine that removes an image waits for that. They
// are looked at by the engine's stat before the container starts, which opens
// nothing, and must stay where no command can write. A runtime that still waits, as
// for what was mounted, is killed.
//
// Exit codes come from the engine's exec_die event or from inspecting the exec,
// whichever knows first, and never from what a command writes.
package docker
