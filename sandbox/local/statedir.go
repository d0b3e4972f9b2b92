package local

import "path/filepath"

// stateDir is the directory of that name for what is remembered, or "" where
// nothing is: a relative name would be the working directory's, which may be
// anyone's. Whoever uses StateDir does so here.
func (l *Local) stateDir(name string) string {
	if l.StateDir == "" {
		return ""
	}
	return filepath.Join(l.StateDir, name)
}
