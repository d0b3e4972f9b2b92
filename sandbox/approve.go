package sandbox

import (
	"context"
	"time"
)

// Approver asks a person about commands that need an approval.
type Approver interface {
	// Approve returns the answer. It ends with ctx, which is canceled when the
	// answer is no longer needed. An error says why no one could be asked; the
	// command's caller gets the hint of an *Error.
	Approve(ctx context.Context, q Question) (Approval, error)
}

// Question is a command that needs a person's approval. It shows what the command would get after its policy narrowed it.
type Question struct {
	ID          string
	Script      string // untrusted, as is Description: make both safe before you show them
	Shell       string // that runs it: ShellSh or ShellBash
	Dir         string
	Env         []string // "NAME=value", or "NAME" if it is taken from the caller's environment; untrusted, too
	Stdin       bool     // the command reads input that the question cannot show
	Files       []string // that it finds, as PATH:SIZE; untrusted, too
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
	Always      bool // AnswerAlways is allowed, for the commands of Verdict.Asks
	Deadline    time.Time
}

// Answer is a person's answer to a Question.
type Answer string

// The answers. Any other is a denial.
const (
	AnswerOnce   Answer = "once"
	AnswerAlways Answer = "always" // for these programs by these rules, until the session or, without one, the Runner ends
	AnswerDeny   Answer = "deny"
)

// Approval is an answer, and who gave it.
type Approval struct {
	Answer Answer `json:"answer"`
	By     string `json:"by"` // such as "terminal", or a token's name; "session" and "runner" are earlier answers
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
