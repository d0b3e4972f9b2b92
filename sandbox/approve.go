package sandbox

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
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

// maxQuestions is how many may wait for a person at a time.
const maxQuestions = 64

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

var nobody = Approval{Answer: AnswerDeny, By: "nobody"}

// approved is what was answered with AnswerAlways: a program, by a rule of a
// policy, in a place. Neither another program nor another rule is, nor the same
// where a variable, a directory or a mount could make it another.
type approved struct {
	Policy  string `json:"policy"` // its hash
	Profile string `json:"profile"`
	Rule    string `json:"rule"`
	Program string `json:"program"`
	Beside  string `json:"beside"` // see Command.beside
}

// beside is a fingerprint of what decides, beside its script, what a command
// does.
func (c Command) beside() string {
	text, _ := json.Marshal([]any{c.Dir, c.Env, c.Stdin != nil, c.User, c.Image, c.Network, c.Runtime, c.Mounts, c.Tmpfs})
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// standing is what an approval has to do with the session's others. Each is
// bound to the container that the session had when it was looked at.
type standing struct {
	container string     // "" is none yet
	used      bool       // the command runs by an earlier AnswerAlways
	adds      []approved // by one that was given now
}

// approve sees to the approval of a command that needs one.
func (l *Local) approve(ctx context.Context, prepared *Prepared, v Verdict) (Approval, standing, error) {
	c, p := prepared.command, prepared.profile
	asked := asks(c, p, v)
	container, before, err := l.standing(ctx, prepared)
	if err != nil {
		return nobody, standing{}, err // whatever is answered
	}
	if container != "" && len(asked) > 0 && !slices.ContainsFunc(asked, func(a approved) bool { return !slices.Contains(before, a) }) {
		return Approval{Answer: AnswerAlways, By: "session"}, standing{container: container, used: true}, nil
	}
	if l.Approver == nil {
		return nobody, standing{}, denial(c.Script, v, "the command policy wants an approval, and nobody is there to ask")
	}
	wait := cmp.Or(p.AskTimeout, DefaultAskTimeout)
	q := Question{
		ID: c.ID, Script: c.Script, Dir: c.Dir, Env: prepared.told, Stdin: c.Stdin != nil, Description: c.Description,
		Image: c.Image, User: c.User, Network: c.Network, Mounts: c.Mounts, Tmpfs: c.Tmpfs, Runtime: c.Runtime, Profile: c.Profile, Session: c.Session,
		Verdict: v, Always: c.Session != "" && len(asked) > 0, Deadline: time.Now().Add(wait),
	}
	if l.questions.Add(1) > maxQuestions {
		l.questions.Add(-1)
		return nobody, standing{}, &Error{Cause: CauseBusy, Message: fmt.Sprintf("busy: %d commands wait for an approval already", maxQuestions),
			Hint: "answer them, or retry after 1m0s", RetryAfter: time.Minute}
	}
	defer l.questions.Add(-1)
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
		return Approval{Answer: AnswerOnce, By: a.By}, standing{}, nil
	}
	return Approval{Answer: AnswerDeny, By: a.By}, standing{}, denial(c.Script, v, "it was not approved")
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
// what only the run reveals could be anything the next time, and so could a
// program that is where the script is.
func asks(c Command, p Profile, v Verdict) (list []approved) {
	if len(v.Unknown) > 0 {
		return nil
	}
	hash, beside := p.Policy.Hash(), c.beside()
	for _, command := range v.Asks() {
		if command.Program == "" || strings.Contains(command.Program, "/") && !path.IsAbs(command.Program) {
			return nil
		}
		a := approved{Policy: hash, Profile: c.Profile, Rule: command.Rule, Program: command.Program, Beside: beside}
		if !slices.Contains(list, a) {
			list = append(list, a)
		}
		if len(list) > maxAlways {
			return nil
		}
	}
	return list
}

// standing is the container that the session has, "" where it has none, and what
// was approved for as long as it lives. An error is why the command cannot run
// in it.
func (l *Local) standing(ctx context.Context, prepared *Prepared) (container string, list []approved, err error) {
	c := prepared.command
	if c.Session == "" {
		return "", nil, nil
	}
	r, err := recordStore{dir: l.sessionDir(), name: c.Session}.look(ctx)
	if now := time.Now(); err != nil || r.Container == "" || r.Lost != "" || r.over(now) || r.idle(now) {
		return "", nil, nil // as if there were none: its turn tells why
	}
	kept, err := l.Engine.Sessions(ctx, c.Session)
	i := slices.IndexFunc(kept, func(k Kept) bool { return k.ID == r.Container })
	if err != nil || i < 0 {
		return "", nil, nil
	}
	return r.Container, r.Approved, prepared.narrowing.fits(c, kept[i], Image{Reference: c.Image})
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
