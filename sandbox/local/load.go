package local

// Load counts the commands that run, that wait for a turn, and that wait for an approval.
func (l *Local) Load() (running, waiting, asking int) {
	a := &l.admission
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.running, a.admitted - a.running, l.approvals.asking()
}
