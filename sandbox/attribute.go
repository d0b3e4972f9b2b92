package sandbox

// started says which commands of a session started what runs in it.
type started struct {
	// Leaders are the commands by the session ID, as setsid(2) has it, of their
	// first process: an exec begins one, and no process can join another's.
	Leaders map[int]string `json:"leaders,omitempty"`
	// Known are processes that were told before, which may since have left
	// both their session and their parent.
	Known []knownProcess `json:"known,omitempty"`
}

type knownProcess struct {
	PID        int    `json:"pid"`
	StartTicks int64  `json:"start"`
	Command    string `json:"command"`
}

// lead says that the command's first process leads the session with that ID.
func (s *started) lead(sid int, command string) {
	if s.Leaders == nil {
		s.Leaders = map[int]string{}
	}
	s.Leaders[sid] = command
}

// attribute sets CommandID in the list, from the session a process is in, from
// what was known, or from its parent. One that left both counts for the one
// command that could have started it, and for none where there are several.
//
// active are the commands that run now, or did until this moment. What is told
// is remembered, and what is gone forgotten.
func (s *started) attribute(list []Process, active map[string]bool) {
	known := map[[2]int64]string{}
	for _, k := range s.Known {
		known[[2]int64{int64(k.PID), k.StartTicks}] = k.Command
	}
	byPID := map[int]*Process{}
	for i := range list {
		p := &list[i]
		byPID[p.PID] = p
		if p.PID == 0 {
			continue // only the host's is known: nothing to go by
		}
		if p.CommandID = known[[2]int64{int64(p.PID), p.StartTicks}]; p.CommandID == "" {
			p.CommandID = s.Leaders[p.SID]
		}
	}
	s.inherit(list, byPID)
	candidates := map[string]bool{}
	for id := range active {
		candidates[id] = true
	}
	for _, p := range list {
		candidates[p.CommandID] = true
	}
	delete(candidates, "")
	if len(candidates) == 1 {
		for i := range list {
			for id := range candidates {
				list[i].CommandID = id
			}
		}
	}
	s.remember(list, active)
}

// inherit passes commands on from parents to children.
func (s *started) inherit(list []Process, byPID map[int]*Process) {
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

func (s *started) remember(list []Process, active map[string]bool) {
	s.Known = nil
	sessions := map[int]bool{}
	for _, p := range list {
		sessions[p.SID] = true
		if p.CommandID != "" && p.PID != 0 {
			s.Known = append(s.Known, knownProcess{p.PID, p.StartTicks, p.CommandID})
		}
	}
	// A number may be another session's once nobody is in this one.
	for leader, id := range s.Leaders {
		if !sessions[leader] && !active[id] {
			delete(s.Leaders, leader)
		}
	}
}
