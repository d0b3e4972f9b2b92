package oci_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"belljar/sandbox/oci"
)

// The filter that crun compiled for the first container serves the next ones, also of other
// processes, unless its file is damaged. A command cannot tell the difference.
func TestFilterIsCompiledOnce(t *testing.T) {
	needCrun(t)
	dir := t.TempDir()
	engine := openIn(t, oci.Config{Dir: dir, Runtime: "crun"})
	const about = `grep -E '^(Seccomp|NoNew)' /proc/self/status; unshare -Ur id; nsenter -t 1 -m id; swapoff /dev/null; dmesg; acpid; insmod /bin/sh`
	first, _ := enter(t, engine, specOf(t)).run(t, about)
	filter := oci.Filter(engine, false)
	if len(filter) == 0 {
		t.Skip("this crun does not show its filter")
	}
	second, _ := enter(t, engine, specOf(t)).run(t, about)
	other := openIn(t, oci.Config{Dir: dir, Runtime: "crun"})
	if !bytes.Equal(oci.Filter(other, false), filter) {
		t.Error("another engine does not have it")
	}
	third, _ := enter(t, other, specOf(t)).run(t, about)
	if first == "" || second != first || third != first {
		t.Errorf("a command sees\n%s\nthen\n%s\nthen\n%s", first, second, third)
	}
	files, err := filepath.Glob(filepath.Join(dir, "seccomp-*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, error %v", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for name, damaged := range map[string][]byte{"empty": nil, "cut": text[:len(text)-8], "changed": append(bytes.Clone(text[:len(text)-1]), text[len(text)-1]^1), "longer": append(text, make([]byte, 40<<10)...)} {
		if err := os.WriteFile(files[0], damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if oci.Filter(openIn(t, oci.Config{Dir: dir, Runtime: "crun"}), false) != nil {
			t.Errorf("%s: it is taken", name)
		}
	}
}
