package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Auditor keeps records, which nobody can change unseen.
type Auditor interface {
	// Record returns once the record is written. Whether the script's text is
	// kept is up to it.
	Record(r AuditRecord) error
}

// AuditAction says what becomes of a command that cannot be written down.
type AuditAction string

// The audit actions. The empty action is AuditRefuse.
const (
	AuditRefuse   AuditAction = "refuse"   // it does not run
	AuditContinue AuditAction = "continue" // it runs, and says so
)

// AuditRecord is what was decided about a command, or how it ended. It holds
// no variable's value, and nothing of what the command wrote.
type AuditRecord struct {
	Type         string         `json:"type"` // "decision" or "end"
	Time         time.Time      `json:"time"`
	ID           string         `json:"id"`
	Caller       Caller         `json:"caller"`
	Profile      string         `json:"profile"`
	Session      string         `json:"session,omitempty"`
	ScriptSHA256 string         `json:"script_sha256"`
	Script       string         `json:"script,omitempty"` // if it is to be kept
	Dir          string         `json:"dir,omitempty"`
	Description  string         `json:"description,omitempty"`
	Decision     *AuditDecision `json:"decision,omitempty"`
	End          *AuditEnd      `json:"end,omitempty"`
}

// AuditDecision is what was decided, and what the command gets.
type AuditDecision struct {
	Decision Decision   `json:"decision"` // allow or deny: what was asked is answered
	Rule     string     `json:"rule"`     // "" is the policy's default, or a denial by no rule of its own: see Reason
	Reason   string     `json:"reason"`
	Span     ScriptSpan `json:"span,omitzero"`
	Roots    []string   `json:"roots,omitempty"`
	Approval *Approval  `json:"approval,omitempty"` // where the rule says ask
	Policy   string     `json:"policy_sha256,omitempty"`
	Image    string     `json:"image"` // as it was asked for
	User     string     `json:"user"`  // UID:GID, or names as they were asked for
	Network  string     `json:"network"`
	Mounts   []string   `json:"mounts,omitempty"`  // SOURCE:TARGET:MODE
	Env      []string   `json:"env,omitempty"`     // names
	Secrets  []string   `json:"secrets,omitempty"` // names
}

// AuditEnd is how a command ended.
type AuditEnd struct {
	Status      Status  `json:"status"`
	Cause       Cause   `json:"cause"`
	ExitCode    int     `json:"exit_code"`
	Signal      string  `json:"signal,omitempty"`
	User        string  `json:"user,omitempty"` // UID:GID, where it is known
	Container   string  `json:"container,omitempty"`
	ImageDigest string  `json:"image_digest,omitempty"`
	Runtime     string  `json:"runtime,omitempty"`
	StdoutBytes int64   `json:"stdout_bytes"`
	StderrBytes int64   `json:"stderr_bytes"`
	Lingering   int     `json:"lingering"` // processes
	QueuedMS    float64 `json:"queued_ms"`
	TotalMS     float64 `json:"total_ms"`
}

// audit writes a record. An error means that the command must not run.
func (l *Local) audit(c Command, r AuditRecord) (problem, err error) {
	if l.Auditor == nil {
		return nil, nil
	}
	hash := sha256.Sum256([]byte(c.Script))
	r.Time, r.ID, r.Caller, r.Profile, r.Session = time.Now().UTC(), c.ID, c.Caller, c.Profile, c.Session
	r.ScriptSHA256, r.Script, r.Dir, r.Description = hex.EncodeToString(hash[:]), c.Script, c.Dir, c.Description
	if problem = l.Auditor.Record(r); problem == nil {
		return nil, nil
	}
	l.house.log.Error("the audit has no record", "command", c.ID, "type", r.Type, "error", problem)
	if l.AuditOnError == AuditContinue {
		return problem, nil
	}
	return problem, &Error{Cause: CauseEngine, Message: "the audit cannot record the command, so it is not run (audit.on_error: refuse)", Err: problem}
}

// deny records a denial. What cannot be recorded is denied all the same, and its
// caller told.
func (l *Local) deny(c Command, r AuditRecord, refusal error) error {
	problem, _ := l.audit(c, r)
	e, ok := errors.AsType[*Error](refusal)
	if problem == nil || !ok {
		return refusal
	}
	told := *e
	told.Message += fmt.Sprintf("; and the audit has no record of it: %v", problem)
	return &told
}

// decided is the record of a decision.
func (c Command) decided(v Verdict, a *Approval, p Profile) AuditRecord {
	d := &AuditDecision{
		Decision: v.Decision, Rule: v.Rule, Reason: v.Reason, Span: v.Span, Roots: v.Roots, Approval: a,
		Image: c.Image, User: c.User.String(), Network: c.Network, Secrets: v.Grant.Secrets,
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
	return AuditRecord{Type: "decision", Decision: d}
}

// ended is the record of how a command ended.
func ended(r Result) AuditRecord {
	return AuditRecord{Type: "end", End: &AuditEnd{
		Status: r.Status, Cause: r.Cause, ExitCode: r.ExitCode, Signal: r.Signal,
		User: r.User.Numbers(), Container: r.Container.ID, ImageDigest: r.Container.ImageDigest, Runtime: r.Container.Runtime,
		StdoutBytes: r.Stdout.Total, StderrBytes: r.Stderr.Total, Lingering: len(r.Lingering),
		QueuedMS: milliseconds(r.Timing.Queued), TotalMS: milliseconds(r.Timing.Total),
	}}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
