package enginetest

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// remapped starts the program that follows where user "daemon" has these users, and nothing of this host has changed.
const remapped = `echo daemon:%d:65536 >%[2]s/ids && mount --make-rprivate / && mount --bind %[2]s/ids /etc/subuid && mount --bind %[2]s/ids /etc/subgid && exec "$@"`

// firstID is the host's user that is root in the containers of a remapped engine.
const firstID = 1_200_000_000

// NewRemapped is New for an engine that maps users. It has a mount namespace of its own, which Enter leads into.
func NewRemapped(t testing.TB) *Engine {
	t.Helper()
	e := prepare(t, `{"userns-remap": "daemon"}`)
	if err := os.Chmod(e.Dir, 0o711); err != nil { // those users must enter it
		t.Fatal(err)
	}
	e.own = true
	e.launch(t, []string{"sh", "-c", fmt.Sprintf(remapped, firstID, e.Dir), "sh"}, "overlay2")
	return e
}

// Enter has a command that was not started use the engine, in its mount namespace.
func (e *Engine) Enter(c *exec.Cmd) {
	e.Use(c)
	c.Args = append([]string{"nsenter", fmt.Sprintf("--mount=/proc/%d/ns/mnt", e.cmd.Process.Pid), "--", c.Path}, c.Args[1:]...)
	c.Path, c.Err = exec.LookPath("nsenter")
}
