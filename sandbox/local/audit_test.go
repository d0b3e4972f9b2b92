package local_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"belljar/sandbox"
	"belljar/sandbox/local"
	"belljar/sandbox/sandboxtest"

	"github.com/google/go-cmp/cmp"
)

// auditor keeps records in memory, or fails.
type auditor struct {
	mu      sync.Mutex
	records []sandbox.AuditRecord
	fail    func(r sandbox.AuditRecord) error
}

func (a *auditor) Record(r sandbox.AuditRecord) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fail != nil {
		if err := a.fail(r); err != nil {
			return err
		}
	}
	a.records = append(a.records, r)
	return nil
}

func (a *auditor) types() (list []string) {
	for _, r := range a.records {
		kind := r.Type
		if r.Decision != nil {
			kind += " " + r.Decision.Decision.String()
		}
		list = append(list, kind)
	}
	return list
}

var errFull = errors.New("the disk is full")

func failing(kinds ...string) *auditor {
	return &auditor{fail: func(r sandbox.AuditRecord) error {
		if slices.Contains(kinds, r.Type) {
			return errFull
		}
		return nil
	}}
}

// audited is a runner with an auditor and a policy that denies rm.
func audited(a sandbox.Auditor) (*local.Local, *sandboxtest.Engine) {
	engine := playing(func(p *sandboxtest.Proc) int {
		fmt.Fprint(p.Stdout, "out")
		fmt.Fprint(p.Stderr, "error")
		return 3
	})
	runner := newLocal(engine)
	p := profile()
	p.Policy = policy{denied: "rm", env: []string{"CI"}}
	runner.Profiles["default"] = p
	runner.Auditor = a
	return runner, engine
}

func TestAudit(t *testing.T) {
	a := &auditor{}
	runner, _ := audited(a)
	dir := t.TempDir()
	c := sandbox.Command{
		ID: "mine", Script: "ls <s3cret>", Description: "to see", Caller: sandbox.Caller{FrontEnd: "cli", User: "me"},
		Env: []string{"TOKEN=s3cret", "CI"}, Inherit: []string{"CI=s3cret", "OTHER=s3cret"}, Mounts: []sandbox.Mount{{Source: dir, Target: "/src", Writable: true}},
	}
	if _, err := sandbox.Run(t.Context(), runner, c); err != nil {
		t.Fatal(err)
	}
	if got, want := a.types(), []string{"decision allow", "end"}; !slices.Equal(got, want) {
		t.Fatalf("%q, want %q", got, want)
	}
	for _, r := range a.records {
		if r.Time.IsZero() || r.ID != "mine" || r.Caller != c.Caller || r.Profile != "default" || r.Dir != "/work" || r.Description != "to see" ||
			r.Script != c.Script || len(r.ScriptSHA256) != 64 { // whether the text is kept is the auditor's matter
			t.Errorf("%+v", r)
		}
		r.Script = ""
		if text, err := json.Marshal(r); err != nil || strings.Contains(string(text), "s3cret") {
			t.Errorf("%v, %s", err, text)
		}
	}
	if diff := cmp.Diff(sandbox.AuditDecision{
		Decision: sandbox.Allow, Policy: "hash", Image: "belljar/base", User: "65534:65534", Network: "none",
		Mounts: []string{dir + ":/src:rw"}, Env: []string{"CI", "LANG", "TOKEN"},
	}, *a.records[0].Decision); diff != "" {
		t.Error(diff)
	}
	end := *a.records[1].End
	if end.TotalMS <= 0 {
		t.Error("no time passed")
	}
	end.TotalMS, end.QueuedMS = 0, 0
	if diff := cmp.Diff(sandbox.AuditEnd{
		Status: sandbox.StatusError, Cause: sandbox.CauseExited, ExitCode: 3, User: "65534:65534", Container: "fake1", Runtime: "fake",
		ImageDigest: sandboxtest.Image("belljar/base").ID, StdoutBytes: 3, StderrBytes: 5,
	}, end); diff != "" {
		t.Error(diff)
	}
}

// A denial is one record, whatever denies it, and says what was asked for.
func TestAuditOfDenials(t *testing.T) {
	dir := t.TempDir()
	for name, test := range map[string]struct {
		c    sandbox.Command
		want sandbox.AuditDecision
	}{
		"by the policy": {sandbox.Command{Script: "rm"}, sandbox.AuditDecision{Rule: "no", Env: []string{"LANG"}}},
		"by env.allow": {sandbox.Command{Script: "ls", Env: []string{"SECRET", "A=s3cret", "A=s3cret"}, Inherit: []string{"SECRET=s3cret"}},
			sandbox.AuditDecision{Reason: `variable "SECRET" is not in env.allow, so the caller cannot pass it`, Env: []string{"A", "SECRET"}}},
		"by mounts": {sandbox.Command{Script: "ls", Env: []string{"A=s3cret"}, Mounts: []sandbox.Mount{{Source: "/dev/null", Target: "/src"}, {Source: dir, Target: "/dir", Writable: true}}},
			sandbox.AuditDecision{Reason: `mount source "/dev/null" is a device`, Env: []string{"A", "LANG"}, Mounts: []string{"/dev/null:/src:ro", dir + ":/dir:rw"}}},
		"by the limits of a grant": {sandbox.Command{Script: "narrow"},
			sandbox.AuditDecision{Rule: "narrow", Reason: "limits.memory is 1 byte, below the minimum of 6 MiB", Env: []string{"LANG"}}},
	} {
		t.Run(name, func(t *testing.T) {
			a := &auditor{}
			runner, engine := audited(a)
			_, err := sandbox.Run(t.Context(), runner, test.c)
			if err == nil || len(engine.Specs()) > 0 {
				t.Errorf("error %v, %d containers", err, len(engine.Specs()))
			}
			if got, want := a.types(), []string{"decision deny"}; !slices.Equal(got, want) {
				t.Fatalf("%q, want %q", got, want)
			}
			test.want.Policy, test.want.Image, test.want.User, test.want.Network = "hash", "belljar/base", "65534:65534", "none"
			if diff := cmp.Diff(test.want, *a.records[0].Decision); diff != "" {
				t.Error(diff)
			}
			if text, err := json.Marshal(a.records[0]); err != nil || strings.Contains(string(text), "s3cret") {
				t.Errorf("%v, %s", err, text)
			}
		})
	}
}

// What is unusable is no decision.
func TestAuditLeavesOutTheUnusable(t *testing.T) {
	a := &auditor{}
	runner, _ := audited(a)
	if _, err := sandbox.Run(t.Context(), runner, sandbox.Command{}); err == nil || len(a.records) > 0 {
		t.Errorf("error %v, records %q", err, a.types())
	}
}

func TestAuditFails(t *testing.T) {
	for name, test := range map[string]struct {
		auditor *auditor
		action  sandbox.AuditAction
		script  string
		says    string // of the error, or of a notice
		refused bool
	}{
		"the decision":               {failing("decision", "end"), "", "ls", "the audit log cannot be written, so the command does not run (audit.on_error: refuse): the disk is full", true},
		"the decision, by its name":  {failing("decision", "end"), sandbox.AuditRefuse, "ls", "the disk is full", true},
		"the decision, and it runs":  {failing("decision"), sandbox.AuditContinue, "ls", "the audit log has no record of it: the disk is full", false},
		"the end":                    {failing("end"), sandbox.AuditRefuse, "ls", "the audit log has no record of how the command ended: the disk is full", false},
		"the end, and that is right": {failing("end"), sandbox.AuditContinue, "ls", "the audit log has no record of how the command ended: the disk is full", false},
		"a denial":                   {failing("decision"), sandbox.AuditRefuse, "rm", "; the audit log has no record of it: the disk is full", true},
		"a denial, and no matter":    {failing("decision"), sandbox.AuditContinue, "rm", "; the audit log has no record of it: the disk is full", true},
	} {
		t.Run(name, func(t *testing.T) {
			runner, engine := audited(test.auditor)
			runner.AuditOnError = test.action
			x, err := runner.Start(t.Context(), sandbox.Command{Script: test.script})
			if test.refused {
				if err == nil || !strings.Contains(err.Error(), test.says) || len(engine.Specs()) > 0 {
					t.Errorf("error %v, %d containers", err, len(engine.Specs()))
				}
				if denied := test.script == "rm"; denied != (sandbox.CauseOf(err) == sandbox.CauseDenied) || !denied && !errors.Is(err, errFull) {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var notices []string
			for _, e := range wantEvents(t, x) {
				if e.Type == sandbox.EventNotice {
					notices = append(notices, string(e.Data))
				}
			}
			if want := []string{test.says}; !slices.Equal(notices, want) {
				t.Errorf("%q, want %q", notices, want)
			}
			if r, err := x.Wait(); err != nil || r.ExitCode != 3 {
				t.Errorf("%v, exit code %d", err, r.ExitCode)
			}
		})
	}
}

// What was allowed and did not run has an end, too.
func TestAuditOfTheBusy(t *testing.T) {
	a, release := &auditor{}, make(chan struct{})
	runner, engine := audited(a)
	engine.Script = func(*sandboxtest.Proc) int { <-release; return 0 }
	runner.Admission = sandbox.Admission{MaxRunning: 1, MaxQueued: 1}
	var all []sandbox.Prepared
	for range 3 {
		p, err := runner.Prepare(t.Context(), sandbox.Command{Script: "ls"})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	var running []sandbox.Execution
	for i, p := range all {
		x, err := p.Start(t.Context())
		if busy := sandbox.CauseOf(err) == sandbox.CauseBusy; busy != (i == 2) {
			t.Errorf("%d: %v", i, err)
		}
		if err == nil {
			running = append(running, x)
		}
	}
	if last := a.records[len(a.records)-1]; len(a.records) != 4 || last.End == nil || last.End.Cause != sandbox.CauseBusy || last.End.ExitCode != sandbox.ExitNeverRan {
		t.Errorf("%q, the last %+v", a.types(), last.End)
	}
	close(release)
	for _, x := range running {
		x.Wait()
	}
}
