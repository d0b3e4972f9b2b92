package sandbox

import (
	"context"
	"time"
)

// Approver asks a person about commands whose policy wants that.
type Approver interface {
	// Approve returns what was answered. It ends with ctx, which is canceled
	// when nobody waits for the answer any more. An error is why nobody could
	// be asked; the hint of an *Error is told to the command's caller.
	Approve(ctx context.Context, q Question) (Approval, error)
}

// Question is a command that needs a person's approval, as its policy leaves it:
// what counts beside the script is what it would get, and nobody else's.
type Question struct {
	ID          string
	Script      string // hostile, as is Description: made safe by whoever shows it
	Dir         string
	Env         []string // the caller's: "NAME=value", or "NAME" where its own was taken; hostile, too
	Stdin       bool     // the command reads what nobody saw yet
	Description string
	Image       string
	User        User
	Network     string
	Mounts      []Mount
	Tmpfs       []string // directories in memory, which hide what the image has there
	Runtime     string   // "" is the engine's default
	Profile     string
	Session     string
	Verdict     Verdict
	Always      bool // AnswerAlways may be given, for what Verdict.Asks
	Deadline    time.Time
}

// Answer is a person's.
type Answer string

// The answers. Any other is a denial.
const (
	AnswerOnce   Answer = "once"
	AnswerAlways Answer = "always" // for these programs by these rules, as long as the session lives
	AnswerDeny   Answer = "deny"
)

// Approval is an answer and whose it is.
type Approval struct {
	Answer Answer `json:"answer"`
	By     string `json:"by"` // such as "terminal", or a token's name
}

// Asks are the commands of the script that need an approval.
func (v Verdict) Asks() (list []CommandVerdict) {
	for _, command := range v.Commands {
		if command.Decision == Ask {
			list = append(list, command)
		}
	}
	return list
}
