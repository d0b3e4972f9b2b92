// Package target checks where in a container something may be mounted, and tells volumes from paths.
package target

import (
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"belljar/sandbox"
)

// containerPaths are where a mount would replace files of the engine, or
// programs that every command trusts.
var containerPaths = []string{"/proc", "/sys", "/dev", "/etc", "/bin", "/sbin", "/lib", "/lib64", "/usr"}

// Protected is the path of a container because of which nothing may be mounted at
// target, or "".
func Protected(target string) string {
	target = path.Clean(target)
	if target == "/" {
		return target
	}
	if i := slices.IndexFunc(containerPaths, func(p string) bool { return Within(p, target) }); i >= 0 {
		return containerPaths[i]
	}
	return ""
}

// CheckTmpfs refuses a directory that cannot be a tmpfs.
func CheckTmpfs(dir string) error {
	if !path.IsAbs(dir) || path.Clean(dir) != dir || strings.ContainsAny(dir, "\x00:,") || !utf8.ValidString(dir) {
		return sandbox.Invalid("write only a path in the container, such as /var/tmp; limits.tmp is its size", "tmpfs %.256q is not the path of a directory", dir)
	}
	if p := Protected(dir); p != "" {
		return sandbox.Invalid("choose one such as /var/tmp", "tmpfs %.256q is not allowed: %s is protected", dir, p)
	}
	return nil
}

// Within reports whether the clean path p is dir or below it.
func Within(dir, p string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}
