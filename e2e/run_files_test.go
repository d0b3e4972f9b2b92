package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"belljar/sandbox"
)

// collected runs a command, and returns its result with the files.
func collected(t *testing.T, dir string, args ...string) (r sandbox.Result) {
	t.Helper()
	cmd := exec.Command(binary, append([]string{"run", "--format", "json"}, args...)...)
	cmd.Dir = dir
	out, _ := cmd.Output() // its exit status is the command's
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return r
}

// contents are files by name, with why they are not there.
func contents(r sandbox.Result) string {
	var b strings.Builder
	for _, f := range r.Files {
		b.WriteString(f.Path + "=" + string(f.Content) + f.Error + "\n")
	}
	return b.String() + r.Evidence.CollectError
}

func TestRunFiles(t *testing.T) {
	t.Parallel()
	needEngine(t)
	for name, image := range map[string]string{"base": "belljar/base", "GNU": gnu(t)} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			os.WriteFile(dir+"/a b", []byte("text\n"), 0o750)
			os.WriteFile(dir+"/\x1b\n'", []byte("\x00\xff"), 0o600)
			r := collected(t, dir, "--image", image, "--file", "a b", "--file", "a b:d/e/f", "--file", "a b:/tmp/x", "--file", "\x1b\n'", "--collect", "**",
				`stat -c '%n %a %u' "a b" d/e/f d/e /tmp/x; id -u; mkdir out; echo o >out/o; chmod 600 out/o; ln -s /etc/passwd out/l; ln -s out lo; ln out/o out/p; echo x >.hidden`)
			if want := "a b 750 65534\nd/e/f 750 65534\nd/e 755 65534\n/tmp/x 750 65534\n65534\n"; string(r.Stdout.Head) != want {
				t.Errorf("in the container: %q, %s", r.Stdout.Head, r.Message)
			}
			want := "\x1b\n'=\x00\xff\n.hidden=x\n\na b=text\n\nd/e/f=text\n\nlo=it is a symbolic link\nout/l=it is a symbolic link\nout/o=o\n\nout/p=o\n\n"
			if got := contents(r); got != want {
				t.Errorf("collected %q, want %q", got, want)
			}
			for _, f := range r.Files {
				if f.Path == "out/o" && (f.Mode != 0o600 || f.Size != 2) {
					t.Errorf("%+v", f)
				}
			}
		})
	}
}

// The container is full of what leads elsewhere, blocks or does not end.
func TestRunFilesTraps(t *testing.T) {
	t.Parallel()
	needEngine(t)
	dir := t.TempDir()
	os.WriteFile(dir+"/f", []byte("new"), 0o600)
	for script, c := range map[string]struct{ pattern, want string }{
		`mkfifo p; echo x >x`:               {"*", "p=it is not a regular file\nx=x\n\n"},
		`ln -s /etc etc`:                    {"etc/pass*", "etc=a symbolic link is on the way\n"},
		`ln -s /etc etc #`:                  {"etc/passwd", "etc=a symbolic link is on the way\n"},
		`mkdir d; ln -s / d/e`:              {"d/e/etc/passwd", "d/e/etc=a symbolic link is on the way\n"},
		`mkdir d; echo x >d/f; chmod 0 d/f`: {"d/*", "d/f=it cannot be read\n"},
		`ln -s $PWD/x loop; ln -s loop x`:   {"loop", "loop=it is a symbolic link\n"},
		`true`:                              {"*", ""},
		`d=$(printf "a/n\nl/b"); mkdir -p "$d"; echo x >"$d/c"`:               {"a/**", "a/n\nl/b/c=x\n\n"},
		`echo '$(touch evil)' >'$(touch evil)'; echo x >"'"`:                  {"*", "$(touch evil)=$(touch evil)\n\n'=x\n\n"},
		`(sh -c 'while :; do echo x >>g; done' >/dev/null 2>&1 &); sleep 0.1`: {"no", ""},
	} {
		if r := collected(t, dir, "--collect", c.pattern, script); contents(r) != c.want || r.ExitCode != 0 {
			t.Errorf("%s: collected %q, want %q; %s", script, contents(r), c.want, r.Message)
		}
	}
	r := collected(t, dir, "--collect", "*", "--max-result", "1KiB", "truncate -s 40G sparse 2>/dev/null || dd if=/dev/zero of=sparse bs=1 count=1 seek=2G 2>/dev/null; echo x >a; echo z >z")
	if onPods() && contents(r) == "a=x\n\nsparse=\nz=z\n\n" {
		// there no file is longer than the largest directory
	} else if len(r.Files) != 3 || !r.Files[1].Truncated || len(r.Files[1].Content) != 1022 || r.Files[2].Size != 2 || len(r.Files[2].Content) != 0 {
		t.Errorf("%q", contents(r))
	}
	r = collected(t, dir, "--collect", "g", "sh -c 'while :; do echo x >>g; done' >/dev/null 2>&1 & while [ ! -s g ]; do :; done")
	if len(r.Files) != 1 || !bytes.HasPrefix(r.Files[0].Content, []byte("x\n")) || int64(len(r.Files[0].Content)) != r.Files[0].Size {
		t.Errorf("of a file that grows: %d bytes, %s", len(r.Files), r.Evidence.CollectError)
	}
	// A timeout, with the container and in its time; the command goes on writing.
	r = collected(t, dir, "--timeout", "4s", "--collect", "*", "echo part >log; while :; do sleep 0.1; done")
	if contents(r) != "log=part\n\n" || r.Cause != sandbox.CauseWallTimeout {
		t.Errorf("%s: %q", r.Cause, contents(r))
	}
	// A container that is gone says so.
	r = collected(t, dir, "--collect", "*", "--memory", "16MiB", "echo x >x; exec tail /dev/zero")
	if len(r.Files) == 0 && r.Evidence.CollectError == "" {
		t.Errorf("%s: nothing says why nothing is collected", r.Cause)
	}
	for says, image := range map[string]string{`has no "tar"`: shellImage(t, "dash"), "exit status 5": gnu(t, "tar")} {
		r = collected(t, dir, "--image", image, "--file", "f:evil", "echo ran")
		if says == "exit status 5" { // what the script of its tar runs is not there yet
			says = "exit status"
		}
		if r.Status != sandbox.StatusFatal || !strings.Contains(r.Message, says) || r.Stdout.Total > 0 {
			t.Errorf("%s: %s", r.Status, r.Message)
		}
	}
	if r = collected(t, dir, "--image", shellImage(t, "dash"), "--collect", "*", "echo ran"); r.ExitCode != 0 || !strings.Contains(r.Evidence.CollectError, `has no "find"`) {
		t.Errorf("%+v", r.Evidence)
	}
}

// What is collected is written below one directory, over no link.
func TestRunCollectTo(t *testing.T) {
	t.Parallel()
	needEngine(t)
	dir := t.TempDir()
	run := func(script string) string {
		cmd := exec.Command(binary, "run", "--collect", "**", "--collect-to", "to", script)
		cmd.Dir = dir
		out, _ := cmd.CombinedOutput()
		return string(out)
	}
	if out := run("mkdir d; echo x >d/x; echo y >y; chmod 750 y; ln -s y z; echo said"); out != "said\nbelljar: not collected: \"z\": it is a symbolic link\n" {
		t.Errorf("%s", out)
	}
	if about, err := os.Stat(dir + "/to/y"); err != nil || about.Mode().Perm()&0o100 == 0 {
		t.Errorf("%v, %v", about, err)
	}
	os.WriteFile(dir+"/outside", []byte("old"), 0o600)
	os.Mkdir(dir+"/elsewhere", 0o700)
	os.Remove(dir + "/to/y")
	os.Symlink("../outside", dir+"/to/y")
	if out := run("echo new >y; echo new >a"); !strings.Contains(out, `"y" is in the way`) {
		t.Errorf("%s", out)
	}
	os.RemoveAll(dir + "/to/d")
	os.Symlink("../elsewhere", dir+"/to/d")
	if out := run("mkdir d; echo new >d/x"); !strings.Contains(out, `"d" is in the way`) {
		t.Errorf("%s", out)
	}
	text, _ := os.ReadFile(dir + "/outside")
	if list, _ := filepath.Glob(dir + "/elsewhere/*"); len(list) > 0 || string(text) != "old" {
		t.Errorf("outside: %q, %s", list, text)
	}
	if list := tool(t, "find", dir+"/to", "-name", ".belljar*"); list != "" {
		t.Errorf("left: %s", list)
	}
}

// Names that a command chose cannot fill the audit log with what stops all later commands.
func TestCollectHostileNames(t *testing.T) {
	t.Parallel()
	needEngine(t)
	dir := t.TempDir()
	state := stateIn(t, filepath.Join(dir, "state"))
	belljar := func(args ...string) (string, error) {
		cmd := exec.Command(binary, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), state)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	script := `n=$(printf '%0246d' 0 | tr 0 '\001'); i=0; while [ $i -lt 900 ]; do : >"$n$i"; i=$((i+1)); done`
	if out, err := belljar("run", "--collect", "*", "--collect-to", "out", script); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if files, err := os.ReadDir(dir + "/out"); len(files) != 900 {
		t.Errorf("%d files, %v", len(files), err)
	}
	if out, err := belljar("run", "echo ran"); out != "ran\n" || err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := belljar("audit", "verify"); err != nil || !strings.HasPrefix(out, "ok: 4 records") {
		t.Errorf("%v: %s", err, out)
	}
	if text, err := os.ReadFile(dir + "/state/belljar/audit/audit.jsonl"); err != nil || !bytes.Contains(text, []byte(`"cut":{"end.files":900}`)) {
		t.Errorf("%v, of %d bytes", err, len(text))
	}
}

// In a session files meet those of earlier commands, and what collects them is not listed.
func TestSessionRunFiles(t *testing.T) {
	t.Parallel()
	s := newFilesSession(t)
	os.WriteFile(s.dir+"/new", []byte("new\n"), 0o600)
	run := func(script string, flags ...string) sandbox.Result {
		t.Helper()
		cmd := s.run(script, append(flags, "--format", "json")...)
		cmd.Dir = s.dir
		out, _ := cmd.Output()
		var r sandbox.Result
		if err := json.Unmarshal(out, &r); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return r
	}
	r := run("cat d/f; sleep 1000 >/dev/null 2>&1 &", "--file", "new:d/f", "--collect", "d/*")
	if contents(r) != "d/f=new\n\n" || string(r.Stdout.Head) != "new\n" || len(r.Lingering) > 1 {
		t.Errorf("%q, %+v", contents(r), r)
	}
	run("ln -s /tmp out; mkdir dir; pkill sleep || killall sleep")
	for path, says := range map[string]string{"out/x": `in the way: "./out"`, "dir": `in the way: "./dir"`, "out": `in the way: "./out"`} {
		if r := run("echo ran", "--file", "new:"+path); r.Status != sandbox.StatusFatal || !strings.Contains(r.Message, says) || r.Stdout.Total > 0 {
			t.Errorf("%s: %s, %q", path, r.Message, r.Stdout.Head)
		}
	}
	if r = run("echo part >log; sleep 1000", "--timeout", "4s", "--on-timeout", "command", "--collect", "log"); contents(r) != "log=part\n\n" || r.SessionLost != "" {
		t.Errorf("%q, %+v", contents(r), r)
	}
	s.clean()
}
