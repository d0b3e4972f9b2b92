package local

import (
	"context"
	"fmt"
	"os"
	"syscall"

	"belljar/internal/names"
	"belljar/internal/target"
	"belljar/sandbox"
)

// hostUsers is an engine that knows whether a UID in its containers is that UID on this
// host: not on another machine, and not in a user namespace.
type hostUsers interface {
	HostUsers(ctx context.Context) bool
}

// unwritable says which writable directories of this host the command's user cannot write to.
func (x *execution) unwritable(ctx context.Context) (notices []string) {
	for _, m := range x.command.Mounts {
		if !m.Writable || target.Volume(m.Source) {
			continue
		}
		if text := unwritable(m.Source, x.result.User); text != "" {
			if e, ok := x.local.Engine.(hostUsers); !ok || !e.HostUsers(ctx) {
				return nil
			}
			notices = append(notices, text)
		}
	}
	return notices
}

// unwritable says why a user cannot write to a file or directory of this host, or ""
// where it can or that is not known, as with an access control list.
func unwritable(source string, u sandbox.User) string {
	info, err := os.Stat(source)
	if u.IsRoot() {
		u.UID, u.GID = -1, -1 // it owns nothing outside
	}
	if err != nil || u.UID == 0 {
		return ""
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	if n, _ := syscall.Getxattr(source, "system.posix_acl_access", nil); n > 0 {
		return ""
	}
	needs, shift := os.FileMode(0o2), 0
	if info.IsDir() {
		needs = 0o3
	}
	switch {
	case int(owner.Uid) == u.UID:
		shift = 6
	case int(owner.Gid) == u.GID:
		shift = 3
	}
	if info.Mode().Perm()>>shift&needs == needs {
		return ""
	}
	uid, gid := callerIDs()
	next := fmt.Sprintf("chown %s %q", u.Numbers(), source)
	switch {
	case int(owner.Uid) == u.UID:
		next = fmt.Sprintf("chmod u+w %q", source)
	case uid != 0 && int(owner.Uid) == uid && gid != 0:
		next = "use -u " + names.Caller
	case owner.Uid != 0:
		next = fmt.Sprintf("use -u %d:%d, or %s", owner.Uid, owner.Gid, next)
	}
	return fmt.Sprintf("user %s cannot write to the writable mount %q: it belongs to %d:%d and has mode %04o (%s)", u.Numbers(), source, owner.Uid, owner.Gid, info.Mode().Perm(), next)
}
