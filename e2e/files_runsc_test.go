package e2e

import (
	"os"
	"os/exec"
	"testing"
)

// TestSessionFilesGVisor: what runs is listed from inside there.
func TestSessionFilesGVisor(t *testing.T) {
	t.Parallel()
	d := gvisor(t)
	name, state := "files", t.TempDir()
	s := &filesSession{t: t, name: name, made: []string{"--runtime", "runsc"}, dir: t.TempDir(), use: func(c *exec.Cmd) {
		c.Env = append(os.Environ(), "DOCKER_HOST="+d.Host, "XDG_STATE_HOME="+state)
	}}
	asks(t, s.use, "--session", name, "--runtime", "runsc", "mkdir d; echo old >d/f").ended(t, 0, "")
	defer s.does("rm", name)
	checkFiles(t, s)
}
