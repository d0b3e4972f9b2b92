package e2e

import (
	"archive/tar"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A receipt names everything that is not what was graded any more. The image has the working
// directory, which only root may write: the tests' user and the solution's can, on each engine.
func TestEvalVerify(t *testing.T) {
	t.Parallel()
	needEachEngine(t)
	e := evaluateOn(t, os.Environ(), `{"id":"a","image":"belljar/verified:1","answer":"answer","solution":"42\n","check":"sh /tests/t.sh","tests":{"t.sh":"test $(cat answer) = 42"}}`)
	image := func(release string) {
		tree := newTree()
		for _, dir := range []string{"bin/", "tmp/", "work/", "etc/"} {
			tree.add(tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755}, nil)
		}
		tree.add(tar.Header{Name: "etc/release", Mode: 0o644}, []byte(release))
		tree.add(tar.Header{Name: "bin/busybox", Mode: 0o755}, busybox(t))
		for _, applet := range []string{"sh", "tar", "cat", "test", "mkdir", "chmod", "kill", "sleep"} {
			tree.link("bin/"+applet, "busybox")
		}
		e.write(t, "image.tar", string(tree.bytes()))
		cmd := exec.Command(binary, "images", "import", "image.tar", "--tag", "belljar/verified:1")
		cmd.Dir, cmd.Env = e.dir, e.env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	image("1")
	t.Cleanup(func() {
		cmd := exec.Command(binary, "images", "rm", "belljar/verified:1")
		cmd.Env = e.env
		cmd.Run()
	})
	e.keyPair(t)
	e.run(t, 0, "run", "suite.jsonl", "--agent", "oracle", "--out", "out", "--sign", "key.pem")
	verify := []string{"verify", "out/receipt.json", "--key", "key.pub", "--out", "out"}
	if said := e.run(t, 0, verify...); !strings.Contains(said, " 0 differ, 1 not checked") { // which belljar ran
		t.Errorf("unchanged: %s", said)
	}
	e.write(t, "out/results.jsonl", strings.Replace(e.read(t, "out/results.jsonl"), `"attempt":1`, `"attempt":2`, 1))
	if said := e.run(t, 125, "resume", "out", "--sign", "key.pem"); !strings.Contains(said, "result line a/1 is not the one that the run's earlier receipt has") {
		t.Errorf("an edited result is signed: %s", said)
	}
	e.write(t, "out/results.jsonl", strings.Replace(e.read(t, "out/results.jsonl"), `"attempt":2`, `"attempt":1`, 1))
	for _, c := range []struct {
		file, old, with string
		status          int
		want            string
	}{
		{"suite.jsonl", "= 42", "= 43", 1, "differs: task file a:/tests/t.sh"},
		{"out/artifacts/a/1.tar", "42\n", "43\n", 1, "differs: artifact a/1:/work/answer"},
		{"out/results.jsonl", `"message"`, `"massage"`, 1, "differs: result line a/1"},
		{"out/run.json", `"retries": 2`, `"retries": 3`, 1, "differs: file run.json"},
		{"out/receipt.json", `"payload": "`, `"payload": "AAAA`, 125, "is not signed by this key"},
		{"key.pub", "", "", 125, "is not signed by this key"},
	} {
		before := e.read(t, c.file)
		if !strings.Contains(before, c.old) {
			t.Errorf("%s has no %q: %s", c.file, c.old, before)
		}
		if c.old != "" {
			e.write(t, c.file, strings.ReplaceAll(before, c.old, c.with))
		} else {
			os.Remove(filepath.Join(e.dir, "key.pem"))
			e.keyPair(t)
		}
		if said := e.run(t, c.status, verify...); !strings.Contains(said, c.want) {
			t.Errorf("with another %s: %s, want %q", c.file, said, c.want)
		}
		e.write(t, c.file, before)
	}
	image("2")
	if said := e.run(t, 1, verify...); !strings.Contains(said, "differs: image belljar/verified:1") {
		t.Errorf("with another image: %s", said)
	}
}
