package local

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"belljar/internal/limits"
	"belljar/internal/names"
	"belljar/sandbox"

	"go.opentelemetry.io/otel/trace"
)

// prepared is a command that may run: it was checked, judged, approved if the policy
// requires that, and recorded in the audit log.
type prepared struct {
	local     *Local
	command   sandbox.Command
	narrowing narrowing
	profile   sandbox.Profile
	secrets   []sandbox.Secret
	approval  sessionApproval
	judgment  *sandbox.Judgment
	notices   []string
	callerEnv []string // of the environment: see Question.Env
	span      trace.Span
}

// Prepare implements sandbox.Preparer.
func (l *Local) Prepare(ctx context.Context, c sandbox.Command) (sandbox.Prepared, error) {
	p, err := l.prepare(ctx, c)
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (l *Local) prepare(ctx context.Context, c sandbox.Command) (*prepared, error) {
	l.open()
	ctx, span := traced(ctx)
	p, err := l.mayRun(ctx, c)
	if err != nil {
		endRefused(span, err)
		return nil, err
	}
	p.span = span
	return p, nil
}

// mayRun checks a command and gets the decision about it.
func (l *Local) mayRun(ctx context.Context, c sandbox.Command) (*prepared, error) {
	p, err := l.profile(c.Profile)
	if err != nil {
		return nil, err
	}
	if p.Policy, err = narrowed(p.Policy, c.Rules); err != nil {
		return nil, err
	}
	c, callerEnv, err := l.complete(c, p)
	if err == nil {
		c, err = l.chooseShell(ctx, c)
	}
	if err == nil {
		named(ctx, c)
		ctx, span := step(ctx, spanPolicy)
		ready, err := l.judge(ctx, c, callerEnv, p)
		endStep(span, err)
		return ready, err
	}
	if sandbox.CauseOf(err) == sandbox.CauseDenied {
		v := sandbox.Verdict{Reason: reason(err)}
		err = l.deny(c, decisionRecord(c, v, nil, p), judged(err, v, nil))
	}
	return nil, err
}

// complete checks a command, and fills unset fields. It returns which variables of the
// environment are the caller's.
func (l *Local) complete(c sandbox.Command, p sandbox.Profile) (_ sandbox.Command, callerEnv []string, err error) {
	relative := c.Dir != "" && !path.IsAbs(c.Dir)
	if relative {
		if !filepath.IsLocal(c.Dir) {
			return c, nil, sandbox.Invalid("name a directory below it, such as sub/dir", "working directory %q is outside workdir", c.Dir)
		}
		c.Dir = path.Join(p.Workdir, c.Dir)
	}
	c = commandDefaults(c, p)
	if err := validate(c, p); err != nil {
		return c, nil, err
	}
	if c.User.Name != "" {
		c.User, _ = names.ParseUser(c.User.Name) // ignores any numbers that came with it
	}
	if c.Session != "" && l.StateDir == "" {
		return c, nil, sandbox.Invalid("set HOME or XDG_STATE_HOME", "session %q: there is no state directory", c.Session)
	}
	if err := l.checkView(c); err != nil {
		return c, nil, err
	}
	if l.Viewer != nil {
		c.View.Charset = l.Viewer.Charset(c.View.Charset)
	}
	env, callerEnv, err := environ(c, p)
	if err != nil {
		return c, nil, err // with the mounts as requested
	}
	c.Env = env
	mounts, err := resolveMounts(c.Mounts, p.Policy)
	if err != nil {
		return c, nil, err
	}
	c.Mounts = mounts
	if err := checkVolumeUser(c, p.User); err != nil {
		return c, nil, err
	}
	return c, callerEnv, checkMountedDir(c, relative)
}

// judge asks the policy and, if that requires it, a person to approve the command as the
// policy leaves it.
func (l *Local) judge(ctx context.Context, c sandbox.Command, callerEnv []string, p sandbox.Profile) (*prepared, error) {
	v, err := l.verdict(c, p)
	if err != nil {
		return nil, err
	}
	ready := &prepared{local: l, profile: p, command: c, callerEnv: callerEnv}
	var approval *sandbox.Approval
	var refusal error
	if v.Decision != sandbox.Allow && v.Decision != sandbox.Ask {
		refusal = denial(c.Script, v, "denied by policy")
	} else if refusal = ready.grant(v); refusal != nil {
		v.Decision, v.Reason = sandbox.Deny, reason(refusal)
	}
	if refusal == nil && v.Decision == sandbox.Ask {
		var a sandbox.Approval
		if a, ready.approval, refusal = l.approve(ctx, ready, v); refusal == nil {
			v.Decision = sandbox.Allow
		} else {
			v.Decision = sandbox.Deny
		}
		approval = &a
	}
	c = ready.command
	if refusal != nil {
		return nil, l.deny(c, decisionRecord(c, v, approval, p), judged(refusal, v, approval))
	}
	ready.judgment = judgment(v, approval)
	problem, err := l.audit(c, decisionRecord(c, v, approval, p))
	if err != nil {
		return nil, err
	}
	if problem != nil {
		ready.notice("the audit log has no record of it: %v", problem)
	}
	return ready, nil
}

// verdict asks the policy. The command holds a place in the queue meanwhile, as a long
// script takes a while; it holds none while a person is asked.
func (l *Local) verdict(c sandbox.Command, p sandbox.Profile) (sandbox.Verdict, error) {
	if err := l.admission.admit(l.Admission); err != nil {
		return sandbox.Verdict{}, err
	}
	defer l.admission.release()
	if p.Policy == nil {
		return sandbox.Verdict{Decision: sandbox.Allow, Reason: "the profile has no policy"}, nil
	}
	return p.Policy.JudgeScript(c.Script, c.Dir, c.Shell), nil
}

// grant reduces the command to what the policy allows, or refuses what is impossible
// with that.
func (p *prepared) grant(v sandbox.Verdict) (err error) {
	p.narrowing.asked, p.narrowing.root = p.command, p.profile.User.IsRoot()
	p.command, p.narrowing.taken = narrow(p.command, v.Grant)
	if words := limits.Narrows(p.narrowing.taken); len(words) > 0 {
		p.notice("policy restricts the command: %s", strings.Join(words, ", "))
	}
	if len(v.Withheld) > 0 {
		p.notice("policy withholds %s: not every command in the script has a rule that grants it", strings.Join(v.Withheld, ", "))
	}
	if err := limits.Check(p.command.Limits); err != nil {
		return err
	}
	if len(v.Commands) > 0 {
		if err := checkSteering(p.profile, p.callerEnv, "what the commands are that the policy judged"); err != nil {
			return err
		}
		if err := checkCharset(p.command, p.profile.Policy); err != nil {
			return err
		}
	}
	if p.secrets, err = grantedSecrets(p.command, p.profile, p.callerEnv, v.Grant); err != nil {
		return err
	}
	var names []string
	for _, s := range p.secrets {
		names = append(names, s.Name+"=")
	}
	return checkDelivery(p.command, names)
}

func (p *prepared) notice(format string, args ...any) {
	p.notices = append(p.notices, fmt.Sprintf(format, args...))
}

// reason is a refusal without its hint, for the audit.
func reason(refusal error) string {
	if e, ok := errors.AsType[*sandbox.Error](refusal); ok {
		bare := *e
		bare.Hint = ""
		return bare.Error()
	}
	return refusal.Error()
}

// Start implements sandbox.Prepared: it fetches the command's secrets, and runs it.
func (p *prepared) Start(ctx context.Context) (sandbox.Execution, error) {
	ctx = trace.ContextWithSpan(ctx, p.span)
	secrets, err := p.admit(ctx)
	if err != nil {
		endRefused(p.span, err)
		p.local.audit(p.command, endRecord(sandbox.Refused(p.command, err))) // its allow record is written; this one says that it did not run
		return nil, err
	}
	return start(ctx, p, secrets), nil
}

// admit takes a place in the queue, and returns the secrets' values.
func (p *prepared) admit(ctx context.Context) (secrets []string, err error) {
	l := p.local
	if err := l.admission.admit(l.Admission); err != nil {
		return nil, err
	}
	if secrets, err = l.fetch(ctx, p.secrets); err == nil {
		err = checkDelivery(p.command, secrets)
	}
	if err != nil {
		l.admission.release()
	}
	return secrets, err
}
