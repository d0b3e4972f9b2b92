package local

// LiveSessions is how many sessions l remembers in memory.
func (l *Local) LiveSessions() int {
	l.sessions.mu.Lock()
	defer l.sessions.mu.Unlock()
	return len(l.sessions.live)
}

var ProfileDefaults = profileDefaults
