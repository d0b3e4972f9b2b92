package oci

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/cgroup"
	"belljar/sandbox/internal/proc"
)

// groupPrefix is how the names of all containers' groups begin.
const groupPrefix = "belljar-"

// groupName is the name of a container's control group: who made it, and its ID.
func groupName(o proc.Owner, id string) string {
	_, namespace, _ := strings.Cut(o.Host, "/")
	return groupPrefix + namespace + "-" + o.Process + "-" + id
}

// made are the host and the process that made the group of that name, and its ID.
func made(o proc.Owner, name string) (host, process, id string, ok bool) {
	parts := strings.Split(strings.TrimPrefix(name, groupPrefix), "-")
	if len(parts) != 3 || len(parts[2]) != idBytes*2 {
		return "", "", "", false
	}
	boot, _, _ := strings.Cut(o.Host, "/")
	return boot + "/" + parts[0], parts[1], parts[2], true
}

const idBytes = 32

func newID() string {
	var b [idBytes]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// record is what belljar's processes know of each other's containers. It is a note on the container's
// control group: it goes with the container, and no one but root can write it. Without root it is a file.
type record struct {
	Dir      string // the engine's
	Owner    string // whose session names it is in
	Print    string // sandbox.Spec.Print
	Command  string
	Session  string `json:",omitempty"`
	Pool     string `json:",omitempty"`
	Own      bool   `json:",omitempty"` // it ends with the process that made it, though it is a session's
	Image    sandbox.Image
	User     sandbox.User
	Keeper   int // who the init runs as
	Created  time.Time
	Deadline time.Time

	Root     bool `json:",omitempty"` // sandbox.Spec.Root
	Writable bool `json:",omitempty"` // its root is
	IDs      int  `json:",omitempty"` // this host's ID of its user 0, with Root

	unprivileged
	Dirs    []string // in memory
	Runtime string   // its path
	Parent  process  // the runtime
	First   process  // the init; zero while the container is being made
}

// unprivileged is what the record of a container of a user who is not root has besides.
type unprivileged struct {
	Limits string `json:",omitempty"` // sandbox.ContainerInfo.Limits
	PIDs   string `json:",omitempty"` // then: the PID namespace
	Group  string `json:",omitempty"` // the path of the control group
}

// process names a process of this host.
type process struct {
	PID        int
	StartTicks int64
}

func processOf(pid int) (process, error) {
	s, err := proc.ReadStat(pid)
	return process{pid, s.StartTicks}, err
}

// ended reports whether it certainly has, or never began. What cannot be read, as where this process may open no more files,
// says nothing of it.
func (p process) ended() bool {
	if p.PID <= 0 {
		return true
	}
	s, err := proc.ReadStat(p.PID)
	if err != nil {
		return proc.IsGone(err)
	}
	return s.StartTicks != p.StartTicks || !s.Runs() || s.Exiting()
}

func (p process) asListed() sandbox.Process {
	return sandbox.Process{HostPID: p.PID, StartTicks: p.StartTicks}
}

// ended reports whether the container certainly has: its init, or its runtime, without which it is not reached.
func (r record) ended() bool { return r.First.ended() || r.Parent.ended() }

// found is a container that some process made.
type found struct {
	name, id      string
	host, process string // who made it
	group         *cgroup.Group
	record        record
	noted         bool // it has a record
}

// ours reports whether an engine of the same directory made it.
func (e *Engine) ours(f found) bool { return f.noted && f.record.Dir == e.dir }

// sessionOwner is who has the names of sessions.
func (e *Engine) sessionOwner() string {
	if e.config.OwnSessions {
		return e.owner.Name + "/" + e.owner.Process
	}
	return e.owner.Name
}
