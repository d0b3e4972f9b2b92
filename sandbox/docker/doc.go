// Package docker is the sandbox.Engine over the Docker API.
//
//	engine, err := docker.Connect(ctx, "")
//	defer engine.Close()
//
// The one rule: a container never outlives the process that asked for it. Its main
// process, our init or a keeper, reads a stdin that the engine closes when our connection
// ends. When it ends, the engine removes the container. Sealed labels let a
// later process remove what an engine's crash left.
//
// # Design
//
// Commands are started in one of two ways, which Engine.Way tells. With Engine.Init a
// container's main process is package internal/boxinit, which starts them, and we talk to
// it over its stdin and stdout: the engine's part is only to carry bytes. Otherwise, and
// where the program cannot be put into a container (an engine that does not see our files,
// another architecture), the main process is a keeper, a shell that only waits, and each
// command is an exec. Which one it is shows once a first container was made.
//
// An init begins as user 0 with four capabilities: the engine gives a main process no
// capability under another user. Its program is mounted read-only and linked statically,
// so nothing of the image runs as that user. Before it starts a command it is a user of
// its own, and the command has no capability.
//
// Commands may be root where the engine maps users, or the runtime is gVisor: the init then keeps the capabilities that such
// a command gets. A root file system that can be written to has a layer of ours: before the container starts, the engine's
// directory for it is covered by a file system in memory, with a size. Few storage drivers could bound what is written
// themselves, and they count no files. In such a container the engine starts nothing, as what it reads there is a command's.
//
// A session's init has stdin open between its clients, one at a time: a lock in Engine.Dir
// says which process that is. Others, meanwhile, start their commands by exec. An init
// that does not answer any more is an error, and no reason to start a command by exec: the
// engine would show what it is given.
//
// The keeper and the engine's init run as a user of their own. A command has no
// capability, so it can neither signal nor trace them: a stopped keeper would be a
// dead man's switch that does not trip.
//
// To end a container, its keeper's stdin is closed: that is quicker than a kill, for
// which the engine starts the runtime once more. Where it does not help within half a
// second, the kill follows.
//
// What runs in a container is seen, counted and killed by its inspector: through this
// host's kernel where the container's processes are this host's, by the engine's top
// where the engine is on another host, and from inside where the container has a
// kernel of its own, as under gVisor.
//
// While the engine makes a container, which can take seconds, there is no keeper yet.
// For that time the program starts itself a second time, as the guard. It reads from a pipe
// which containers are being made, and removes them when the pipe ends early. Programs
// that embed this package have the guard too: an init function starts it, so none of
// the program's own code runs in it.
//
// Anyone can make a container with belljar's labels, and an image that has such labels
// does. Each container of ours has all of them, and a seal: an HMAC over the labels, the
// container's name and a nonce. Its key is in Engine.Dir, readable by this user only. A
// container without a valid seal, or with a copied seal but without the lock-down, is
// not listed as a session, adopted, inspected or removed. A list of names on disk would
// have the same effect, but cost a write for each command and be wrong whenever one fails.
// Other users' containers are left to them.
//
// A mount's source is checked before the engine opens it, and a command with a writable
// mount can swap files in between. So the engine gets a bind mount that was made from
// the open file. Where that is impossible, only sources that no command can replace are
// mounted. A check afterwards is not enough: the image's sh runs by then, and the host
// cannot see gVisor's mounts.
//
// The engine opens an image's /etc/passwd and /etc/group whenever it starts something,
// and the runtime does so inside. On a FIFO both wait for ever and hold a lock on the
// container, and an engine that removes an image waits for that lock. So both files are
// checked before the container starts, by the engine's stat, which opens nothing, and
// must be where no command can write. A runtime that still waits, as for a file that was
// mounted, is killed.
//
// An engine over SSH is reached by docker/cli's connhelper, which starts ssh for each
// connection. The module was there already, for the credentials of registries. An ssh
// process ends with its connection, with Engine.Close, and with this process. The
// address is checked first: no part of it can become an option of ssh, or be expanded.
//
// Exit codes come from the engine's exec_die event or from inspecting the exec,
// depending on which has it first, and never from what a command writes.
package docker
