package local

import "path/filepath"

// stateDir is the subdirectory of StateDir with that name, or "" if there is no StateDir:
// a relative path would be in the working directory, which anyone may have written.
// All code that uses StateDir calls this.
func (l *Local) stateDir(name string) string {
	if l.StateDir == "" {
		return ""
	}
	return filepath.Join(l.StateDir, name)
}
