package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// DefaultAskTimeout is how long a person has to answer.
const DefaultAskTimeout = 5 * time.Minute

// maxAlways is how many programs one answer can be about for as long as a
// session lives: more than that nobody reads.
const maxAlways = 16

// Approver asks a person about commands whose policy wants that.
type Approver interface {
	// Approve returns what was answered. It ends with ctx, which is canceled
	// when nobody waits for the answer any more. An error is why nobody could
	// be asked; the hint of an *Error is told to the command's caller.
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

var nobody = Approval{AnswerDeny, "nobody"}

// approved is what was answered with AnswerAlways: a program, by a rule of a
// policy. Neither another program nor another rule is.
type approved struct {
	Policy  string `json:"policy"` // its hash
	Profile string `json:"profile"`
	Rule    string `json:"rule"`
	Program string `json:"program"`
}

// standing is what an approval has to do with the session's others. Each is
// bound to the container that the session had when it was looked at.
type standing struct {
	container string     // "" is none yet
	used      bool       // the command runs by an earlier AnswerAlways
	adds      []approved // by one that was given now
}

// approve sees to the approval of a command that needs one.
func (l *Local) approve(ctx context.Context, c Command, p Profile, v Verdict) (Approval, standing, error) {
	asked := asks(c, p, v)
	container, before := l.standing(ctx, c.Session, asked)
	if container != "" && !slices.ContainsFunc(asked, func(a approved) bool { return !slices.Contains(before, a) }) {
		return Approval{AnswerAlways, "session"}, standing{container: container, used: true}, nil
	}
	if l.Approver == nil {
		return nobody, standing{}, denial(c.Script, v, "the command policy wants an approval, and nobody is there to ask")
	}
	wait := cmp.Or(p.AskTimeout, DefaultAskTimeout)
	q := Question{
		ID: c.ID, Script: c.Script, Dir: c.Dir, Description: c.Description, Profile: c.Profile, Session: c.Session,
		Verdict: v, Always: c.Session != "" && len(asked) > 0, Deadline: time.Now().Add(wait),
	}
	waiting, cancel := context.WithDeadline(ctx, q.Deadline)
	defer cancel()
	a, err := l.Approver.Approve(waiting, q)
	switch {
	case ctx.Err() != nil:
		return nobody, standing{}, &Error{Cause: CauseCanceled, Message: "canceled before the command was approved"}
	case waiting.Err() != nil:
		return nobody, standing{}, denial(c.Script, v, fmt.Sprintf("the command policy wants an approval, and nobody answered within %v", wait))
	case err != nil:
		return nobody, standing{}, unasked(c.Script, v, err)
	case a.Answer == AnswerAlways && q.Always:
		return a, standing{container: container, adds: asked}, nil
	case a.Answer == AnswerOnce || a.Answer == AnswerAlways:
		return Approval{AnswerOnce, a.By}, standing{}, nil
	}
	return Approval{AnswerDeny, a.By}, standing{}, denial(c.Script, v, "it was not approved")
}

// unasked is the denial of a script about which nobody could be asked.
func unasked(script string, v Verdict, why error) *Error {
	e, ok := errors.AsType[*Error](why)
	if !ok {
		return denial(script, v, fmt.Sprintf("the command policy wants an approval, and nobody could be asked: %v", why))
	}
	refusal := denial(script, v, "the command policy wants an approval, and "+e.Message)
	refusal.Err, refusal.Hint = e.Err, cmp.Or(e.Hint, refusal.Hint)
	return refusal
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

// asks are what an AnswerAlways would be about, none where it must not be given:
// what only the run reveals could be anything the next time.
func asks(c Command, p Profile, v Verdict) (list []approved) {
	if len(v.Unknown) > 0 {
		return nil
	}
	hash := p.Policy.Hash()
	for _, command := range v.Asks() {
		if command.Program == "" {
			return nil
		}
		a := approved{hash, c.Profile, command.Rule, command.Program}
		if !slices.Contains(list, a) {
			list = append(list, a)
		}
		if len(list) > maxAlways {
			return nil
		}
	}
	return list
}

// standing is the container that the session has, "" where it has none or there
// is nothing to look for, and what was approved for as long as it lives.
func (l *Local) standing(ctx context.Context, session string, asked []approved) (container string, list []approved) {
	if session == "" || len(asked) == 0 {
		return "", nil
	}
	r, err := recordStore{l.sessionDir(), session}.look(ctx)
	if now := time.Now(); err != nil || r.Container == "" || r.Lost != "" || r.over(now) || r.idle(now) {
		return "", nil
	}
	kept, err := l.Engine.Sessions(ctx, session)
	if err != nil || !slices.ContainsFunc(kept, func(k Kept) bool { return k.ID == r.Container }) {
		return "", nil
	}
	return r.Container, r.Approved
}

// holds refuses a command that runs by an approval which ended with its
// session's container, while the command waited for its turn.
func (s standing) holds(session, container string) error {
	if !s.used || container == s.container {
		return nil
	}
	return &Error{Cause: CauseDenied, Message: fmt.Sprintf("it was approved for as long as session %q lives, and that was lost before the command's turn", session),
		Hint: "run it again, to be asked"}
}

// settle remembers what was approved, if it was for this container, or for the
// first.
func (s standing) settle(r *record) {
	if s.container != "" && s.container != r.Container {
		return
	}
	for _, a := range s.adds {
		if !slices.Contains(r.Approved, a) {
			r.Approved = append(r.Approved, a)
		}
	}
}
