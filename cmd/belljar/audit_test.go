package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"belljar/audit"
	"belljar/config"
	"belljar/sandbox"
)

// runAudit runs belljar audit verify, and returns its stdout and error.
func runAudit(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out strings.Builder
	cmd := rootCmd()
	cmd.SetArgs(append([]string{"audit", "verify"}, args...))
	cmd.SetOut(&out)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestAuditVerify(t *testing.T) {
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	t.Setenv("XDG_CONFIG_HOME", state)
	t.Chdir(state)
	if _, err := runAudit(t); err == nil || exitFor(err) != exitFailed {
		t.Errorf("without a file: %v", err)
	}
	log := &audit.Log{File: filepath.Join(state, "belljar", "audit", "audit.jsonl")}
	for range 3 {
		if err := log.Record(sandbox.AuditRecord{Type: "decision", Time: time.Now(), Description: "a"}); err != nil {
			t.Fatal(err)
		}
	}
	out, err := runAudit(t)
	if err != nil || !strings.HasPrefix(out, "ok: 3 records, seq 1 to 3, head sha256:") {
		t.Errorf("%v, %s", err, out)
	}
	_, head, _ := strings.Cut(strings.TrimSpace(out), "head ")
	if _, err := runAudit(t, "--head", head, log.File); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(log.File)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(log.File, []byte(strings.Replace(string(text), `"description":"a"`, `"description":"b"`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	const found = "audit.jsonl:1: seq 1: it was changed: its SHA-256 does not match record 2\nnot ok (1 found): 3 records, seq 1 to 3, head "
	if out, err := runAudit(t); err != exitError(1) || out != found+head+"\n" { //nolint:errorlint // it is told bare
		t.Errorf("%v, %s", err, out)
	}
	if out, err := runAudit(t, "--format", "json"); err != exitError(1) || !strings.HasPrefix(out, `{"ok":false,"records":3,`) { //nolint:errorlint // it is told bare
		t.Errorf("%v, %s", err, out)
	}
	for _, args := range [][]string{{"--format", "xml"}, {"--head", "abc"}, {"a", "b"}, {"nowhere"}} {
		if _, err := runAudit(t, args...); err == nil || exitFor(err) != exitFailed {
			t.Errorf("%q: %v", args, err)
		}
	}
}

func TestCheckAudit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit", "a.jsonl")
	c := &config.Config{Audit: config.Audit{Enabled: true, File: file}}
	if f := checkAudit(c); f.Status != verdictOK || !strings.Contains(f.Text, "0 records") {
		t.Errorf("%+v", f)
	}
	if err := os.Chmod(file, 0o666); err != nil {
		t.Fatal(err)
	}
	if f := checkAudit(c); f.Status != verdictFail || !strings.Contains(f.Text, "0666") || f.Fix != "chmod 600 "+file {
		t.Errorf("%+v", f)
	}
	c.Audit.OnError = sandbox.AuditContinue
	if f := checkAudit(c); f.Status != verdictWarn {
		t.Errorf("%+v", f)
	}
	c.Audit.Enabled = false
	if f := checkAudit(c); f.Status != verdictWarn || f.Fix == "" {
		t.Errorf("%+v", f)
	}
}

// The account is the one that runs belljar, whatever the environment says.
func TestCaller(t *testing.T) {
	want := caller()
	t.Setenv("USER", "somebody")
	t.Setenv("LOGNAME", "somebody")
	if got := caller(); got != want || got.FrontEnd != "cli" || got.User == "" || got.User == "somebody" {
		t.Errorf("%+v, %+v", got, want)
	}
}
