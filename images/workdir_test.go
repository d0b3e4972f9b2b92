package images

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The directory of a killed belljar is removed when the last of its tools has ended, too.
func TestWorkdirsAreSwept(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	held, err := newWorkdir()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(held.path, "deb"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	tool := exec.Command("sleep", "1000")
	tool.ExtraFiles = []*os.File{held.lock}
	if err := tool.Start(); err != nil {
		t.Fatal(err)
	}
	defer tool.Process.Kill()
	held.lock.Close() // as after a kill
	sweepWorkdirs()
	if _, err := os.Stat(held.path); err != nil {
		t.Fatalf("swept below a tool: %v", err)
	}
	tool.Process.Kill()
	tool.Wait()
	sweepWorkdirs()
	if _, err := os.Stat(held.path); !os.IsNotExist(err) {
		t.Errorf("not swept: %v", err)
	}
}

func TestOnlyWorkdirsAreSwept(t *testing.T) {
	tmp, victim := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", tmp)
	names := []string{"belljar-debian-link", "belljar-debian-file", "belljar-debian-others", "belljar-other"}
	if err := os.Symlink(victim, filepath.Join(tmp, names[0])); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(tmp, names[1]), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range names[2:] {
		if err := os.Mkdir(filepath.Join(tmp, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if os.Getuid() != 0 {
		names = []string{names[0], names[1], names[3]} // another user's directory needs root
	} else if err := os.Chown(filepath.Join(tmp, names[2]), 65534, 65534); err != nil {
		t.Fatal(err)
	}
	sweepWorkdirs()
	for _, name := range names {
		if _, err := os.Lstat(filepath.Join(tmp, name)); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(victim); err != nil {
		t.Error(err)
	}
}
