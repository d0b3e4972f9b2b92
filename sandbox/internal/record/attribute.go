package record

import (
	"maps"
	"slices"

	"belljar/sandbox"
	"belljar/sandbox/internal/gate"
)

// Attribution records which commands of a session started its processes.
type Attribution struct {
	// Leaders are the commands by the session ID (setsid(2)) of their
	// first process: an exec starts one, and no process can join another's.
	Leaders map[int]string `json:"leaders,omitempty"`
	// Cold are running commands whose first process is unknown.
	Cold []string `json:"cold,omitempty"`
	// Waiting are the session IDs of gates that have no command yet.
	Waiting []int `json:"waiting,omitempty"`
	// Helpers are the session IDs of belljar's own processes, which move files.
	Helpers []int `json:"helpers,omitempty"`
	// Known are processes that were attributed before. They may since have left
	// both their session and their parent.
	Known []knownProcess `json:"known,omitempty"`
}

type knownProcess struct {
	PID        int    `json:"pid"` // 0 if only the host's is known
	StartTicks int64  `json:"start"`
	Command    string `json:"command"` // "" if unknown
}

// SetLeader records that the command's first process leads the session with that ID.
func (s *Attribution) SetLeader(sid int, command string) {
	if s.Leaders == nil {
		s.Leaders = map[int]string{}
	}
	s.Leaders[sid] = command
	s.RemoveGate(sid)
	s.RemoveHelper(sid)
}

// AddGate records that a gate leads the session with that ID.
func (s *Attribution) AddGate(sid int) { s.Waiting = append(s.Waiting, sid) }

// RemoveGate records that the gate with that session ID will have no command.
func (s *Attribution) RemoveGate(sid int) {
	s.Waiting = slices.DeleteFunc(s.Waiting, func(waiting int) bool { return waiting == sid })
}

// StrayGates are processes of the list that look like gates and are not in use: they neither
// wait for a command nor have one. A process that opens a gate has the record.
func (s *Attribution) StrayGates(list []sandbox.Process) (strays []sandbox.Process) {
	for _, p := range list {
		if _, leads := s.Leaders[p.SID]; p.PID != 0 && p.PID == p.SID && gate.IsWaiting(p) && !leads && !slices.Contains(s.Waiting, p.SID) {
			strays = append(strays, p)
		}
	}
	return strays
}

// AddHelper records that a process of belljar's own leads the session with that ID.
func (s *Attribution) AddHelper(sid int) { s.Helpers = append(s.Helpers, sid) }

// RemoveHelper records its end.
func (s *Attribution) RemoveHelper(sid int) {
	s.Helpers = slices.DeleteFunc(s.Helpers, func(helper int) bool { return helper == sid })
}

// WithoutGates is the list without waiting gates, and without helpers and what they
// started. Those that ended are forgotten.
func (s *Attribution) WithoutGates(list []sandbox.Process) []sandbox.Process {
	ended := func(sid int) bool {
		return !slices.ContainsFunc(list, func(p sandbox.Process) bool { return p.PID != 0 && p.SID == sid })
	}
	s.Waiting, s.Helpers = slices.DeleteFunc(s.Waiting, ended), slices.DeleteFunc(s.Helpers, ended)
	return slices.DeleteFunc(list, func(p sandbox.Process) bool {
		return p.PID != 0 && (p.PID == p.SID && slices.Contains(s.Waiting, p.SID) || slices.Contains(s.Helpers, p.SID))
	})
}

// AddCold records that a command runs whose first process is unknown.
func (s *Attribution) AddCold(command string) { s.Cold = append(s.Cold, command) }

// RemoveCold records its end: the processes it left are listed by then.
func (s *Attribution) RemoveCold(command string) {
	s.Cold = slices.DeleteFunc(s.Cold, func(id string) bool { return id == command })
}

// Strangers records what runs in a container of which nothing is recorded: no command is to answer for
// processes that were there before it.
func (s *Attribution) Strangers(list []sandbox.Process, err error) {
	if err != nil {
		s.AddCold("")
		return
	}
	s.Attribute(list, nil)
}

// Attribute sets CommandID in the list, from a process's session, from
// earlier results, or from its parent. A process that left both belongs to the one
// command that could have started it, or to none if there are several.
//
// active are the commands that run now, or did until just now. Results
// are stored, and those for ended processes removed.
func (s *Attribution) Attribute(list []sandbox.Process, active map[string]bool) {
	known := map[knownProcess]string{}
	for _, k := range s.Known {
		known[knownProcess{k.PID, k.StartTicks, ""}] = k.Command
	}
	byPID := map[int]*sandbox.Process{}
	for i := range list {
		p := &list[i]
		if p.PID == 0 {
			continue // only the host's PID is known: nothing to compare
		}
		byPID[p.PID] = p
		if p.CommandID = known[knownProcess{p.PID, p.StartTicks, ""}]; p.CommandID == "" {
			p.CommandID = s.Leaders[p.SID]
		}
	}
	inherit(list, byPID)
	if only := s.only(active); only != "" {
		for i := range list {
			list[i].CommandID = only
		}
	}
	s.remember(list)
}

// only is the one command that could have started anything that runs now: one
// that runs, or that had a running process when it was last listed.
func (s *Attribution) only(active map[string]bool) string {
	could := maps.Clone(active)
	if could == nil {
		could = map[string]bool{}
	}
	for _, id := range s.Leaders {
		could[id] = true
	}
	for _, id := range s.Cold {
		could[id] = true
	}
	for _, k := range s.Known {
		could[k.Command] = true
	}
	if len(could) > 1 {
		return ""
	}
	for id := range could {
		return id
	}
	return ""
}

// inherit passes commands on from parents to children.
func inherit(list []sandbox.Process, byPID map[int]*sandbox.Process) {
	for again := true; again; {
		again = false
		for i := range list {
			p := &list[i]
			if parent := byPID[p.PPID]; p.CommandID == "" && parent != nil && parent.CommandID != "" {
				p.CommandID, again = parent.CommandID, true
			}
		}
	}
}

func (s *Attribution) remember(list []sandbox.Process) {
	s.Known = nil
	sessions := map[int]bool{}
	for _, p := range list {
		sessions[p.SID] = true
		if k := (knownProcess{p.PID, p.StartTicks, p.CommandID}); !slices.Contains(s.Known, k) {
			s.Known = append(s.Known, k)
		}
	}
	// The number may be reused by another session once this one is empty.
	maps.DeleteFunc(s.Leaders, func(leader int, _ string) bool { return !sessions[leader] })
}
