package local

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
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/record"
)

// maxAlways is how many programs one AnswerAlways can allow for as long as a
// session exists: a person reads no longer list.
const maxAlways = 16

// How many questions may wait for a person at a time, and how many of them may be one caller's:
// no one shuts out all others.
const (
	maxQuestions = 64
	maxOfOne     = maxQuestions * 3 / 4
)

var nobody = sandbox.Approval{Answer: sandbox.AnswerDeny, By: "nobody"}

// contextHash is a fingerprint of everything but the script that decides what a
// command does.
func contextHash(c sandbox.Command) string {
	as := []any{c.Dir, c.Shell, c.Env, c.Stdin != nil, c.User, c.Image, c.Network, c.Runtime, c.Mounts, c.Tmpfs}
	if len(c.Files) > 0 { // without any the hash must not change: sessions outlive a belljar
		as = append(as, c.Files)
	}
	text, _ := json.Marshal(as)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// sessionApproval connects an approval with earlier ones in the session. Each is
// bound to the container that the session had at the time.
type sessionApproval struct {
	container string            // "" if there is none yet
	earlier   bool              // the command runs by an earlier AnswerAlways
	adds      []record.Approved // programs that this approval allows
}

// approve gets the approval of a command that needs one: from an earlier answer, or
// from a person.
func (l *Local) approve(ctx context.Context, prepared *prepared, v sandbox.Verdict) (sandbox.Approval, sessionApproval, error) {
	c := prepared.command
	asked := alwaysScope(c, prepared.profile, v)
	container, before, err := l.sessionApprovals(ctx, prepared)
	if err != nil {
		return nobody, sessionApproval{}, err // the answer no longer matters
	}
	by := "session"
	if c.Session == "" {
		by, before = "runner", l.approvals.of(c.Caller)
	}
	if len(asked) > 0 && !slices.ContainsFunc(asked, func(a record.Approved) bool { return !slices.Contains(before, a) }) {
		return sandbox.Approval{Answer: sandbox.AnswerAlways, By: by}, sessionApproval{container: container, earlier: c.Session != ""}, nil
	}
	a, err := l.ask(ctx, prepared, v, len(asked) > 0)
	switch {
	case err != nil || a.Answer != sandbox.AnswerAlways:
		return a, sessionApproval{}, err
	case c.Session == "":
		l.approvals.add(c.Caller, asked)
		return a, sessionApproval{}, nil
	}
	return a, sessionApproval{container: container, adds: asked}, nil
}

// ask asks a person, for this once or for always.
func (l *Local) ask(ctx context.Context, prepared *prepared, v sandbox.Verdict, always bool) (sandbox.Approval, error) {
	c, wait := prepared.command, prepared.profile.AskTimeout
	if l.Approver == nil {
		return nobody, denial(c.Script, v, "policy requires approval, but no one is available to ask")
	}
	q := sandbox.Question{
		ID: c.ID, Script: c.Script, Shell: c.Shell, Dir: c.Dir, Env: prepared.callerEnv, Stdin: c.Stdin != nil, Files: fileNames(c.Files), Description: c.Description,
		Image: c.Image, User: c.User, Network: c.Network, Mounts: c.Mounts, Tmpfs: c.Tmpfs, Runtime: c.Runtime, Profile: c.Profile, Session: c.Session,
		Verdict: v, Always: always, Deadline: time.Now().Add(wait),
	}
	if waiting := l.approvals.take(c.Caller.Token); waiting != "" {
		return nobody, &sandbox.Error{Cause: sandbox.CauseBusy, Message: "busy: " + waiting + " already wait for approval",
			Hint: "answer them, or retry after 1m", RetryAfter: time.Minute}
	}
	defer l.approvals.give(c.Caller.Token)
	waiting, cancel := context.WithDeadline(ctx, q.Deadline)
	defer cancel()
	a, err := l.Approver.Approve(waiting, q)
	switch {
	case ctx.Err() != nil:
		return nobody, &sandbox.Error{Cause: sandbox.CauseCanceled, Message: "canceled before the command was approved"}
	case waiting.Err() != nil:
		return nobody, denial(c.Script, v, fmt.Sprintf("policy requires approval, but no one answered within %s", sandbox.FormatDuration(wait)))
	case err != nil:
		return nobody, askFailed(c.Script, v, err)
	case a.Answer == sandbox.AnswerAlways && always:
		return a, nil
	case a.Answer == sandbox.AnswerOnce || a.Answer == sandbox.AnswerAlways:
		return sandbox.Approval{Answer: sandbox.AnswerOnce, By: a.By}, nil
	}
	return sandbox.Approval{Answer: sandbox.AnswerDeny, By: a.By}, denial(c.Script, v, "not approved")
}

// askFailed is the denial of a script that needs an approval which no one could give.
func askFailed(script string, v sandbox.Verdict, why error) *sandbox.Error {
	e, ok := errors.AsType[*sandbox.Error](why)
	if !ok {
		return denial(script, v, fmt.Sprintf("policy requires approval, but asking failed: %v", why))
	}
	refusal := denial(script, v, "policy requires approval, but "+e.Message)
	refusal.Err, refusal.Hint = e.Err, cmp.Or(e.Hint, refusal.Hint)
	return refusal
}

// programDirs are the image's directories of programs: nothing is mounted there.
var programDirs = []string{"/bin/", "/usr/bin/", "/sbin/", "/usr/sbin/", "/usr/local/bin/", "/usr/local/sbin/"}

// alwaysScope lists what an AnswerAlways would allow, nothing where it must not be given:
// a program that only the run reveals may be another one the next time, and so may
// one in a directory that the script can write.
func alwaysScope(c sandbox.Command, p sandbox.Profile, v sandbox.Verdict) (list []record.Approved) {
	if len(v.Unknown) > 0 || c.Limits.Disk > 0 && c.User.UID == 0 { // or it can write all of them
		return nil
	}
	hash, beside := p.Policy.Hash(), contextHash(c)
	for _, command := range v.Asks() {
		if dir, name := path.Split(command.Program); name == "" || dir != "" && !slices.Contains(programDirs, dir) {
			return nil
		}
		a := record.Approved{Policy: hash, Profile: c.Profile, Rule: command.Rule, Program: command.Program, Context: beside}
		if !slices.Contains(list, a) {
			list = append(list, a)
		}
		if len(list) > maxAlways {
			return nil
		}
	}
	return list
}

// sessionApprovals returns the session's container, "" where it has none, and what was
// approved for as long as that exists. An error says why the command cannot run
// in the session.
func (l *Local) sessionApprovals(ctx context.Context, prepared *prepared) (container string, list []record.Approved, err error) {
	c := prepared.command
	if c.Session == "" {
		return "", nil, nil
	}
	r, err := record.Store{Dir: l.sessionDir(), Name: c.Session}.Load(ctx)
	if now := time.Now(); err != nil || r.Container == "" || r.Lost != "" || r.IsExpired(now) || r.IsIdle(now) {
		return "", nil, nil // no approvals: opening the session reports the error
	}
	kept, err := l.Engine.Sessions(ctx, c.Session)
	i := slices.IndexFunc(kept, func(k sandbox.Kept) bool { return k.ID == r.Container })
	if err != nil || i < 0 {
		return "", nil, nil
	}
	return r.Container, r.Approved, prepared.narrowing.fits(c, kept[i], sandbox.Image{Reference: c.Image})
}

// check refuses a command that runs by an approval which ended with its
// session's container, while the command waited for its turn.
func (s sessionApproval) check(session, container string) error {
	if !s.earlier || container == s.container {
		return nil
	}
	return &sandbox.Error{Cause: sandbox.CauseDenied, Message: fmt.Sprintf("the approval was for the life of session %q, which was lost before the command ran", session),
		Hint: "run it again to be asked again"}
}

// save records what was approved, if it was for this container, or for the
// first.
func (s sessionApproval) save(r *record.Record) {
	if s.container != "" && s.container != r.Container {
		return
	}
	for _, a := range s.adds {
		if !slices.Contains(r.Approved, a) {
			r.Approved = append(r.Approved, a)
		}
	}
}
