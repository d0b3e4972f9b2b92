package sandbox

import (
	"fmt"
	"time"
)

// Decision says whether a command may run. The zero Decision is a denial, and of
// two decisions the smaller is the stricter.
type Decision uint8

// The decisions, strictest first.
const (
	Deny Decision = iota
	Ask
	Allow
)

var decisionNames = [...]string{Deny: "deny", Ask: "ask", Allow: "allow"}

func (d Decision) String() string {
	if d > Allow {
		d = Deny
	}
	return decisionNames[d]
}

// MarshalText writes "deny", "ask" or "allow".
func (d Decision) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what MarshalText writes, and nothing else.
func (d *Decision) UnmarshalText(text []byte) error {
	for i, name := range decisionNames {
		if name == string(text) {
			*d = Decision(i)
			return nil
		}
	}
	return fmt.Errorf("reading decision %q: write allow, ask or deny", text)
}

// Verdict is the decision about a script, and why. The zero Verdict is a denial.
type Verdict struct {
	Decision Decision         `json:"decision"`
	Rule     string           `json:"rule"`               // the rule that decided; empty is the default
	Reason   string           `json:"reason"`             // one line for the caller
	Span     ScriptSpan       `json:"span"`               // the part of the script that decided
	Roots    []string         `json:"roots"`              // the programs found, sorted
	Unknown  []Unknown        `json:"unknown"`            // what only the run reveals and affects the decision
	Commands []CommandVerdict `json:"commands"`           // each command in the order of the script
	Grant    Grant            `json:"grant,omitzero"`     // of all rules used; nothing if denied
	Withheld []string         `json:"withheld,omitempty"` // secrets that some of these rules grant, and others do not
}

// Judgment is the decision on a command and whose it was.
type Judgment struct {
	Decision Decision  `json:"decision"`       // allow or deny
	By       Decider   `json:"by"`             // the last to decide
	Rule     string    `json:"rule,omitempty"` // that decided or asked; empty is the default
	Reason   string    `json:"reason,omitempty"`
	Approval *Approval `json:"approval,omitempty"` // the answer, where the rule asks
}

// Decider says who decided.
type Decider string

// The deciders.
const (
	ByPolicy Decider = "policy"
	ByPerson Decider = "person" // who was asked
	ByNobody Decider = "nobody" // no one could be asked, or no one answered: that denies
)

// Who is what decided, as messages name it: `rule "x"`, or "default".
func (v Verdict) Who() string {
	if v.Rule == "" {
		return "default"
	}
	return fmt.Sprintf("rule %q", v.Rule)
}

// CommandVerdict is the decision about one command of a script.
type CommandVerdict struct {
	Program  string     `json:"program"` // "" if unknown, or if no program runs
	Decision Decision   `json:"decision"`
	Rule     string     `json:"rule"`
	Reason   string     `json:"reason"`
	Span     ScriptSpan `json:"span"`
}

// ScriptSpan is a part of the judged script: bytes [Start, End), and where it starts
// as editors count, from 1 and in bytes.
type ScriptSpan struct {
	Start  int `json:"start"`
	End    int `json:"end"`
	Line   int `json:"line"`
	Column int `json:"column"`
}

func (s ScriptSpan) String() string { return fmt.Sprintf("%d:%d", s.Line, s.Column) }

// Unknown is a part of a script that only the run reveals.
type Unknown struct {
	What string     `json:"what"`
	Span ScriptSpan `json:"span"`
}

// Grant is what the rules that apply to a script give and restrict. Zero fields give
// nothing and restrict nothing.
type Grant struct {
	Timeout     time.Duration // at most
	IdleTimeout time.Duration // at most
	Limits      Limits        // at most
	Network     string        // "none" or ""
	Mounts      MountGrant

	// Secrets are the names of the secrets that the rules of all the script's commands
	// give: a script has one environment.
	Secrets []string
}

// MountGrant restricts the mounts that a command asked for.
type MountGrant string

// The mount grants, strictest first. The empty one restricts nothing.
const (
	NoMounts       MountGrant = "none"
	ReadOnlyMounts MountGrant = "ro"
)

// Rules narrow the policy for one command: it runs what both allow.
type Rules struct {
	Allow []string // programs or their first words, such as "git status": all others are denied
	Deny  []string // the same, denied
	Set   string   // what a bundled set such as "readonly" allows is allowed, too: all else is denied
}

// Narrower is a Policy that Rules can narrow.
type Narrower interface {
	// Narrow returns the policy that allows no more than both; zero Rules narrow nothing. An error is a
	// *Error of CauseInvalid that names the rule.
	Narrow(by Rules) (Policy, error)
}
