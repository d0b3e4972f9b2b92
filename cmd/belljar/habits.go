package main

import (
	"belljar/internal/lazyregexp"
	"errors"
	"slices"

	"belljar/sandbox"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// habits say what to use instead of flags that only docker run has.
var habits = map[string]string{
	"rm":             "leave it out: the container is always removed; --session NAME keeps one",
	"name":           "containers have no names; --session NAME keeps one for later commands",
	"p":              "ports are never published; with --session NAME, later commands in the session can reach the server",
	"gpus":           "containers get no devices",
	"privileged":     "leave it out: the lock-down is the same for every command",
	"cap-add":        "leave it out: commands have no capabilities",
	"cap-drop":       "leave it out: all capabilities are dropped",
	"security-opt":   "leave it out: seccomp and no-new-privileges are always on",
	"read-only":      "leave it out: the root is always read-only, and /tmp and /work are writable",
	"entrypoint":     "leave it out: an image's entrypoint is never run; write the program as COMMAND",
	"volumes-from":   "name the directories: -v SOURCE:TARGET",
	"init":           "leave it out: an init always runs",
	"restart":        "leave it out: a command runs once",
	"ulimit":         "set limits.files in sandbox.yaml for open files",
	"memory-swap":    "--memory is memory and swap together",
	"shm-size":       "set limits.tmp in sandbox.yaml",
	"hostname":       "leave it out: the hostname cannot be set",
	"label":          "leave it out: --description TEXT records in the audit log what the command is for",
	"platform":       "pull an image for this host: belljar images pull",
	"dns":            "leave it out: the network is none unless --network says otherwise",
	"add-host":       "leave it out: the network is none unless --network says otherwise",
	"detach-keys":    "leave it out: there are no detach keys",
	"stop-timeout":   "use --timeout, and --stop-grace for the time from SIGTERM to SIGKILL",
	"group-add":      "write the group as --user UID:GID or NAME:GROUP",
	"sig-proxy":      "leave it out: the first Ctrl-C cancels, the second kills",
	"cgroupns":       "leave it out: a container never gets a namespace of the host",
	"ipc":            "leave it out: a container never gets a namespace of the host",
	"stop-signal":    "leave it out: commands are ended with SIGKILL, and with --stop-grace with SIGTERM before",
	"log-driver":     "leave it out: belljar logs ID shows the output",
	"no-healthcheck": "leave it out: an image's health check never runs",
}

// sameHabit are other names of these flags.
var sameHabit = map[string]string{
	"publish": "p", "P": "p", "publish-all": "p", "expose": "p", "device": "gpus", "volume-from": "volumes-from", "l": "label", "pid": "ipc", "uts": "ipc", "userns": "ipc",
	"dns-search": "dns", "dns-option": "dns", "link": "dns", "label-file": "label", "log-opt": "log-driver", "oom-kill-disable": "memory-swap", "memory-swappiness": "memory-swap", "health-cmd": "no-healthcheck",
}

// flagError says what to do about a wrong flag.
func flagError(c *cobra.Command, err error) error {
	wrong := &sandbox.Error{Cause: sandbox.CauseInvalid, Message: err.Error(), Hint: "see " + c.CommandPath() + " --help"}
	unknown, is := errors.AsType[*pflag.NotExistError](err)
	if _, runs := c.Annotations[tellsResult]; !is || !runs {
		return wrong
	}
	name := unknown.GetSpecifiedName()
	if same, ok := sameHabit[name]; ok {
		name = same
	}
	if hint, ok := habits[name]; ok {
		wrong.Hint = hint
	}
	return wrong
}

// imageNames are images that many docker run commands name.
var imageNames = []string{"alpine", "archlinux", "bash", "busybox", "centos", "debian", "fedora", "golang", "gcc", "node", "openjdk", "perl", "php", "python", "ruby", "rust", "ubuntu"}

var tagged = lazyregexp.New(`^[a-z0-9][a-z0-9._/-]*(:[A-Za-z0-9_.-]+|@sha256:[0-9a-f]+)$`)

// meantImage is a hint for a command that was not found and whose first word looks
// like an image: docker run takes it before the command.
func meantImage(args []string, r *sandbox.Result, isHere func(image string) bool) string {
	if len(args) < 2 || r == nil || r.Cause != sandbox.CauseExited || r.ExitCode != 127 {
		return ""
	}
	if !slices.Contains(imageNames, args[0]) && !tagged.MatchString(args[0]) && !isHere(args[0]) {
		return ""
	}
	return "there is no program " + script(args[:1]) + "; if it is the image, write: belljar run --image " + quote(args[0], false) + " -- " + cut(script(args[1:]), 100)
}
