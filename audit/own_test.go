package audit

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A file or a directory that others could write is refused for an audit log.
func TestUnsafeFiles(t *testing.T) {
	other := filepath.Join(t.TempDir(), "other")
	mode := func(name string, mode os.FileMode) error {
		return errors.Join(os.WriteFile(name, nil, 0o600), os.Chmod(name, mode))
	}
	for name, test := range map[string]struct {
		make func(l *Log) error
		want string
	}{
		"a link": {func(l *Log) error {
			return errors.Join(l.Record(entry("a")), os.Remove(l.File), os.Symlink(other, l.File))
		}, "is a symbolic link"},
		"a link for the head": {func(l *Log) error { return os.Symlink(other, headName(l.File)) }, "is a symbolic link"},
		"a hard link": {func(l *Log) error {
			return errors.Join(l.Record(entry("a")), os.Link(l.File, l.File+"x"))
		}, "has 2 names, which are hard links (remove the others: find / -xdev -inum "},
		"a hard link for the head": {func(l *Log) error {
			return errors.Join(l.Record(entry("a")), os.Link(headName(l.File), l.File+"x"))
		}, "has 2 names, which are hard links"},
		"a directory": {func(l *Log) error {
			return errors.Join(l.Record(entry("a")), os.Remove(l.File), os.Mkdir(l.File, 0o700))
		}, "is a directory"},
		"a pipe":               {func(l *Log) error { return syscall.Mkfifo(headName(l.File), 0o600) }, "is not a regular file"},
		"a writable file":      {func(l *Log) error { return mode(l.File, 0o620) }, "its mode is 0620 (chmod 600 "},
		"a readable file":      {func(l *Log) error { return mode(l.File, 0o604) }, "its mode is 0604 (chmod 600 "},
		"a readable head":      {func(l *Log) error { return mode(headName(l.File), 0o640) }, "its mode is 0640 (chmod 600 "},
		"a writable directory": {func(l *Log) error { return os.Chmod(filepath.Dir(l.File), 0o777) }, "its mode is 0777 (chmod go-w "},
		"a shared directory":   {func(l *Log) error { return os.Chmod(filepath.Dir(l.File), 0o777|os.ModeSticky) }, "its mode is 0777 (chmod go-w "},
		"a readable rotated file": {func(l *Log) error {
			return errors.Join(l.Record(entry("a")), os.Rename(l.File, rotated(l.File, 1)), os.Chmod(rotated(l.File, 1), 0o644))
		}, "its mode is 0644 (chmod 600 "},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLog(t)
			if err := errors.Join(os.MkdirAll(filepath.Dir(l.File), 0o700), test.make(l)); err != nil {
				t.Fatal(err)
			}
			err := l.Record(entry("a"))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v", err)
			}
			if _, err := os.Stat(other); err == nil {
				t.Error("the link was followed")
			}
		})
	}
}

// A user who can write a directory above could rename the audit's directory away, and
// create another.
func TestDirectoriesAbove(t *testing.T) {
	nobody := os.Geteuid() + 1
	for name, test := range map[string]struct {
		make func(top, dir string) error // dir's parent exists
		want string                      // %s is the top; "" is none
	}{
		"unchanged":                        {func(_, _ string) error { return nil }, ""},
		"readable":                         {func(top, _ string) error { return os.Chmod(top, 0o755) }, ""},
		"sticky":                           {func(top, _ string) error { return os.Chmod(top, 0o777|os.ModeSticky) }, ""},
		"writable by the user's own group": {func(top, _ string) error { return errors.Join(os.Chown(top, -1, os.Geteuid()), os.Chmod(top, 0o770)) }, ""},
		"writable by a group":              {func(top, _ string) error { return errors.Join(os.Chown(top, -1, os.Geteuid()+1), os.Chmod(top, 0o770)) }, "is writable by other users, who could replace the audit log: its mode is 0770 (chmod go-w %s, or choose another file: "},
		"writable by all":                  {func(top, _ string) error { return os.Chmod(top, 0o777) }, "its mode is 0777 (chmod go-w %s,"},
		"another user's":                   {func(top, _ string) error { return os.Chown(top, nobody, nobody) }, "is above the audit log, and belongs to neither root nor this user (chown root %s,"},
		"sticky, another user's": {func(top, _ string) error {
			return errors.Join(os.Chmod(top, 0o777|os.ModeSticky), os.Chown(top, nobody, nobody))
		}, "belongs to neither root nor this user"},
		"behind a link": {func(top, dir string) error {
			real := filepath.Join(top, "real")
			return errors.Join(os.Mkdir(real, 0o700), os.Mkdir(filepath.Join(real, "in"), 0o700), os.Chmod(real, 0o777), os.Symlink("../top/./real/in", dir))
		}, "its mode is 0777 (chmod go-w %s/real,"},
		"a link": {func(top, dir string) error {
			return errors.Join(os.Mkdir(filepath.Join(top, "real"), 0o700), os.Symlink(filepath.Join(top, "real"), dir))
		}, ""},
		"another user's link": {func(top, dir string) error {
			return errors.Join(os.Chmod(top, 0o777|os.ModeSticky), os.Mkdir(filepath.Join(top, "real"), 0o700), os.Symlink("real", dir), os.Lchown(dir, nobody, nobody))
		}, "belongs to neither root nor this user"},
		"a link to itself": {func(_, dir string) error { return os.Symlink("dir", dir) }, "too many levels of symbolic links"},
		"a file":           {func(_, dir string) error { return os.WriteFile(dir, nil, 0o600) }, "not a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLog(t)
			top := filepath.Join(filepath.Dir(filepath.Dir(filepath.Dir(l.File))), "top")
			dir := filepath.Join(top, "dir")
			l.File = filepath.Join(dir, "more", "audit", "audit.jsonl")
			if err := os.Mkdir(top, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := test.make(top, dir); errors.Is(err, syscall.EPERM) {
				t.Skipf("NOT TESTED: %v", err)
			} else if err != nil {
				t.Fatal(err)
			}
			err := l.Record(entry("a"))
			want := strings.ReplaceAll(test.want, "%s", top)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%v, want %q", err, want)
			}
		})
	}
}

// Every error names the file, and the next step.
func TestErrorsNameTheFile(t *testing.T) {
	l := newLog(t)
	add(t, l, "a")
	write(t, l.File, append(read(t, l.File), strings.Repeat("x", 2<<20)...))
	err := l.Record(entry("b"))
	if err == nil || !strings.Contains(err.Error(), l.File) || !strings.Contains(err.Error(), "a line is longer than 1048576 bytes (check it with: belljar audit verify;") {
		t.Error(err)
	}
}

// Who else could write a directory is known by its owner, its group and its mode.
func TestIsPrivate(t *testing.T) {
	const user, other = 65532, 1000
	for _, test := range []struct {
		uid, gid, mode uint32
		want           bool
	}{
		{user, user, 0o700, true}, {user, other, 0o755, true}, {user, user, 0o775, true}, {user, other, 0o775, false}, {user, user, 0o777, false},
		{0, 0, 0o755, true}, {0, user, 0o2775, true}, {0, other, 0o2775, false}, {0, 0, 0o775, false}, {0, user, 0o2777, false},
		{other, user, 0o775, false},
	} {
		if got := isPrivate(&syscall.Stat_t{Uid: test.uid, Gid: test.gid, Mode: syscall.S_IFDIR | test.mode}, user); got != test.want {
			t.Errorf("%+v: %v", test, got)
		}
	}
}
