package local

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"belljar/internal/limits"
	"belljar/internal/names"
	"belljar/internal/target"
	"belljar/sandbox"
)

// validate refuses what no engine could run, or would run as something else,
// before anything is made. The engine would blame the command for both.
func validate(c sandbox.Command, p sandbox.Profile) error {
	checks := []func() error{
		func() error { return names.CheckID(c.ID) }, func() error { return checkScript(c) }, func() error { return checkDescription(c) }, func() error { return checkDir(c) }, func() error { return checkShell(c) }, func() error { return checkUser(c.User) }, func() error { return names.CheckRoot(c.User, p.User) }, func() error { return checkDisk(c, p) }, func() error { return checkNetwork(c) }, func() error { return checkTmpfs(c) }, func() error { return checkFiles(c, p.Workdir) }, func() error { return limits.Check(c.Limits) }, func() error { return checkInSession(c) }, func() error { return checkView(c) },
		func() error { return checkTimeout("timeout", c.Timeout, sandbox.MinTimeout, p.MaxTimeout) },
		func() error {
			if c.IdleTimeout == sandbox.NoIdleTimeout {
				return nil
			}
			return checkTimeout("idle timeout", c.IdleTimeout, minIdleTimeout, p.MaxTimeout)
		},
		func() error { return checkStopGrace(c.StopGrace) },
	}
	for _, check := range checks {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func checkScript(c sandbox.Command) error {
	switch {
	case strings.TrimSpace(c.Script) == "":
		return sandbox.Invalid("pass a script, for example: belljar run 'echo hello'", "command is empty")
	case strings.ContainsRune(c.Script, 0):
		return sandbox.Invalid("a shell script cannot contain one; use printf '\\000' to output one", "command has a NUL byte at offset %d", strings.IndexByte(c.Script, 0))
	case len(c.Script) > sandbox.MaxScript:
		return sandbox.Invalid(hintFile, "command is %d bytes long, over the limit of %d", len(c.Script), sandbox.MaxScript)
	}
	return nil
}

func checkUser(u sandbox.User) error {
	if err := names.CheckUser(u); err != nil || u.Name != names.Caller {
		return err
	}
	switch uid, gid := callerIDs(); {
	case uid <= 0:
		return sandbox.Invalid("give UID:GID, such as the owner of the files: -u 1000:1000", "user caller is root, because root runs belljar, and commands never run as root")
	case gid <= 0:
		return sandbox.Invalid(fmt.Sprintf("if you mean that group, give numbers: -u %d:0", uid), "user caller has root's group, 0")
	}
	return nil
}

// checkDisk refuses to write to the root file system where the profile does not let commands.
func checkDisk(c sandbox.Command, p sandbox.Profile) error {
	if c.Limits.Disk > p.Limits.Disk {
		return sandbox.Invalid("leave it out, or use a profile with rootfs: writable", "limits.disk %s is more than the %s of profile %q", sandbox.FormatSize(c.Limits.Disk), sandbox.FormatSize(p.Limits.Disk), c.Profile)
	}
	return nil
}

func checkShell(c sandbox.Command) error {
	if !slices.Contains([]string{sandbox.ShellSh, sandbox.ShellBash, sandbox.ShellAuto}, c.Shell) {
		return sandbox.Invalid("use sh, bash or auto", "shell %.80q is unknown", c.Shell)
	}
	return nil
}

// hintFile is the alternative to a script that is too long to start a process with.
const hintFile = "put it in a file and mount it, or pass it on stdin: belljar run -i sh < FILE"

// checkArguments refuses a script that does not fit next to the environment, which is
// complete by now.
func checkArguments(c sandbox.Command) error {
	size := len(c.Script)
	for _, kv := range c.Env {
		size += len(kv) + 9 // with its NUL, and a pointer to it
	}
	if size > sandbox.MaxScript {
		return sandbox.Invalid(hintFile, "command and environment are %d bytes long, over the limit of %d", size, sandbox.MaxScript)
	}
	return nil
}

func checkDescription(c sandbox.Command) error {
	if len(c.Description) > sandbox.MaxDescription || !utf8.ValidString(c.Description) {
		return sandbox.Invalid(fmt.Sprintf("use at most %d bytes of UTF-8 text", sandbox.MaxDescription), "the description is %d bytes long or not valid text", len(c.Description))
	}
	return nil
}

func checkDir(c sandbox.Command) error {
	if !path.IsAbs(c.Dir) || strings.ContainsRune(c.Dir, 0) || !utf8.ValidString(c.Dir) {
		return sandbox.Invalid("it is a path inside the container, such as /work", "working directory %q is not absolute", c.Dir)
	}
	// Through /proc a working directory can be a leaked descriptor of the
	// runtime's, and so the host's file system (CVE-2024-21626).
	if slices.ContainsFunc([]string{"/proc", "/sys", "/dev"}, func(dir string) bool { return target.Within(dir, path.Clean(c.Dir)) }) {
		return sandbox.Invalid("choose a directory such as /work", "working directory %q is in a file system of the kernel", c.Dir)
	}
	return nil
}

func checkInSession(c sandbox.Command) error {
	if c.Session == "" && c.Parallel {
		return sandbox.Invalid("name a session, or leave parallel out", "a parallel command needs a session")
	}
	if c.Session == "" && c.Existing {
		return sandbox.Invalid("name a session, or leave existing out", "only a session can be an existing one")
	}
	if c.OnTimeout != sandbox.EndContainer && c.OnTimeout != sandbox.EndCommand {
		return sandbox.Invalid("use container or command", "on_timeout %q is unknown", c.OnTimeout)
	}
	if c.Session == "" {
		return nil
	}
	return names.CheckSession(c.Session)
}

// maxTmpfs is more directories than a command needs.
const maxTmpfs = 16

func checkTmpfs(c sandbox.Command) error {
	if len(c.Tmpfs) > maxTmpfs {
		return sandbox.Invalid("list only directories that the command writes to", "tmpfs has %d directories, over the limit of %d", len(c.Tmpfs), maxTmpfs)
	}
	for _, dir := range c.Tmpfs {
		if err := target.CheckTmpfs(dir); err != nil {
			return err
		}
		for _, m := range c.Mounts {
			// The engine would make the directory in the mount's source.
			if target.Within(path.Clean(m.Target), dir) {
				return sandbox.Invalid("mount elsewhere, or leave it out of tmpfs", "tmpfs %q is in the mount at %q", dir, m.Target)
			}
		}
	}
	return nil
}

func checkNetwork(c sandbox.Command) error {
	if c.Network == "host" || strings.HasPrefix(c.Network, "container:") {
		return sandbox.Invalid("use none, bridge or a network of the engine", "network %q shares a namespace with others", c.Network)
	}
	return nil
}

func checkView(c sandbox.Command) error {
	v := c.View
	if !slices.Contains([]sandbox.ViewMode{sandbox.ViewNone, sandbox.ViewSeparate, sandbox.ViewMerged}, v.Mode) {
		return sandbox.Invalid("none, separate or merged", "no view mode %.80q", v.Mode)
	}
	if c.Streams == sandbox.StreamsView && v.Mode == sandbox.ViewNone {
		return sandbox.Invalid("ask for a view, separate or merged, or for streams full", "streams %q needs a view", c.Streams)
	}
	if !slices.Contains([]sandbox.Streams{sandbox.StreamsFull, sandbox.StreamsView, sandbox.StreamsNone}, c.Streams) {
		return sandbox.Invalid("full, view or none", "no streams %.80q", c.Streams)
	}
	if c.Encoding != sandbox.EncodingExact && c.Encoding != sandbox.EncodingReplace {
		return sandbox.Invalid("exact or replace", "no encoding %.80q", c.Encoding)
	}
	if min(v.Bytes, v.Lines, v.LineChars, v.Scrollback, v.ScrollbackBytes) < 0 {
		return sandbox.Invalid("give 0 for none", "a view's bound is negative")
	}
	if !slices.Contains([]sandbox.LiveMode{sandbox.LiveRaw, sandbox.LiveView}, c.Live) {
		return sandbox.Invalid("raw or view", "no live mode %.80q", c.Live)
	}
	return nil
}

func checkStopGrace(d time.Duration) error {
	if d < 0 || d > sandbox.MaxStopGrace {
		return sandbox.Invalid("use at most "+sandbox.FormatDuration(sandbox.MaxStopGrace), "stop_grace %s is out of range", sandbox.FormatDuration(d))
	}
	return nil
}

// minIdleTimeout is for programs that steer the timer themselves: see Execution.Touch.
const minIdleTimeout = 50 * time.Millisecond

func checkTimeout(name string, d, least, most time.Duration) error {
	if d < least {
		return sandbox.Invalid(fmt.Sprintf("at least %s", sandbox.FormatDuration(least)), "%s %s is too short", name, sandbox.FormatDuration(d))
	}
	if d > most {
		return sandbox.Invalid(fmt.Sprintf("ask for %s at most, or raise max_timeout in sandbox.yaml", sandbox.FormatDuration(most)), "%s %s is over max_timeout %s", name, sandbox.FormatDuration(d), sandbox.FormatDuration(most))
	}
	return nil
}
