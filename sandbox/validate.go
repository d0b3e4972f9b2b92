package sandbox

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// invalid is a refusal of an unusable command.
func invalid(hint, format string, args ...any) error {
	return &Error{Cause: CauseInvalid, Message: fmt.Sprintf(format, args...), Hint: hint}
}

// validate refuses what no engine could run, or would run as something else,
// before anything is made. The engine reports both as the command's failure.
func (c Command) validate(p Profile) error {
	checks := []func() error{
		func() error { return CheckID(c.ID) }, c.checkScript, c.checkDescription, c.checkDir, c.checkUser, c.checkNetwork, c.checkTmpfs, c.Limits.Check, c.checkSession, c.checkView,
		func() error { return checkTimeout("timeout", c.Timeout, p.MaxTimeout) },
		func() error {
			if c.IdleTimeout == NoIdleTimeout {
				return nil
			}
			return checkTimeout("idle timeout", c.IdleTimeout, p.MaxTimeout)
		},
	}
	for _, check := range checks {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// idChars are what an ID may hold, which becomes part of a container's name and
// of its address in the engine's API.
const idChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"

// CheckID refuses what cannot be a command's ID.
func CheckID(id string) error {
	if len(id) > 64 || strings.Trim(id, idChars) != "" || strings.HasPrefix(id, ".") {
		return invalid("at most 64 of A-Z a-z 0-9 _ . -, the first no dot, or none: then one is chosen", "command ID %.80q", id)
	}
	return nil
}

func (c Command) checkScript() error {
	switch {
	case strings.TrimSpace(c.Script) == "":
		return invalid("give a script, such as: belljar run 'echo hello'", "command is empty")
	case strings.ContainsRune(c.Script, 0):
		return invalid("a shell script cannot hold one: write printf '\\000' where the output needs it", "command has a NUL byte at offset %d", strings.IndexByte(c.Script, 0))
	case len(c.Script) > MaxScript:
		return invalid(hintFile, "command is %d bytes long, over the limit of %d", len(c.Script), MaxScript)
	}
	return nil
}

// hintFile is the way of a script that no process can be started with.
const hintFile = "put it in a file and mount it, or pass it on stdin: belljar run -i sh < FILE"

// checkArguments refuses a script that has no room beside the environment, which
// is whole by now.
func (c Command) checkArguments() error {
	size := len(c.Script)
	for _, kv := range c.Env {
		size += len(kv) + 9 // with its NUL, and a pointer to it
	}
	if size > MaxScript {
		return invalid(hintFile, "command and environment are %d bytes long, over the limit of %d", size, MaxScript)
	}
	return nil
}

func (c Command) checkDescription() error {
	if len(c.Description) > MaxDescription || !utf8.ValidString(c.Description) {
		return invalid(fmt.Sprintf("say in at most %d bytes of UTF-8 what the command is for", MaxDescription), "the description is %d bytes long, or not text", len(c.Description))
	}
	return nil
}

func (c Command) checkDir() error {
	if !path.IsAbs(c.Dir) || strings.ContainsRune(c.Dir, 0) || !utf8.ValidString(c.Dir) {
		return invalid("it is a path inside the container, such as /work", "working directory %q is not absolute", c.Dir)
	}
	// Through /proc a working directory can be a leaked descriptor of the
	// runtime's, and so the host's file system (CVE-2024-21626).
	if slices.ContainsFunc([]string{"/proc", "/sys", "/dev"}, func(dir string) bool { return within(dir, path.Clean(c.Dir)) }) {
		return invalid("choose one such as /work", "working directory %q is in the kernel's own file systems", c.Dir)
	}
	return nil
}

func (c Command) checkSession() error {
	if c.Session == "" && c.Parallel {
		return invalid("name one, or leave parallel out", "a parallel command without a session")
	}
	if c.OnTimeout != EndContainer && c.OnTimeout != EndCommand {
		return invalid("use container or command", "on_timeout %q is unknown", c.OnTimeout)
	}
	if c.Session == "" {
		return nil
	}
	return checkSession(c.Session)
}

// checkSession refuses what could not be a label's value and a file's name.
func checkSession(name string) error {
	if name == "" || len(name) > 64 || strings.Trim(name, idChars) != "" || strings.Trim(name[:1], "._-") == "" {
		return invalid("at most 64 of A-Z a-z 0-9 _ . -, the first a letter or digit", "session name %.80q is not allowed", name)
	}
	return nil
}

func (c Command) checkUser() error {
	if c.User.Name != "" {
		_, err := ParseUser(c.User.Name)
		return err
	}
	if c.User.UID == 0 {
		return invalid(rootHint, "user %d:%d is root, which no command runs as", c.User.UID, c.User.GID)
	}
	if c.User.UID < 0 || c.User.GID < 0 {
		return invalid("give UID:GID with a UID above 0, such as 65534:65534", "user %d:%d is not allowed", c.User.UID, c.User.GID)
	}
	return nil
}

// containerPaths are where a mount would replace what the engine put there, or
// the programs that every command trusts.
var containerPaths = []string{"/proc", "/sys", "/dev", "/etc", "/bin", "/sbin", "/lib", "/lib64", "/usr"}

// ProtectedTarget is the path of a container for which nothing may be mounted at
// target, or "".
func ProtectedTarget(target string) string {
	target = path.Clean(target)
	if target == "/" {
		return target
	}
	if i := slices.IndexFunc(containerPaths, func(p string) bool { return within(p, target) }); i >= 0 {
		return containerPaths[i]
	}
	return ""
}

// maxTmpfs is more directories than a command has use for.
const maxTmpfs = 16

func (c Command) checkTmpfs() error {
	if len(c.Tmpfs) > maxTmpfs {
		return invalid("name those that the command writes to", "tmpfs has %d directories, over the limit of %d", len(c.Tmpfs), maxTmpfs)
	}
	for _, dir := range c.Tmpfs {
		if err := CheckTmpfs(dir); err != nil {
			return err
		}
		for _, m := range c.Mounts {
			// The engine would make the directory in the mount's source.
			if within(path.Clean(m.Target), dir) {
				return invalid("mount elsewhere, or leave it out of tmpfs", "tmpfs %q is in the mount at %q", dir, m.Target)
			}
		}
	}
	return nil
}

// CheckTmpfs refuses a directory that cannot be one in memory.
func CheckTmpfs(dir string) error {
	if !path.IsAbs(dir) || path.Clean(dir) != dir || strings.ContainsAny(dir, "\x00:,") || !utf8.ValidString(dir) {
		return invalid("write a path inside the container alone, such as /var/tmp: its size is limits.tmp", "tmpfs %.256q is not the path of a directory", dir)
	}
	if p := ProtectedTarget(dir); p != "" {
		return invalid("choose one such as /var/tmp", "tmpfs %.256q is protected: nothing is mounted at %s", dir, p)
	}
	return nil
}

func (c Command) checkNetwork() error {
	if c.Network == "host" || strings.HasPrefix(c.Network, "container:") {
		return invalid("use none, bridge or a network of the engine's", "network %q shares a namespace with others", c.Network)
	}
	return nil
}

// Check refuses limits that no command can run with.
func (l Limits) Check() error {
	for _, l := range l.each() {
		if l.tooLow() {
			return invalid("raise it", "limits.%s is %s, below the least of %s%s", l.name, decimal(l.value), decimal(l.least), l.unit)
		}
	}
	return nil
}

// limit is one of Limits, and the least that a command can run with.
type limit struct {
	name         string
	value, least float64
	unit         string
}

func (l limit) tooLow() bool { return !(l.value >= l.least) } // so that NaN is, too

func (l Limits) each() []limit {
	return []limit{
		{"memory", float64(l.Memory), 6 << 20, " bytes"}, // the engine's own minimum
		{"cpus", l.CPUs, 0.01, ""},
		{"pids", float64(l.Pids), 4, ""}, // init, keeper, sh and one command
		{"output", float64(l.Output), 1 << 10, " bytes"},
		{"tmp", float64(l.Tmp), 64 << 10, " bytes"},
		{"files", float64(l.Files), 16, ""},
	}
}

func (c Command) checkView() error {
	v := c.View
	if !slices.Contains([]ViewMode{ViewNone, ViewSeparate, ViewMerged}, v.Mode) {
		return invalid("none, separate or merged", "no view mode %.80q", v.Mode)
	}
	if v.Bytes < 0 || v.Lines < 0 || v.LineChars < 0 {
		return invalid("give 0 for none", "a view's bound is negative")
	}
	if !slices.Contains([]LiveMode{LiveRaw, LiveView}, c.Live) {
		return invalid("raw or view", "no live mode %.80q", c.Live)
	}
	return nil
}

// decimal writes no exponent, which %v does.
func decimal(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

func checkTimeout(name string, d, most time.Duration) error {
	if d < MinTimeout {
		return invalid(fmt.Sprintf("at least %v", MinTimeout), "%s %v is too short", name, d)
	}
	if d > most {
		return invalid("raise max_timeout in sandbox.yaml", "%s %v is over max_timeout %v", name, d, most)
	}
	return nil
}

// within tells whether the clean path p is dir or below it.
func within(dir, p string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}
