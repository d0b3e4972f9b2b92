package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Prepared is a command that may run: it was checked, judged, approved where
// its policy wants that, and the audit says so.
type Prepared struct {
	local    *Local
	command  Command
	profile  Profile
	secrets  []string // "NAME=value"
	standing standing
	notices  []string
}

// Prepare does all that comes before a command runs, so that of several none
// need run unless all may. It waits for a person where the policy says ask.
func (l *Local) Prepare(ctx context.Context, c Command) (*Prepared, error) {
	l.open()
	p, err := l.profile(c.Profile)
	if err != nil {
		return nil, err
	}
	if c, err = l.complete(c, p); err == nil {
		// Judged by one that is let in: it takes a while, of a long script.
		if err = l.admission.enter(l.Admission); err == nil {
			defer l.admission.leave()
			return l.judge(ctx, c, p)
		}
	}
	if CauseOf(err) == CauseDenied {
		err = l.deny(c, c.decided(Verdict{Reason: reason(err)}, nil, p), err)
	}
	return nil, err
}

// complete checks a command, and fills what it leaves open.
func (l *Local) complete(c Command, p Profile) (Command, error) {
	relative := c.Dir != "" && !path.IsAbs(c.Dir)
	if relative {
		if !filepath.IsLocal(c.Dir) {
			return c, invalid("name one in the workspace, such as sub/dir", "working directory %q leaves the workspace", c.Dir)
		}
		c.Dir = path.Join(p.Workdir, c.Dir)
	}
	c = c.withDefaults(p)
	if err := c.validate(p); err != nil {
		return c, err
	}
	if c.Session != "" && l.StateDir == "" {
		return c, invalid("set HOME or XDG_STATE_HOME", "session %q: there is no directory to remember it in", c.Session)
	}
	if err := l.checkView(c); err != nil {
		return c, err
	}
	if l.Viewer != nil {
		c.View.Charset = l.Viewer.Charset(c.View.Charset)
	}
	env, err := environ(c, p)
	if err != nil {
		return c, err // with what was asked for
	}
	c.Env = env
	mounts, err := resolveMounts(c.Mounts, p.Policy)
	if err != nil {
		return c, err
	}
	c.Mounts = mounts
	if relative {
		return c, c.checkWorkspace()
	}
	return c, nil
}

// judge asks the policy and, where that asks, a person.
func (l *Local) judge(ctx context.Context, c Command, p Profile) (*Prepared, error) {
	v := Verdict{Decision: Allow, Reason: "the profile has no policy"}
	if p.Policy != nil {
		v = p.Policy.JudgeScript(c.Script, c.Dir)
	}
	prepared := &Prepared{local: l, profile: p}
	var refusal error
	var approval *Approval
	switch v.Decision {
	case Allow:
	case Ask:
		var a Approval
		if a, prepared.standing, refusal = l.approve(ctx, c, p, v); refusal == nil {
			v.Decision = Allow
		} else {
			v.Decision = Deny
		}
		approval = &a
	default:
		refusal = denial(c.Script, v, "the command policy denies it")
	}
	var secrets []Secret
	if refusal == nil {
		var narrowed []string
		if c, narrowed = c.narrow(v.Grant); len(narrowed) > 0 {
			prepared.notice("the command policy narrows it: %s", strings.Join(narrowed, ", "))
		}
		if len(v.Withheld) > 0 {
			prepared.notice("the command policy withholds %s: a rule gives it, but not those of all commands in the script", strings.Join(v.Withheld, ", "))
		}
		if refusal = c.checkLimits(); refusal == nil {
			secrets, refusal = c.granted(p, v.Grant)
		}
		if refusal != nil {
			v.Decision, v.Reason = Deny, reason(refusal)
		}
	}
	if refusal != nil {
		return nil, l.deny(c, c.decided(v, approval, p), refusal)
	}
	problem, err := l.audit(c, c.decided(v, approval, p))
	if err != nil {
		return nil, err
	}
	if problem != nil {
		prepared.notice("the audit has no record of it: %v", problem)
	}
	if prepared.secrets, err = l.fetch(ctx, secrets); err == nil {
		err = c.checkDelivery(prepared.secrets)
	}
	if err != nil {
		l.audit(c, ended(Refused(c, err))) // it has a decision
		return nil, err
	}
	prepared.command = c
	return prepared, nil
}

func (p *Prepared) notice(format string, args ...any) {
	p.notices = append(p.notices, fmt.Sprintf(format, args...))
}

// reason is a refusal without its hint, for the audit.
func reason(refusal error) string {
	if e, ok := errors.AsType[*Error](refusal); ok {
		bare := *e
		bare.Hint = ""
		return bare.Error()
	}
	return refusal.Error()
}

// Start runs the command. Cancelling ctx ends it. It is called once.
func (p *Prepared) Start(ctx context.Context) (Execution, error) {
	if err := p.local.admission.enter(p.local.Admission); err != nil {
		p.local.audit(p.command, ended(Refused(p.command, err))) // it was allowed; it does not run in any case
		return nil, err
	}
	return start(ctx, p), nil
}

// narrow gives the command no more than the grant has, and says what changed.
func (c Command) narrow(g Grant) (_ Command, changed []string) {
	narrower(&changed, "timeout", &c.Timeout, g.Timeout)
	if c.IdleTimeout == NoIdleTimeout && g.IdleTimeout > 0 {
		c.IdleTimeout = time.Duration(1<<63 - 1)
	}
	narrower(&changed, "idle timeout", &c.IdleTimeout, g.IdleTimeout)
	narrower(&changed, "memory", &c.Limits.Memory, g.Limits.Memory)
	narrower(&changed, "cpus", &c.Limits.CPUs, g.Limits.CPUs)
	narrower(&changed, "pids", &c.Limits.Pids, g.Limits.Pids)
	narrower(&changed, "output", &c.Limits.Output, g.Limits.Output)
	narrower(&changed, "tmp", &c.Limits.Tmp, g.Limits.Tmp)
	narrower(&changed, "files", &c.Limits.Files, g.Limits.Files)
	if g.Network != "" && c.Network != g.Network {
		c.Network = g.Network
		changed = append(changed, "network "+g.Network)
	}
	return c, append(changed, c.narrowMounts(g.Mounts)...)
}

func narrower[T int64 | float64 | time.Duration](changed *[]string, name string, field *T, most T) {
	if most > 0 && *field > most {
		*field = most
		*changed = append(*changed, fmt.Sprintf("%s %v", name, most))
	}
}

func (c *Command) narrowMounts(g MountGrant) (changed []string) {
	if len(c.Mounts) == 0 {
		return nil
	}
	switch g {
	case NoMounts:
		c.Mounts = nil
		return []string{"no mounts"}
	case ReadOnlyMounts:
		for i := range c.Mounts { // a copy, made by resolveMounts
			if c.Mounts[i].Writable {
				c.Mounts[i].Writable = false
				changed = []string{"mounts read-only"}
			}
		}
	}
	return changed
}

// checkWorkspace sees to it that a directory of the workspace is one, and in
// it. What is mounted can be looked at; what is in the container itself only
// shows when the command starts.
func (c Command) checkWorkspace() error {
	var over Mount // the innermost
	for _, m := range c.Mounts {
		if within(m.Target, c.Dir) && len(m.Target) > len(over.Target) {
			over = m
		}
	}
	if over.Target == "" {
		return nil
	}
	name, err := filepath.Rel(over.Target, c.Dir)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(over.Source)
	if err != nil {
		return &Error{Cause: CauseInvalid, Message: fmt.Sprintf("looking at the mount source %q", over.Source), Err: err}
	}
	defer root.Close()
	info, err := root.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return invalid("name one that is there", "working directory %q does not exist in %q", c.Dir, over.Source)
	case err != nil:
		return &Error{Cause: CauseDenied, Message: fmt.Sprintf("working directory %q", c.Dir), Err: err, Hint: "it must not leave the workspace, not by a link either"}
	case !info.IsDir():
		return invalid("name a directory", "working directory %q is a file", c.Dir)
	}
	return nil
}
