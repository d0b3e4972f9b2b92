package sandbox

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// Invalid is a refusal of an unusable command.
func Invalid(hint, format string, args ...any) error {
	return &Error{Cause: CauseInvalid, Message: fmt.Sprintf(format, args...), Hint: hint}
}

// idChars are what an ID may hold, which becomes part of a container's name and
// of its address in the engine's API.
const idChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"

// CheckID refuses what cannot be a command's ID.
func CheckID(id string) error {
	if len(id) > 64 || strings.Trim(id, idChars) != "" || strings.HasPrefix(id, ".") {
		return Invalid("at most 64 of A-Z a-z 0-9 _ . -, the first no dot, or none: then one is chosen", "command ID %.80q", id)
	}
	return nil
}

// CheckSession refuses what could not be a label's value and a file's name.
func CheckSession(name string) error {
	if name == "" || len(name) > 64 || strings.Trim(name, idChars) != "" || strings.Trim(name[:1], "._-") == "" {
		return Invalid("at most 64 of A-Z a-z 0-9 _ . -, the first a letter or digit", "session name %.80q is not allowed", name)
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

// CheckTmpfs refuses a directory that cannot be one in memory.
func CheckTmpfs(dir string) error {
	if !path.IsAbs(dir) || path.Clean(dir) != dir || strings.ContainsAny(dir, "\x00:,") || !utf8.ValidString(dir) {
		return Invalid("write a path inside the container alone, such as /var/tmp: its size is limits.tmp", "tmpfs %.256q is not the path of a directory", dir)
	}
	if p := ProtectedTarget(dir); p != "" {
		return Invalid("choose one such as /var/tmp", "tmpfs %.256q is protected: nothing is mounted at %s", dir, p)
	}
	return nil
}

// within tells whether the clean path p is dir or below it.
func within(dir, p string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}
