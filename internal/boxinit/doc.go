// Package boxinit is the first process of a container, its init: it starts the commands,
// tells when they end, carries their streams, and reaps, stops and kills.
//
// It is the program itself. A program that imports this package and is a container's
// first process under the name Path never comes to its main, nor to the initialisation
// of most packages: this one imports little and so is initialised early.
//
//	config := boxinit.Config{Carrier: boxinit.Frames, UID: 65533}
//	args := config.Args() // args[0] is Path, where the program is mounted
//
// The host's end is package sandbox/internal/boxlink.
//
// # Design
//
// In a pod it has no capability: see alone_linux.go. Elsewhere it starts as user 0 of the container with no capability but SETUID, SETGID, KILL and
// SETPCAP, and becomes a user of its own that no command runs as. Commands cannot signal
// or trace it, nor read its memory or files. They get no capability, and none can be
// regained: the bounding set is empty. With Config.Root user 0 gets some: the init keeps them for it, and does
// not use them. Such a command can become the init's user and send it signals, of which none ends or stops it.
//
// One goroutine, the loop, polls all files: nothing that it does blocks. Everything that
// could, such as starting a process, is done by the main thread, one job after the other.
// Go starts a process with vfork(2): until the new program runs, the thread waits, and
// with it any stop-the-world. A process of the same user can stop the new one in this
// moment. So the collector is off but for moments when no process is being started, and
// the loop looks for a stopped one.
//
// A limit of processes counts threads. One that cannot be made ends a Go program. So all
// that are ever needed are made at the start: see Threads.
package boxinit

import (
	"strconv"
	"strings"
)

// Path is where the program is in the container, and its first argument. Nothing else makes it
// an init: no command's process is a container's first.
const Path = "/dev/belljar-init"

// CopyArg is the first argument of a container's first process that copies its own program to the
// path that is the second, and ends.
const CopyArg = "copy-belljar-init"

// TryArg is the first argument of a container's first process that tries what a command of the container could do: it writes to the
// file that is the second, as Tried, and ends. The third is the address of a server, as HOST:PORT, or "": then that of
// the API server of Kubernetes, which every pod's variables have.
const TryArg = "try-belljar-container"

// Tried is what a process of a container found.
type Tried struct {
	Seccomp      bool   // it has a filter
	NoPrivileges bool   // it can get none: no_new_privs
	Capabilities string // those that it has, as a hexadecimal number
	OwnUsers     bool   // see OwnUsers
	GVisor       bool   // see GVisor
	Network      string // Open, or why it did not connect to the server
}

// The Network of a process that connected, and of one that nothing answered.
const (
	Open     = "open"
	NoAnswer = "no answer"
)

// String is what ParseTried reads.
func (t Tried) String() string {
	return strings.Join([]string{strconv.FormatBool(t.Seccomp), strconv.FormatBool(t.NoPrivileges), t.Capabilities, strconv.FormatBool(t.OwnUsers), strconv.FormatBool(t.GVisor), t.Network}, ";")
}

// ParseTried reads a Tried.
func ParseTried(text string) (t Tried, ok bool) {
	fields := strings.SplitN(text, ";", 6)
	if len(fields) != 6 {
		return t, false
	}
	return Tried{
		Seccomp: fields[0] == "true", NoPrivileges: fields[1] == "true", Capabilities: fields[2], OwnUsers: fields[3] == "true", GVisor: fields[4] == "true", Network: fields[5],
	}, true
}

// OwnUsers reports whether a process's /proc/PID/uid_map is that of a user namespace whose root is another user outside, user_namespaces(7).
func OwnUsers(uidMap string) bool {
	users := strings.Fields(uidMap)
	return len(users) >= 3 && users[0] == "0" && users[1] != "0"
}

// GVisor reports whether a /proc/version is that of gVisor's kernel: 4.19.0-gvisor, or once 4.4.0, and always of that minute. What the
// runtime is called says nothing: names are free.
func GVisor(version string) bool {
	return strings.Contains(version, "gvisor") || strings.Contains(version, "#1 SMP Sun Jan 10 15:06:54 PST 2016")
}

// Threads is how many processes, as a limit of processes counts them, an init takes at most.
const Threads = 12

// Carrier is how requests and answers travel.
type Carrier string

// The carriers.
const (
	Frames   Carrier = "frames"   // over stdin and stdout; output and input travel in frames, too
	Socket   Carrier = "socket"   // over the Unix stream socket of descriptor 3, and so do the ends of pipes and terminals
	Listener Carrier = "listener" // as Socket, and descriptor 4 listens: it takes any number of further clients at once
	Channels Carrier = "channels" // as Frames, and from descriptor 3 on there are ChannelCount pairs more, one for each further client
)

const socketFD, listenerFD = 3, 4

// Channels are for where no socket can lead out of the container: what a kernel of its own knows
// as a file cannot be handed over, and no listening socket be handed in.
const (
	// ChannelCount is how many clients may follow the first at once.
	ChannelCount = 8
	// FirstChannel is what the first of them is read from. The next descriptor is written to.
	FirstChannel = 3
)

// Config is how an init behaves.
type Config struct {
	Carrier Carrier
	UID     int // the user and group it becomes: no command's
	// Deadline is when it ends at the latest, in seconds since 1970; 0 is never. It ends with its first
	// connection, unless a client asked it to stay.
	Deadline int64
	// Lonely is after how many seconds it ends if no client has greeted it: its stdin stays open where who made it was killed before
	// anyone attached. 0 is never.
	Lonely int64
	// Root: commands may be user 0, of a user namespace or a kernel of the container's own,
	// with RootCapabilities, which the container then must begin with. All others get none.
	Root bool
	// Alone: it has no capability, as in a pod. It is the user UID already, and so are all commands. What it writes is logged.
	Alone bool
	// NoSockets: no process can make a socket other than a Unix one. It needs Alone.
	NoSockets bool
	// Files and FileSize limit open files and the bytes of a file where they are not 0. They need Alone.
	Files, FileSize int64
}

// RootCapabilities are what a command that is user 0 can do: what Docker gives to root, without
// devices, raw sockets, other roots and the audit log. By their numbers, capabilities(7).
var RootCapabilities = []int{capChown, capDACOverride, capFOwner, capFSetID, capKill, capSetGID, capSetUID, capSetPCap, capNetBindService, capSetFCap}

const (
	capChown, capDACOverride, capFOwner, capFSetID, capKill, capSetGID, capSetUID, capSetPCap = 0, 1, 3, 4, 5, 6, 7, 8

	capNetBindService, capSetFCap = 10, 31
)

// The arguments after the first three.
const (
	rootArg     = "root"
	aloneArg    = "alone"
	socketsArg  = "no-sockets"
	filesArg    = "files="
	fileSizeArg = "file-size="
	lonelyArg   = "lonely="
)

// Args are a container's first process.
func (c Config) Args() []string {
	args := []string{Path, string(c.Carrier), strconv.Itoa(c.UID), strconv.FormatInt(c.Deadline, 10)}
	for _, word := range []struct {
		text string
		set  bool
	}{{rootArg, c.Root}, {aloneArg, c.Alone}, {socketsArg, c.NoSockets}} {
		if word.set {
			args = append(args, word.text)
		}
	}
	for _, number := range []struct {
		prefix string
		is     int64
	}{{filesArg, c.Files}, {fileSizeArg, c.FileSize}, {lonelyArg, c.Lonely}} {
		if number.is > 0 {
			args = append(args, number.prefix+strconv.FormatInt(number.is, 10))
		}
	}
	return args
}

// maxUID leaves out the numbers that mean "no user".
const maxUID = 1<<31 - 1

func parseArgs(args []string) (c Config, ok bool) {
	if len(args) < 3 {
		return c, false
	}
	uid, err := strconv.Atoi(args[1])
	deadline, alsoErr := strconv.ParseInt(args[2], 10, 64)
	c = Config{Carrier: Carrier(args[0]), UID: uid, Deadline: deadline}
	for _, word := range args[3:] {
		if !c.take(word) {
			return c, false
		}
	}
	known := c.Carrier == Frames || c.Carrier == Socket || c.Carrier == Listener || c.Carrier == Channels
	fits := c.Alone && !c.Root && c.Carrier == Frames || !c.Alone && !c.NoSockets && c.Files == 0 && c.FileSize == 0
	return c, err == nil && alsoErr == nil && known && fits && uid > 0 && uid < maxUID && deadline >= 0
}

// take takes one of the further arguments.
func (c *Config) take(word string) bool {
	switch word {
	case rootArg:
		c.Root = true
		return true
	case aloneArg:
		c.Alone = true
		return true
	case socketsArg:
		c.NoSockets = true
		return true
	}
	for prefix, to := range map[string]*int64{filesArg: &c.Files, fileSizeArg: &c.FileSize, lonelyArg: &c.Lonely} {
		if text, is := strings.CutPrefix(word, prefix); is {
			n, err := strconv.ParseInt(text, 10, 64)
			*to = n
			return err == nil && n > 0
		}
	}
	return false
}
