package sandbox

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

// DefaultAskTimeout is how long a person has to answer.
const DefaultAskTimeout = 5 * time.Minute

// Approver asks a person about commands whose policy wants that.
type Approver interface {
	// Approve returns what was answered. It ends with ctx, which is canceled
	// when nobody waits for the answer any more.
	Approve(ctx context.Context, q Question) (Approval, error)
}

// Question is a command that needs a person's approval.
type Question struct {
	ID          string
	Script      string // hostile, as is Description: made safe by whoever shows it
	Dir         string
	Description string
	Profile     string
	Session     string
	Verdict     Verdict
	Always      bool // AnswerAlways may be given
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

// approved is what was answered with AnswerAlways: a program, by a rule of a
// policy. Neither another program nor another rule is.
type approved struct {
	Policy  string `json:"policy"` // its hash
	Profile string `json:"profile"`
	Rule    string `json:"rule"`
	Program string `json:"program"`
}

// approve sees to the approval of a command that needs one. What was approved
// for as long as the session lives is for its record.
func (l *Local) approve(ctx context.Context, c Command, p Profile, v Verdict) (a Approval, always []approved, err error) {
	nobody := Approval{AnswerDeny, "nobody"}
	asked := asks(c, p, v)
	if l.remembers(ctx, c.Session, asked) {
		return Approval{AnswerAlways, "session"}, nil, nil
	}
	if l.Approver == nil {
		return nobody, nil, denial(c.Script, v, "the command policy wants an approval, and nobody is there to ask")
	}
	wait := cmp.Or(p.AskTimeout, DefaultAskTimeout)
	q := Question{
		ID: c.ID, Script: c.Script, Dir: c.Dir, Description: c.Description, Profile: c.Profile, Session: c.Session,
		Verdict: v, Always: c.Session != "" && len(asked) > 0, Deadline: time.Now().Add(wait),
	}
	waiting, cancel := context.WithDeadline(ctx, q.Deadline)
	defer cancel()
	a, err = l.Approver.Approve(waiting, q)
	switch {
	case ctx.Err() != nil:
		return nobody, nil, &Error{Cause: CauseCanceled, Message: "canceled before the command was approved"}
	case waiting.Err() != nil:
		return nobody, nil, denial(c.Script, v, fmt.Sprintf("the command policy wants an approval, and nobody answered within %v", wait))
	case err != nil:
		return nobody, nil, denial(c.Script, v, fmt.Sprintf("the command policy wants an approval, and nobody could be asked: %v", err))
	case a.Answer == AnswerAlways && q.Always:
		return a, asked, nil
	case a.Answer == AnswerOnce || a.Answer == AnswerAlways:
		return Approval{AnswerOnce, a.By}, nil, nil
	}
	return Approval{AnswerDeny, a.By}, nil, denial(c.Script, v, "it was not approved")
}

// asks are what is to be approved, none where that cannot be said: what only
// the run reveals could be anything the next time.
func asks(c Command, p Profile, v Verdict) (list []approved) {
	if len(v.Unknown) > 0 {
		return nil
	}
	for _, command := range v.Commands {
		a := approved{p.Policy.Hash(), c.Profile, command.Rule, command.Program}
		if command.Decision != Ask {
			continue
		}
		if command.Program == "" {
			return nil
		}
		if !slices.Contains(list, a) {
			list = append(list, a)
		}
	}
	return list
}

// remembers tells whether all that is asked was approved for as long as the
// session lives, and it does.
func (l *Local) remembers(ctx context.Context, session string, asked []approved) bool {
	if session == "" || len(asked) == 0 {
		return false
	}
	r, err := recordStore{l.sessionDir(), session}.look(ctx)
	if err != nil || r.Lost != "" || slices.ContainsFunc(asked, func(a approved) bool { return !slices.Contains(r.Approved, a) }) {
		return false
	}
	kept, err := l.Engine.Sessions(ctx, session)
	return err == nil && slices.ContainsFunc(kept, func(k Kept) bool { return k.ID == r.Container })
}

// approve adds to what is approved in the session.
func (r *record) approve(list []approved) {
	for _, a := range list {
		if !slices.Contains(r.Approved, a) {
			r.Approved = append(r.Approved, a)
		}
	}
}
