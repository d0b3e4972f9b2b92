package local

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"belljar/sandbox"
)

// audit writes a record. An error means that the command must not run.
func (l *Local) audit(c sandbox.Command, r sandbox.AuditRecord) (problem, err error) {
	hash := sha256.Sum256([]byte(c.Script))
	r.ID, r.Caller, r.Profile, r.Session = c.ID, c.Caller, c.Profile, c.Session
	r.ScriptSHA256, r.Script, r.Dir, r.Description = hex.EncodeToString(hash[:]), c.Script, c.Dir, c.Description
	return l.record(r, "command does not run")
}

// record writes a record. An error means that what it is about must not happen.
func (l *Local) record(r sandbox.AuditRecord, so string) (problem, err error) {
	if l.Auditor == nil {
		return nil, nil
	}
	r.Time = time.Now().UTC()
	if problem = l.Auditor.Record(r); problem == nil {
		return nil, nil
	}
	l.upkeep.log.Error("writing the audit log failed", "command", r.ID, "type", r.Type, "error", problem)
	if l.AuditOnError == sandbox.AuditContinue {
		return problem, nil
	}
	return problem, &sandbox.Error{Cause: sandbox.CauseEngine, Message: "the audit log cannot be written, so the " + so + " (audit.on_error: refuse)", Err: problem}
}

// deny records a denial. If that fails, the command is denied all the same, and the
// error says so.
func (l *Local) deny(c sandbox.Command, r sandbox.AuditRecord, refusal error) error {
	problem, _ := l.audit(c, r)
	e, ok := errors.AsType[*sandbox.Error](refusal)
	if problem == nil || !ok {
		return refusal
	}
	unrecorded := *e
	unrecorded.Message += fmt.Sprintf("; the audit log has no record of it: %v", problem)
	return &unrecorded
}

// decisionRecord is the record of a decision.
func decisionRecord(c sandbox.Command, v sandbox.Verdict, a *sandbox.Approval, p sandbox.Profile) sandbox.AuditRecord {
	d := &sandbox.AuditDecision{
		Decision: v.Decision, Rule: v.Rule, Reason: v.Reason, Span: v.Span, Roots: v.Roots, Approval: a,
		Image: c.Image, User: c.User.String(), Network: c.Network, Secrets: v.Grant.Secrets, Files: fileNames(c.Files), Collect: c.Collect,
	}
	if c.Shell != sandbox.ShellSh {
		d.Shell = c.Shell
	}
	if p.Policy != nil {
		d.Policy = p.Policy.Hash()
	}
	for _, m := range c.Mounts {
		mode := "ro"
		if m.Writable {
			mode = "rw"
		}
		d.Mounts = append(d.Mounts, m.Source+":"+m.Target+":"+mode)
	}
	for _, kv := range c.Env {
		name, _, _ := strings.Cut(kv, "=")
		d.Env = append(d.Env, name)
	}
	slices.Sort(d.Env)
	d.Env = slices.Compact(d.Env)
	return sandbox.AuditRecord{Type: "decision", Decision: d}
}

// endRecord is the record of how a command ended.
func endRecord(r sandbox.Result) sandbox.AuditRecord {
	return sandbox.AuditRecord{Type: "end", End: &sandbox.AuditEnd{
		Status: r.Status, Cause: r.Cause, ExitCode: r.ExitCode, Signal: r.Signal,
		User: r.User.Numbers(), Container: r.Container.ID, ImageDigest: r.Container.ImageDigest, Runtime: r.Container.Runtime,
		StdoutBytes: r.Stdout.Total, StderrBytes: r.Stderr.Total, Lingering: len(r.Lingering), Files: collectedNames(r.Files),
		QueuedMS: milliseconds(r.Timing.Queued), TotalMS: milliseconds(r.Timing.Total),
	}}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
