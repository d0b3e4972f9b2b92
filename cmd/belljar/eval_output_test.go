package main

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"belljar"
	evalrun "belljar/eval/run"
	"belljar/eval/suite"
	"belljar/sandbox"
)

// ranEval is a run of a suite with one task, without an engine, in the working directory:
// suite.jsonl, out, key.pem and key.pub.
func ranEval(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("XDG_STATE_HOME", dir)
	t.Setenv("XDG_CONFIG_HOME", dir)
	t.Setenv("BELLJAR_ENGINE_KIND", "docker")
	t.Setenv("DOCKER_HOST", "unix://"+dir+"/none.sock")
	t.Chdir(dir)
	write := func(name, text string) {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("suite.jsonl", `{"id":"a","image":"belljar/base","answer":"a.sh","check":"true","tests":{"t.sh":"exit 0"}}`+"\n")
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	secret, err1 := x509.MarshalPKCS8PrivateKey(private)
	open, err2 := x509.MarshalPKIXPublicKey(public)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	write("key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
	write("key.pub", string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: open})))
	tasks, err := suite.Load([]string{filepath.Join(dir, "suite.jsonl")}, suite.Allow{})
	if err != nil {
		t.Fatal(err)
	}
	of := evalrun.Task{ID: "a", Source: tasks[0].Source, SHA256: tasks[0].SHA256, Image: "belljar/base", Sealed: true, Files: tasks[0].Sums()}
	d, err := evalrun.Create("out", evalrun.Run{Version: evalrun.Version, ID: "01j", Trials: 2, Options: evalrun.Options{Controls: true}, Suite: evalrun.Suite{Paths: []string{filepath.Join(dir, "suite.jsonl")}}, Tasks: []evalrun.Task{of}})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for trial := 1; trial <= 2; trial++ {
		r := evalrun.Result{Task: "a", Trial: trial, Verdict: evalrun.Passed, Sealed: true}
		if trial == 2 {
			r.Verdict, r.Side, r.Message = evalrun.Tampered, evalrun.BySolution, "control \x1b[2J passed"
		}
		if err := d.Add(r); err != nil {
			t.Fatal(err)
		}
	}
}

func runEval(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out strings.Builder
	cmd := rootCmd()
	cmd.SetArgs(append([]string{"eval"}, args...))
	cmd.SetOut(&out)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestEvalReport(t *testing.T) {
	ranEval(t)
	out, err := runEval(t, "report", "out", "--junit", "junit.xml", "--html", "report.html")
	if err != nil || !strings.Contains(out, "1 of 2 trials passed: 1 tampered") || strings.Contains(out, "\x1b") {
		t.Errorf("%v, %s", err, out)
	}
	for name, part := range map[string]string{"junit.xml": `tests="2" failures="1"`, "report.html": "<!doctype html>"} {
		text, err := os.ReadFile(name)
		if err != nil || !strings.Contains(string(text), part) {
			t.Errorf("%s: %v, %s", name, err, text)
		}
	}
	if out, err := runEval(t, "report", "out", "--format", "json"); err != nil || !strings.Contains(out, `"tampered":1`) {
		t.Errorf("%v, %s", err, out)
	}
	if _, err := runEval(t, "report", "out", "--junit", "none/junit.xml"); err == nil || exitFor(err) != exitFailed {
		t.Errorf("a file that cannot be written: %v", err)
	}
	if _, err := runEval(t, "report", "."); err == nil || exitFor(err) != exitFailed {
		t.Errorf("no run: %v", err)
	}
	list, err := filepath.Glob("*.new")
	if err != nil || len(list) > 0 {
		t.Errorf("left: %q, %v", list, err)
	}
	// A report replaces a link that someone put there, and does not write through it.
	if err := errors.Join(os.WriteFile("target", []byte("mine"), 0o600), os.Symlink("target", "link.html")); err != nil {
		t.Fatal(err)
	}
	if _, err := runEval(t, "report", "out", "--html", "link.html"); err != nil {
		t.Error(err)
	}
	if text, _ := os.ReadFile("target"); string(text) != "mine" {
		t.Error("the link's target was overwritten")
	}
	if err := errors.Join(os.Remove("out/results.jsonl"), syscall.Mkfifo("out/results.jsonl", 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := runEval(t, "report", "out"); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a FIFO: %v", err)
	}
}

func TestEvalVerify(t *testing.T) {
	ranEval(t)
	g := &globals{}
	c, err := g.loadConfig(nil)
	if err != nil {
		t.Fatal(err)
	}
	log := belljar.AuditLog(c)
	if log == nil {
		t.Fatal("the audit log is off")
	}
	record := sandbox.AuditRecord{Type: "decision", Time: time.Now(), Description: "a"}
	if err := log.Record(record); err != nil {
		t.Fatal(err)
	}
	o := evalOutput{sign: "key.pem"}
	if err := o.check(); err != nil {
		t.Fatal(err)
	}
	if err := o.write(t.Context(), g, &strings.Builder{}, "text", "out"); err != nil {
		t.Fatal(err)
	}
	if err := log.Record(record); err != nil { // the log goes on
		t.Fatal(err)
	}
	verify := []string{"verify", "out/receipt.json", "--key", "key.pub", "--out", "out"}
	out, err := runEval(t, verify...)
	if err != nil || !strings.Contains(out, "run 01j is FAILED: 1 passed, 0 passed unsealed, 1 failed (1 tampered)") || !strings.Contains(out, " 0 differ") ||
		strings.Contains(out, "image") || strings.Contains(out, "audit") || strings.Contains(out, "task a") {
		t.Errorf("%v, %s", err, out)
	}
	change := func(name, from, to string) {
		t.Helper()
		text, err := os.ReadFile(name)
		if err != nil || !strings.Contains(string(text), from) {
			t.Fatalf("%v, no %q in %s", err, from, text)
		}
		if err := os.WriteFile(name, []byte(strings.Replace(string(text), from, to, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	change("suite.jsonl", "exit 0", "exit 1")
	if out, err := runEval(t, verify...); err != exitError(1) || !strings.Contains(out, "differs: task file a:/tests/t.sh: ") { //nolint:errorlint // it is told bare
		t.Errorf("a changed test file: %v, %s", err, out)
	}
	change("out/results.jsonl", `"tampered"`, `"passed"`)
	out, err = runEval(t, append(verify, "--format", "json")...)
	if err != exitError(1) || !strings.Contains(out, `"what":"result line","name":"a/2"`) || !strings.HasPrefix(out, `{"ok":false`) { //nolint:errorlint // it is told bare
		t.Errorf("a changed line: %v, %s", err, out)
	}
	if err := os.RemoveAll(filepath.Dir(log.File)); err != nil {
		t.Fatal(err)
	}
	if out, _ := runEval(t, verify...); !strings.Contains(out, "not checked: audit sha256:") {
		t.Errorf("without the audit log: %s", out)
	}
	for _, args := range [][]string{
		{"verify", "out/receipt.json"}, {"verify", "out/run.json", "--key", "key.pub"}, {"verify", "out/receipt.json", "--key", "key.pem"}, {"verify", "missing", "--key", "key.pub"},
		{"verify", "out/receipt.json", "--key", "key.pub", "--suite", "suite.jsonl"}, {"run", "suite.jsonl", "--agent", "nop", "--out", "2", "--sign", "missing"},
		{"run", "suite.jsonl", "--agent", "nop", "--out", "2", "--receipt", "r.json"},
	} {
		if out, err := runEval(t, args...); err == nil || exitFor(err) != exitFailed || out != "" {
			t.Errorf("%q: %v, %s", args, err, out)
		}
	}
}
