package policy

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestReadonlyRuns runs the allowed uses with the real programs, in a directory where
// files have names of options: no file is changed, and no program on PATH starts
// except those that the script names and those that they are known to need.
func TestReadonlyRuns(t *testing.T) {
	for shell, argv := range map[string][]string{ShellPOSIX: {"dash"}, ShellBash: {"bash"}} {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			found, err := exec.LookPath(argv[0])
			if err != nil {
				t.Skipf("NOT TESTED: this host has no %s", argv[0])
			}
			place := newPlace(t)
			before, ran := place.sum(t), 0
			place.run(t, found, `evil; echo x > made`)
			if place.marked() == "" || place.sum(t) == before {
				t.Fatal("neither a program nor a file leaves a mark: this test would find nothing")
			}
			if err := os.Remove(filepath.Join(place.work, "made")); err != nil {
				t.Fatal(err)
			}
			p := bundled(t, "readonly", shell)
			for _, row := range readReadonly(t) {
				v := p.Judge(row.script, "/work")
				if v.Decision != Allow || row.kind != "use" || !place.has(v.Roots) || slices.ContainsFunc(v.Roots, isSlow) {
					continue
				}
				ran++
				place.run(t, found, row.script)
				if names := place.marked(); names != "" {
					t.Errorf("%q started %q", row.script, names)
				}
				if after := place.sum(t); after != before {
					t.Fatalf("%q changed a file", row.script)
				}
			}
			t.Logf("%d scripts ran", ran)
			if ran < 300 {
				t.Errorf("only %d scripts ran", ran)
			}
		})
	}
}

// isSlow matches programs that take seconds to start. They run in CI, and with
// POLICY_FUZZ.
func isSlow(program string) bool {
	all := os.Getenv("CI") != "" || os.Getenv("POLICY_FUZZ") != ""
	return !all && slices.Contains(strings.Fields("npm npx pip pip3 go java javac apt apt-cache rustc cargo vmstat docker kubectl lsof sysctl"), program)
}

// helpers are the programs that others need for their work.
const helpers = "sh bash env node gzip bzip2 xz zstd grep sed cat expr mktemp rm less man groff nroff tbl preconv dpkg-query apt-cache python3 gcc as getopt gettext gettext.sh envsubst"

// place is a directory to run scripts in, and a PATH.
type place struct{ work, path, mark, home string }

func newPlace(t *testing.T) place {
	root := t.TempDir()
	p := place{work: filepath.Join(root, "work"), path: filepath.Join(root, "bin"), mark: filepath.Join(root, "mark"), home: filepath.Join(root, "home")}
	for _, dir := range []string{filepath.Join(p.work, "src"), filepath.Join(p.work, "dir"), p.path, p.home} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"f": "b 2\na 1\n", "a": "1\n", "b": "2\n", "x": "3\n", "f.txt": "f\n", "main.go": "package main\n\nfunc main() {}\n", "a.go": "package main\n", "go.mod": "module example.org/x\n\ngo 1.21\n",
		"package.json": `{"name": "x", "scripts": {"test": "evil"}}`, "f.json": "{}", "f.csv": "a,b\n", "README.md": "hello\n", "src/a.go": "package src\n", "dir/a": "", "log.txt": "ERROR\n",
		"-oy": "", "-C": "", "-exec": "", "--pre=evil": "", "--compress-program=evil": "", "--output=y": "", "-delete": "", "x; evil": "", "$(evil)": "", "-I evil": "", "-x": "", "y=1": "",
	} {
		if err := os.WriteFile(filepath.Join(p.work, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p.archives(t)
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			p.link(t, filepath.Join(dir, e.Name()))
		}
	}
	if err := os.WriteFile(filepath.Join(p.path, evil), []byte("#!/bin/sh\necho \"$0\" >> \"$MARK\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if git, err := exec.LookPath("git"); err == nil {
		for _, args := range []string{"init -q", "add main.go", "commit -q -m first", "add a.go", "commit -q -m second", "status"} {
			cmd := exec.Command(git, append([]string{"-c", "user.name=a", "-c", "user.email=a@example.org"}, strings.Fields(args)...)...)
			cmd.Dir, cmd.Env = p.work, []string{"HOME=" + p.home}
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("git %s: %v: %s", args, err, out)
			}
		}
	}
	return p
}

// link puts a program on the place's PATH: the real one if the set names it or one of
// those needs it, else a script that leaves a mark.
func (p place) link(t *testing.T, program string) {
	name := filepath.Base(program)
	to := filepath.Join(p.path, name)
	if _, err := os.Lstat(to); err == nil {
		return
	}
	if programs[name] == nil && !strings.HasPrefix(name, "git-sh-") && !slices.Contains(strings.Fields(helpers), name) {
		if err := os.WriteFile(to, []byte("#!/bin/sh\necho \"$0\" >> \"$MARK\"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err := os.Symlink(program, to); err != nil {
		t.Fatal(err)
	}
}

// archives are small ones, with the names that the table uses.
func (p place) archives(t *testing.T) {
	f, err := os.Create(filepath.Join(p.work, "a.tar"))
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(f)
	for _, name := range []string{"path/f", "../up", "-oy"} {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: 1}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	z, err := os.Create(filepath.Join(p.work, "a.zip"))
	if err != nil {
		t.Fatal(err)
	}
	zw := zip.NewWriter(z)
	if _, err := zw.Create("f.txt"); err != nil {
		t.Fatal(err)
	}
	for _, closer := range []interface{ Close() error }{w, f, zw, z} {
		if err := closer.Close(); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(filepath.Join(p.work, "a.tar"))
	if err == nil {
		err = os.WriteFile(filepath.Join(p.work, "a.tgz"), gzipped(t, data), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (p place) has(roots []string) bool {
	for _, root := range roots {
		if _, err := os.Lstat(filepath.Join(p.path, filepath.Base(root))); err != nil {
			return false
		}
	}
	return true
}

// marked returns the programs that started and should not, and resets the list.
func (p place) marked() string {
	data, _ := os.ReadFile(p.mark)
	_ = os.Remove(p.mark)
	return strings.ReplaceAll(string(data), p.path+"/", "")
}

// run runs the script and everything it starts to the end, or up to a time limit.
func (p place) run(t *testing.T, shell, script string) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, shell, "-c", script)
	cmd.Dir = p.work
	cmd.Env = []string{"PATH=" + p.path, "MARK=" + p.mark, "HOME=" + p.home, "GOCACHE=" + filepath.Join(p.home, "go"), "GOFLAGS=", "GOPROXY=off", "GOTOOLCHAIN=local", "GIT_OPTIONAL_LOCKS=0"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	_ = cmd.Run() // many fail here, which does not matter
}

// sum covers all names, modes and contents in the directory.
func (p place) sum(t *testing.T) string {
	h := sha256.New()
	err := filepath.WalkDir(p.work, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintln(h, name, info.Mode(), info.Size())
		if d.Type().IsRegular() {
			data, err := os.ReadFile(name)
			h.Write(data)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

func gzipped(t *testing.T, data []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
