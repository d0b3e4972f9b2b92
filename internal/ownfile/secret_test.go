package ownfile

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestReadSecret(t *testing.T) {
	t.Parallel()
	root := os.Getuid() == 0
	for name, test := range map[string]struct {
		mode  os.FileMode
		owner int // where the tests run as root
		want  string
	}{
		"own":                {mode: 0o600, owner: os.Getuid()},
		"read-only":          {mode: 0o400, owner: os.Getuid()},
		"all can read":       {mode: 0o604, owner: os.Getuid(), want: "is accessible to other users: its mode is 0604 (run chmod 600 on it)"},
		"all can write":      {mode: 0o602, owner: os.Getuid(), want: "is accessible to other users"},
		"the group can":      {mode: 0o660, owner: os.Getuid(), want: "is accessible to other users"},
		"root's, for group":  {mode: 0o640, owner: 0},
		"another user's own": {mode: 0o600, owner: 12345, want: "belongs to another user"},
	} {
		if test.owner != os.Getuid() && !root {
			continue // only root can give files away
		}
		file := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(file, []byte("text"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(file, test.owner, -1); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, test.mode); err != nil {
			t.Fatal(err)
		}
		text, err := ReadSecret("token file", file, 4)
		if test.want == "" && (err != nil || string(text) != "text") {
			t.Errorf("%s: %q, %v", name, text, err)
		}
		if test.want != "" && (err == nil || !strings.Contains(err.Error(), `the token file "`+file+`" `+test.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestReadSecretRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fifo, large := filepath.Join(dir, "fifo"), filepath.Join(dir, "large")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(large, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		dir:                          "is not a regular file",
		fifo:                         "is not a regular file",
		large:                        "is larger than 4 bytes",
		filepath.Join(dir, "absent"): "cannot be opened: no such file or directory",
	} {
		if _, err := ReadSecret("token file", name, 4); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
