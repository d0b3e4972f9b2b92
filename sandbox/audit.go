package sandbox

import "time"

// Auditor keeps records in which every change can be detected.
type Auditor interface {
	// Record returns when the record is written. It decides whether to keep the script.
	Record(r AuditRecord) error
}

// AuditAction says what to do with a command that cannot be recorded.
type AuditAction string

// The audit actions. The empty action is AuditRefuse.
const (
	AuditRefuse   AuditAction = "refuse"   // it does not run
	AuditContinue AuditAction = "continue" // it runs, with a notice
)

// AuditRecord is a decision about a command, or how it ended. It contains no variable's value, and no output.
type AuditRecord struct {
	Type         string         `json:"type"` // "decision" or "end", of Files "files" or "files_end"
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
	Action       string         `json:"action,omitempty"` // a method of Files, such as WriteTar
	Path         string         `json:"path,omitempty"`   // in the session's workspace
	Bytes        int64          `json:"bytes,omitempty"`  // of a file or archive, once it ended
	Error        string         `json:"error,omitempty"`
}

// AuditDecision is the decision, and what the command gets.
type AuditDecision struct {
	Decision Decision   `json:"decision"` // allow or deny: the answer if a person was asked
	Rule     string     `json:"rule"`     // "" for the policy's default, or a denial without a rule: see Reason
	Reason   string     `json:"reason"`
	Span     ScriptSpan `json:"span,omitzero"`
	Roots    []string   `json:"roots,omitempty"`
	Approval *Approval  `json:"approval,omitempty"` // if the rule requires one
	Policy   string     `json:"policy_sha256,omitempty"`
	Shell    string     `json:"shell,omitempty"` // unless it is sh
	Image    string     `json:"image"`           // as requested
	User     string     `json:"user"`            // UID:GID or names, as requested
	Network  string     `json:"network"`
	Mounts   []string   `json:"mounts,omitempty"`  // SOURCE:TARGET:MODE
	Env      []string   `json:"env,omitempty"`     // names
	Files    []string   `json:"files,omitempty"`   // PATH:SIZE
	Collect  []string   `json:"collect,omitempty"` // patterns
	Secrets  []string   `json:"secrets,omitempty"` // names
}

// AuditEnd is how a command ended.
type AuditEnd struct {
	Status      Status   `json:"status"`
	Cause       Cause    `json:"cause"`
	ExitCode    int      `json:"exit_code"`
	Signal      string   `json:"signal,omitempty"`
	User        string   `json:"user,omitempty"` // UID:GID, if known
	Container   string   `json:"container,omitempty"`
	ImageDigest string   `json:"image_digest,omitempty"`
	Runtime     string   `json:"runtime,omitempty"`
	StdoutBytes int64    `json:"stdout_bytes"`
	StderrBytes int64    `json:"stderr_bytes"`
	Lingering   int      `json:"lingering"`       // processes
	Files       []string `json:"files,omitempty"` // collected: PATH:SIZE
	QueuedMS    float64  `json:"queued_ms"`
	TotalMS     float64  `json:"total_ms"`
}
