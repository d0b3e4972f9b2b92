// Package owned is what a server's callers may use: executions, sessions and files of
// their own, with profiles that their token allows. The HTTP API and the MCP server share it.
//
// The one rule: what is another's does not exist. A caller who asks for it gets the same
// answer as one who asks for what never was.
//
//	o := owned.Things{Book: book, Owners: owners, Sessions: runner, Files: runner, …}
//	x, err := o.Execution(ctx, access.Read, id)
package owned

import (
	"context"
	"path"

	"belljar/cmd/internal/access"
	"belljar/cmd/internal/executions"
	"belljar/cmd/internal/problem"
	"belljar/sandbox"
)

// Things are all callers'. Each method looks at the context's access.Identity.
type Things struct {
	Book     *executions.Book
	Owners   *executions.Owners
	Sessions sandbox.Sessions
	Files    sandbox.Files
	Profiles func() map[string]sandbox.Profile
	FrontEnd string // for the audit log

	// Fetch makes a session one of this server's, where others have sessions, too; with starts also one that there is not yet.
	// nil: all are here.
	Fetch func(ctx context.Context, session string, starts bool) error
}

func (t Things) fetch(ctx context.Context, session string, starts bool) error {
	if t.Fetch == nil || session == "" {
		return nil
	}
	return t.Fetch(ctx, session, starts)
}

// CheckProfile refuses a profile that the caller may not use.
func CheckProfile(who access.Identity, profile string) error {
	if who.MayUse(profile) {
		return nil
	}
	return problem.New(problem.Forbidden, "the token may not use this profile", "use one of the token's profiles: serve.token_file")
}

// Admit checks that the caller may run the command, and makes the caller the owner of its
// session. Owners.Use comes first.
func (t Things) Admit(ctx context.Context, who access.Identity, c sandbox.Command) error {
	if err := CheckProfile(who, c.Profile); err != nil {
		return err
	}
	return t.claim(ctx, who, c.Session)
}

// Execution is the caller's.
func (t Things) Execution(ctx context.Context, scope access.Scope, id string) (*executions.Execution, error) {
	who, err := access.Need(ctx, scope)
	if err != nil {
		return nil, err
	}
	x, err := t.Book.Find(id)
	if err == nil && !who.Owns(x.Owner) {
		return nil, executions.NotFound(id)
	}
	return x, err
}

// Judge is what the policy says about a script, without running it.
func (t Things) Judge(ctx context.Context, profile, script, dir, shell string) (v sandbox.Verdict, err error) {
	who, err := access.Need(ctx, access.Run)
	if err != nil {
		return v, err
	}
	if profile == "" {
		profile = sandbox.DefaultProfile
	}
	p, known := t.Profiles()[profile]
	err = CheckProfile(who, profile)
	switch {
	case err != nil:
		return v, err
	case !known:
		return v, sandbox.Invalid("list your profiles", "no profile %.80q", profile)
	case len(script) > sandbox.MaxScript:
		return v, sandbox.Invalid("pass a script as a file", "command has %d bytes, over %d", len(script), sandbox.MaxScript)
	case p.Policy == nil:
		return sandbox.Verdict{Decision: sandbox.Allow, Reason: "the profile has no policy"}, nil
	}
	if !path.IsAbs(dir) {
		dir = path.Join(p.Workdir, dir)
	}
	if shell == "" {
		shell = sandbox.ShellSh
	}
	return p.Policy.JudgeScript(script, dir, shell), nil
}
