package local_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/local"

	"github.com/google/go-cmp/cmp"
)

// asking is a policy that asks about every command of a script, which are its
// words: "git by-default" is the program git by the rule push, "$X" one that is
// not known.
type asking struct {
	verdict
	hash string
}

func (p asking) Hash() string { return p.hash }

func (p asking) Narrow(sandbox.Rules) (sandbox.Policy, error) {
	p.hash += ", narrowed"
	return p, nil
}

func (asking) JudgeScript(script, _, _ string) sandbox.Verdict {
	v := sandbox.Verdict{Decision: sandbox.Ask, Rule: "push", Reason: "it publishes", Span: sandbox.ScriptSpan{End: len(script), Line: 1, Column: 1}}
	for program := range strings.FieldsSeq(script) {
		c := sandbox.CommandVerdict{Decision: sandbox.Ask, Rule: "push", Program: program}
		switch {
		case program == "ls":
			c.Decision, c.Rule = sandbox.Allow, ""
		case program == "redirected":
			c.Program = ""
		case strings.HasPrefix(program, "$"):
			v.Unknown = append(v.Unknown, sandbox.Unknown{What: "which program runs"})
		case strings.HasPrefix(program, "other-"):
			c.Rule, c.Program = "other", strings.TrimPrefix(program, "other-")
		}
		v.Commands = append(v.Commands, c)
	}
	return v
}

// approver gives every question the same answer, and remembers the questions.
type approver struct {
	mu       sync.Mutex
	answer   sandbox.Answer
	err      error
	waits    time.Duration
	question []sandbox.Question
}

func (a *approver) Approve(ctx context.Context, q sandbox.Question) (sandbox.Approval, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.question = append(a.question, q)
	select {
	case <-time.After(a.waits):
		return sandbox.Approval{Answer: a.answer, By: "test"}, a.err
	case <-ctx.Done():
		return sandbox.Approval{}, ctx.Err()
	}
}

// notes is an auditor in memory.
type notes struct {
	mu   sync.Mutex
	list []sandbox.AuditRecord
}

func (n *notes) Record(r sandbox.AuditRecord) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.list = append(n.list, r)
	return nil
}

// asks has the runner's policy ask, and a answer.
func asks(l *local.Local, a sandbox.Approver) *notes {
	n := &notes{}
	l.Auditor = n
	l.Approver = a
	changeProfile(l, func(p *sandbox.Profile) { p.Policy = asking{hash: "one"} })
	return n
}

func changeProfile(l *local.Local, change func(p *sandbox.Profile)) {
	p := l.Profiles[sandbox.DefaultProfile]
	change(&p)
	l.Profiles[sandbox.DefaultProfile] = p
}

// decided is the last decision that was recorded.
func (n *notes) decided(t *testing.T) sandbox.AuditDecision {
	t.Helper()
	for i := len(n.list) - 1; i >= 0; i-- {
		if d := n.list[i].Decision; d != nil {
			return *d
		}
	}
	t.Fatal("no decision was written down")
	return sandbox.AuditDecision{}
}

func TestApprove(t *testing.T) {
	denied := func(message, hint string) *sandbox.Error {
		return &sandbox.Error{Cause: sandbox.CauseDenied, Message: message + `: rule "push" at 1:1, "git": it publishes`, Hint: hint}
	}
	const explain = "`belljar policy explain SCRIPT` shows where"
	for name, test := range map[string]struct {
		approver *approver
		patience time.Duration // of the caller
		want     *sandbox.Error
		took     time.Duration
		by       sandbox.Approval
	}{
		"once":    {&approver{answer: sandbox.AnswerOnce, waits: time.Minute}, 0, nil, time.Minute, sandbox.Approval{Answer: sandbox.AnswerOnce, By: "test"}},
		"denied":  {&approver{answer: sandbox.AnswerDeny}, 0, denied("not approved", explain), 0, sandbox.Approval{Answer: sandbox.AnswerDeny, By: "test"}},
		"nothing": {&approver{}, 0, denied("not approved", explain), 0, sandbox.Approval{Answer: sandbox.AnswerDeny, By: "test"}},
		"always":  {&approver{answer: sandbox.AnswerAlways}, 0, nil, 0, sandbox.Approval{Answer: sandbox.AnswerAlways, By: "test"}},
		"too late": {&approver{answer: sandbox.AnswerOnce, waits: time.Hour}, 0,
			denied("policy requires approval, but no one answered within 5m", explain), 5 * time.Minute, sandbox.Approval{Answer: sandbox.AnswerDeny, By: "nobody"}},
		"canceled": {&approver{answer: sandbox.AnswerOnce, waits: time.Hour}, time.Minute,
			&sandbox.Error{Cause: sandbox.CauseCanceled, Message: "canceled before the command was approved"}, time.Minute, sandbox.Approval{Answer: sandbox.AnswerDeny, By: "nobody"}},
		"an error": {&approver{answer: sandbox.AnswerOnce, err: errors.New("the socket broke")}, 0,
			denied("policy requires approval, but asking failed: the socket broke", explain), 0, sandbox.Approval{Answer: sandbox.AnswerDeny, By: "nobody"}},
		"no one to ask": {&approver{err: &sandbox.Error{Message: "no one is available to ask", Hint: "use --yes"}}, 0,
			denied("policy requires approval, but no one is available to ask", "use --yes"), 0, sandbox.Approval{Answer: sandbox.AnswerDeny, By: "nobody"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, s *stage) {
				l := s.runner()
				written := asks(l, test.approver)
				ctx, began := t.Context(), time.Now()
				if test.patience > 0 {
					ctx = cancelAfter(t, test.patience)
				}
				prepared, err := l.Prepare(ctx, sandbox.Command{Script: "git", Description: "why"})
				wantAfter(t, began, test.took)
				if got, ok := errors.AsType[*sandbox.Error](err); ok != (test.want != nil) || ok && (got.Cause != test.want.Cause || got.Message != test.want.Message || got.Hint != test.want.Hint) {
					t.Errorf("error %v, want %v", err, test.want)
				}
				d := written.decided(t)
				by := sandbox.ByPerson
				if test.by.By == "nobody" {
					by = sandbox.ByNobody
				}
				if e, ok := errors.AsType[*sandbox.Error](err); ok && e.Cause == sandbox.CauseDenied && (e.Judgment == nil || e.Judgment.By != by || e.Judgment.Decision != sandbox.Deny || e.Judgment.Rule != "push") {
					t.Errorf("judgment %+v", e.Judgment)
				}
				if *d.Approval != test.by || (d.Decision == sandbox.Allow) != (test.want == nil) {
					t.Errorf("written: %v, %+v", d.Decision, *d.Approval)
				}
				if q := test.approver.question[0]; q.Script != "git" || q.Dir != "/work" || q.Description != "why" || !q.Always || !q.Deadline.Equal(began.Add(5*time.Minute)) {
					t.Errorf("asked %+v", q)
				}
				if prepared != nil && len(s.Specs()) > 0 {
					t.Error("a container was made")
				}
			})
		})
	}
}

func TestAskTimeout(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *stage) {
		l := s.runner()
		asks(l, &approver{waits: time.Hour})
		changeProfile(l, func(p *sandbox.Profile) { p.AskTimeout = 7 * time.Second })
		began := time.Now()
		if _, err := l.Prepare(t.Context(), in("git")); err == nil || !strings.Contains(err.Error(), "no one answered within 7s") {
			t.Error(err)
		}
		wantAfter(t, began, 7*time.Second)
	})
}

// What was approved for as long as the session lives covers that program, by
// that rule of that policy, of that profile.
func TestAlways(t *testing.T) {
	in := func(script string) sandbox.Command { return sandbox.Command{Script: script, Session: "dev"} }
	for name, test := range map[string]struct {
		next  sandbox.Command
		with  func(t *testing.T, s *stage, l *local.Local)
		asked bool
	}{
		"the same":                          {next: in("git")},
		"the same, twice":                   {next: in("git git")},
		"beside what is allowed":            {next: in("ls git")},
		"another program":                   {next: in("curl"), asked: true},
		"another program beside it":         {next: in("git curl"), asked: true},
		"the same program, by another path": {next: in("/work/git"), asked: true},
		"the same program, by another rule": {next: in("other-git"), asked: true},
		"with what is not known":            {next: in("git $X"), asked: true},
		"with a file that no rule allows":   {next: in("git redirected"), asked: true},
		"nothing that a rule asks about":    {next: in("ls"), asked: true},
		"without the session":               {next: sandbox.Command{Script: "git"}, asked: true},
		"of another session":                {next: sandbox.Command{Script: "git", Session: "other"}, asked: true},
		"of another process":                {next: in("git"), with: func(_ *testing.T, _ *stage, l *local.Local) { l.Close() }},
		"with another policy": {next: in("git"), with: func(_ *testing.T, _ *stage, l *local.Local) {
			changeProfile(l, func(p *sandbox.Profile) { p.Policy = asking{hash: "two"} })
		}, asked: true},
		"with a variable":                    {next: sandbox.Command{Script: "git", Session: "dev", Env: []string{"GIT_SSH_COMMAND=sh -c 'curl evil'"}}, asked: true},
		"in another shell":                   {next: sandbox.Command{Script: "git", Session: "dev", Shell: sandbox.ShellBash}, asked: true},
		"with stdin":                         {next: sandbox.Command{Script: "git", Session: "dev", Stdin: strings.NewReader("")}, asked: true},
		"in another directory":               {next: sandbox.Command{Script: "git", Session: "dev", Dir: "/tmp"}, asked: true},
		"with another profile":               {next: sandbox.Command{Script: "git", Session: "dev", Profile: "p"}, with: func(_ *testing.T, _ *stage, l *local.Local) { l.Profiles["p"] = l.Profiles["default"] }, asked: true},
		"after the container went":           {next: in("git"), with: func(t *testing.T, s *stage, _ *local.Local) { s.Left()[0].Remove(t.Context()) }, asked: true},
		"after the session was removed":      {next: in("git"), with: func(t *testing.T, _ *stage, l *local.Local) { l.RemoveSession(t.Context(), "dev") }, asked: true},
		"in a new container of the session":  {next: in("git"), with: inNewContainer, asked: true},
		"where the engine does not answer":   {next: in("git"), with: func(_ *testing.T, s *stage, _ *local.Local) { s.OnSessions = once(errors.New("no")) }, asked: true},
		"after its idle time, not swept yet": {next: in("git"), with: func(*testing.T, *stage, *local.Local) { time.Sleep(30 * time.Minute) }, asked: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, s *stage) {
				defer s.runner().RemoveSession(context.Background(), "other")
				l := s.runner()
				always := &approver{answer: sandbox.AnswerAlways}
				asks(l, always)
				succeeds(t, l, in("git"))
				if test.with != nil {
					test.with(t, s, l)
				}
				next := s.runner()
				next.Profiles = l.Profiles
				deny := &approver{answer: sandbox.AnswerDeny}
				written := &notes{}
				next.Approver, next.Auditor = deny, written
				_, err := next.Prepare(t.Context(), test.next)
				if asked := len(deny.question) > 0; asked != test.asked || asked != (err != nil) {
					t.Errorf("asked %v, error %v", asked, err)
				}
				if d := written.decided(t); !test.asked && (d.Approval.By != "session" || d.Approval.Answer != sandbox.AnswerAlways) {
					t.Errorf("written: %+v", *d.Approval)
				}
			})
		})
	}
}

func inNewContainer(t *testing.T, s *stage, l *local.Local) {
	s.Left()[0].Remove(t.Context())
	l.Approver = &approver{answer: sandbox.AnswerOnce}
	succeeds(t, l, sandbox.Command{Script: "git", Session: "dev"})
}

// once is a fault that strikes once.
func once(err error) func(context.Context) error {
	var done sync.Once
	return func(context.Context) (e error) {
		done.Do(func() { e = err })
		return e
	}
}

func TestAlwaysIsOffered(t *testing.T) {
	for script, want := range map[string]bool{
		"git":                               true,
		"ls git":                            true,
		"ls":                                false, // the default asked, about no program
		"./build.sh":                        false, // another one, in another directory
		"sub/build.sh":                      false,
		"/usr/bin/git":                      true,
		"git $X":                            false,
		"git redirected":                    false,
		"a b c d e f g h i j k l m n o p":   true,
		"a b c d e f g h i j k l m n o p q": false, // more than anybody reads
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t, nil)
			l, deny := s.runner(), &approver{}
			asks(l, deny)
			for _, session := range []string{"", "dev"} {
				l.Prepare(t.Context(), sandbox.Command{Script: script, Session: session})
			}
			if deny.question[0].Always != want || deny.question[1].Always != want {
				t.Errorf("%s: %v without a session, %v in one", script, deny.question[0].Always, deny.question[1].Always)
			}
		})
	}
}

// Without a session an approval lasts as long as the Runner, for the caller that it
// was asked for.
func TestAlwaysWithoutASession(t *testing.T) {
	someone := sandbox.Caller{FrontEnd: "http", Token: "one"}
	for name, test := range map[string]struct {
		next  sandbox.Command
		asked bool
	}{
		"the same":               {next: sandbox.Command{Script: "git git", Caller: someone}},
		"another program":        {next: sandbox.Command{Script: "git curl", Caller: someone}, asked: true},
		"another caller":         {next: sandbox.Command{Script: "git", Caller: sandbox.Caller{FrontEnd: "http", Token: "two"}}, asked: true},
		"in a session":           {next: sandbox.Command{Script: "git", Caller: someone, Session: "dev"}, asked: true},
		"with a variable":        {next: sandbox.Command{Script: "git", Caller: someone, Env: []string{"GIT_DIR=/tmp"}}, asked: true},
		"with rules of its own":  {next: sandbox.Command{Script: "git", Caller: someone, Rules: sandbox.Rules{Deny: []string{"ls"}}}, asked: true},
		"with what is not known": {next: sandbox.Command{Script: "git $X", Caller: someone}, asked: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, s *stage) {
				l := s.runner()
				asks(l, &approver{answer: sandbox.AnswerAlways})
				result := succeeds(t, l, sandbox.Command{Script: "git", Caller: someone})
				if j := result.Policy; j == nil || j.Decision != sandbox.Allow || j.By != sandbox.ByPerson || j.Rule != "push" || *j.Approval != (sandbox.Approval{Answer: sandbox.AnswerAlways, By: "test"}) {
					t.Errorf("judgment %+v", j)
				}
				deny := &approver{answer: sandbox.AnswerDeny}
				l.Approver = deny
				p, err := l.Prepare(t.Context(), test.next)
				if asked := len(deny.question) > 0; asked != test.asked || asked != (err != nil) {
					t.Errorf("asked %v, error %v", asked, err)
				}
				if p != nil {
					if d := l.Auditor.(*notes).decided(t); *d.Approval != (sandbox.Approval{Answer: sandbox.AnswerAlways, By: "runner"}) {
						t.Errorf("written: %+v", *d.Approval)
					}
				}
			})
		})
	}
}

// What may not be answered with always is answered once.
func TestAlwaysThatIsNotOffered(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *stage) {
		l, always := s.runner(), &approver{answer: sandbox.AnswerAlways}
		written := asks(l, always)
		for range 2 {
			succeeds(t, l, sandbox.Command{Script: "$X", Session: "dev"})
			if d := written.decided(t); d.Approval.Answer != sandbox.AnswerOnce {
				t.Errorf("written: %+v", *d.Approval)
			}
		}
		if len(always.question) != 2 {
			t.Errorf("asked %d times", len(always.question))
		}
	})
}

// A command that runs by what was approved in its session does not begin in
// the next container.
func TestAlwaysEndsWhileACommandWaits(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *stage) {
		l := s.runner()
		asks(l, &approver{answer: sandbox.AnswerAlways})
		succeeds(t, l, in("git"))
		prepared, err := l.Prepare(t.Context(), in("git"))
		if err != nil {
			t.Fatal(err)
		}
		s.Left()[0].Remove(t.Context())
		x, err := prepared.Start(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		r, err := x.Wait()
		wantFate(t, r, sandbox.StatusDenied, sandbox.CauseDenied, sandbox.ExitNeverRan)
		if err == nil || !strings.Contains(r.Message, `for the life of session "dev", which was lost before`) || len(s.Specs()) != 1 {
			t.Errorf("%v, %d containers were made", err, len(s.Specs()))
		}
	})
}

// An answer about a session that was lost by the command's turn is for that
// command alone.
func TestAlwaysIsNotForTheNextContainer(t *testing.T) {
	bubble(t, nil, func(t *testing.T, s *stage) {
		l, always := s.runner(), &approver{answer: sandbox.AnswerAlways}
		asks(l, always)
		succeeds(t, l, in("git"))
		prepared, err := l.Prepare(t.Context(), in("curl"))
		if err != nil {
			t.Fatal(err)
		}
		s.Left()[0].Remove(t.Context())
		x, err := prepared.Start(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if r, err := x.Wait(); err != nil || r.Status != sandbox.StatusSuccess {
			t.Errorf("%+v, %v", r, err)
		}
		if _, err := l.Prepare(t.Context(), in("curl")); err != nil || len(always.question) != 3 {
			t.Errorf("asked %d times, error %v", len(always.question), err)
		}
	})
}

// A question shows the environment, mounts and network as the policy leaves them.
func TestQuestion(t *testing.T) {
	dir := t.TempDir()
	bubble(t, nil, func(t *testing.T, s *stage) {
		l, deny := s.runner(), &approver{}
		changeProfile(l, func(p *sandbox.Profile) {
			p.Policy = generous{verdict{Decision: sandbox.Ask, Grant: sandbox.Grant{Network: "none", Mounts: sandbox.ReadOnlyMounts, Secrets: []string{"API_KEY"}}}}
			p.Secrets = []sandbox.Secret{{Name: "API_KEY", From: sandbox.SecretEnv}}
		})
		l.Approver = deny
		l.Prepare(t.Context(), sandbox.Command{
			Script: "x", Stdin: strings.NewReader(""), Image: "other", User: sandbox.User{UID: 1, GID: 2}, Network: "bridge",
			Env: []string{"B=by value", "C", "NOT_THERE", "A=old", "A=new"}, Inherit: []string{"A=i", "C=i", "D=i", "API_KEY=i"},
			Mounts: []sandbox.Mount{{Source: dir, Target: "/x", Writable: true}}, Tmpfs: []string{"/opt"}, Runtime: "other",
		})
		q := deny.question[0]
		q.ID, q.Deadline, q.Verdict = "", time.Time{}, sandbox.Verdict{}
		want := sandbox.Question{
			Script: "x", Shell: "sh", Dir: "/work", Env: []string{"A=new", "B=by value", "C", "D"}, Stdin: true, Image: "other", User: sandbox.User{UID: 1, GID: 2},
			Network: "none", Mounts: []sandbox.Mount{{Source: dir, Target: "/x", Steady: true}}, Tmpfs: []string{"/opt"}, Runtime: "other", Profile: "default",
		}
		if diff := cmp.Diff(want, q); diff != "" {
			t.Error(diff)
		}
	})
}

// Questions that wait took the places of commands that would run, and one caller's those of all others.
func TestQuestionsTakeNoPlace(t *testing.T) {
	const most, ofOne = 64, 48
	bubble(t, nil, func(t *testing.T, s *stage) {
		l := s.runner()
		l.Admission = sandbox.Admission{MaxRunning: 1, MaxQueued: 1}
		asks(l, patient{})
		l.Profiles["free"] = profile()
		var all sync.WaitGroup
		ask := func(n int, by sandbox.Caller) {
			for range n {
				all.Go(func() {
					if _, err := l.Prepare(t.Context(), sandbox.Command{Script: "git", Caller: by}); sandbox.CauseOf(err) != sandbox.CauseDenied {
						t.Errorf("asked: %v", err)
					}
				})
			}
			synctest.Wait()
		}
		busy := func(by sandbox.Caller, why string) {
			t.Helper()
			_, err := l.Prepare(t.Context(), sandbox.Command{Script: "git", Caller: by})
			if e, ok := errors.AsType[*sandbox.Error](err); !ok || e.Cause != sandbox.CauseBusy || e.RetryAfter != time.Minute || e.Message != why {
				t.Errorf("one more: %v", err)
			}
		}
		ann := sandbox.Caller{FrontEnd: "http", Token: "ann"}
		ask(ofOne, ann)
		ann.FrontEnd = "mcp"
		busy(ann, "busy: 48 commands of this caller already wait for approval")
		ask(most-ofOne, sandbox.Caller{FrontEnd: "http", Token: "ben"})
		succeeds(t, l, sandbox.Command{Script: "ls", Profile: "free"})
		busy(sandbox.Caller{FrontEnd: "http", Token: "cat"}, "busy: 64 commands already wait for approval")
		all.Wait()
		l.Approver = &approver{answer: sandbox.AnswerOnce}
		succeeds(t, l, sandbox.Command{Script: "git", Caller: ann})
	})
}

// patient never answers.
type patient struct{}

func (patient) Approve(ctx context.Context, _ sandbox.Question) (sandbox.Approval, error) {
	<-ctx.Done()
	return sandbox.Approval{}, ctx.Err()
}

func TestDescription(t *testing.T) {
	for text, ok := range map[string]bool{"": true, "one\ntwo": true, strings.Repeat("x", 1000): true, strings.Repeat("x", 1001): false, "\xff": false} {
		_, err := newLocal(playing(nil)).Prepare(t.Context(), sandbox.Command{Script: "x", Description: text})
		if (err == nil) != ok || !ok && sandbox.CauseOf(err) != sandbox.CauseInvalid {
			t.Errorf("%d bytes: %v", len(text), err)
		}
	}
}
