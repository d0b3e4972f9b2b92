package owned

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"belljar/cmd/internal/access"
	"belljar/cmd/internal/executions"
	"belljar/cmd/internal/problem"
	"belljar/sandbox"
)

// maxOwned is how many sessions have an owner before those that are gone are forgotten. A
// caller may name as many as it likes.
const maxOwned = 2000

// claim makes the caller the owner of a session that no one has.
func (t Things) claim(ctx context.Context, who access.Identity, name string) error {
	if name == "" {
		return nil
	}
	if err := t.fetch(ctx, name, true); err != nil {
		return err
	}
	owner, err := t.Owners.Of(name)
	if err != nil {
		return err
	}
	if owner != "" && !who.Owns(owner) || owner == "" && t.Owners.Count() >= maxOwned {
		if err := t.ForgetSessions(ctx); err != nil {
			return err
		}
		if owner, err = t.Owners.Of(name); err != nil {
			return err
		}
	}
	if owner == "" {
		if err := t.unclaimed(ctx, who, name); err != nil {
			return err
		}
	}
	if owner, err = t.Owners.Claim(name, who.Name); err == nil && !who.Owns(owner) {
		err = nameTaken(name)
	}
	return err
}

// unclaimed refuses a session that exists and has no owner, as one that was made on the
// command line, and one more than can be recorded.
func (t Things) unclaimed(ctx context.Context, who access.Identity, name string) error {
	if t.Owners.Count() >= maxOwned {
		return &sandbox.Error{Cause: sandbox.CauseBusy, Message: "there are too many sessions", Hint: "remove some"}
	}
	if who.Can(access.Admin) {
		return nil
	}
	list, err := t.Sessions.Sessions(ctx)
	if err == nil && has(list, name) {
		err = nameTaken(name)
	}
	return err
}

func nameTaken(name string) error {
	return problem.New(problem.Conflict, fmt.Sprintf("the session name %q is taken", name), "choose another name")
}

// ForgetSessions forgets whose those were that are gone.
func (t Things) ForgetSessions(ctx context.Context) error {
	idle, err := t.Owners.Idle(t.Book.Uses)
	if err != nil {
		return err
	}
	list, err := t.Sessions.Sessions(ctx)
	if err != nil {
		return err
	}
	return t.Owners.Forget(idle, func(name string) bool { return has(list, name) })
}

// Session is the caller's.
func (t Things) Session(ctx context.Context, scope access.Scope, name string) (info sandbox.SessionInfo, err error) {
	defer t.Owners.Use(name)()
	if _, err := access.Need(ctx, scope); err != nil {
		return info, err
	}
	if err := t.fetch(ctx, name, false); err != nil {
		return info, err
	}
	list, err := t.List(ctx, scope)
	if err != nil {
		return info, err
	}
	i := slices.IndexFunc(list, func(i sandbox.SessionInfo) bool { return i.Name == name })
	if i < 0 {
		return info, noSession(name)
	}
	return list[i], nil
}

// List is the caller's sessions.
func (t Things) List(ctx context.Context, scope access.Scope) (own []sandbox.SessionInfo, err error) {
	who, err := access.Need(ctx, scope)
	if err != nil {
		return nil, err
	}
	list, owners, err := t.sessions(ctx)
	if err != nil {
		return nil, err
	}
	own = []sandbox.SessionInfo{}
	for _, info := range list {
		if who.Owns(owners[info.Name]) {
			own = append(own, info)
		}
	}
	return own, nil
}

// looks is how often sessions looks for a moment at which no one makes or ends one.
const looks = 5

// sessions are all, with their owners at the same moment: a name that was given away meanwhile
// must not show one caller's session to the next. One that never comes to rest is left out.
func (t Things) sessions(ctx context.Context) (list []sandbox.SessionInfo, owners map[string]string, err error) {
	before, err := t.Owners.All()
	for range looks {
		if err == nil {
			list, err = t.Sessions.Sessions(ctx)
		}
		if err == nil {
			owners, err = t.Owners.All()
		}
		if err != nil || maps.Equal(before, owners) {
			return list, owners, err
		}
		before, owners = owners, before
	}
	return slices.DeleteFunc(list, func(i sandbox.SessionInfo) bool { return before[i.Name] != owners[i.Name] }), owners, nil
}

// OpenSession makes the command's session, if there is none, by running what does nothing in it:
// the first command of a session makes it.
func (t Things) OpenSession(ctx context.Context, who access.Identity, c sandbox.Command, r executions.Request) error {
	defer t.Owners.Use(c.Session)()
	if err := t.Admit(ctx, who, c); err != nil {
		return err
	}
	c.Script = ":"
	x, err := t.Book.Start(ctx, c, r)
	if err != nil {
		return err
	}
	result, err := x.Result(ctx)
	switch {
	case err != nil || result.Status == sandbox.StatusSuccess:
		return err
	case result.Error != nil:
		return result.Error
	}
	return &sandbox.Error{Cause: sandbox.CauseEngine, Message: fmt.Sprintf("the session cannot run commands: %s", result.Message), Hint: "see the result of execution " + x.ID}
}

// EndSession ends the caller's session, with all that runs in it.
func (t Things) EndSession(ctx context.Context, name string) error {
	if err := t.end(ctx, name); err != nil {
		return err
	}
	return t.ForgetSessions(ctx)
}

func (t Things) end(ctx context.Context, name string) error {
	defer t.Owners.Use(name)()
	if _, err := t.Session(ctx, access.Run, name); err != nil {
		return err
	}
	return t.Sessions.RemoveSession(ctx, name)
}

// At is a path of a session that is the caller's, for as long as Owners.Use says.
func (t Things) At(ctx context.Context, scope access.Scope, name, path string) (sandbox.SessionPath, error) {
	who, err := access.Need(ctx, scope)
	if err != nil {
		return sandbox.SessionPath{}, err
	}
	if err := t.fetch(ctx, name, false); err != nil {
		return sandbox.SessionPath{}, err
	}
	owner, err := t.Owners.Of(name)
	if err == nil && !who.Owns(owner) {
		err = noSession(name)
	}
	return sandbox.SessionPath{Session: name, Path: path, Caller: sandbox.Caller{FrontEnd: t.FrontEnd, Token: who.Name}}, err
}

// FileProblem is why nothing was done with a session's file. A session that is gone, or a file
// that does not exist, is not found.
func (t Things) FileProblem(ctx context.Context, name string, err error) *problem.Problem {
	p := problem.Of(err)
	if errors.Is(err, fs.ErrNotExist) {
		return problem.New(problem.NotFound, p.Detail, "list the files that are there")
	}
	if p.Status != http.StatusUnprocessableEntity {
		return p
	}
	if list, failed := t.Sessions.Sessions(ctx); failed == nil && !has(list, name) {
		return noSession(name)
	}
	return p
}

func noSession(name string) *problem.Problem {
	return problem.New(problem.NotFound, fmt.Sprintf("no session %.80q", name), "list your sessions")
}

func has(list []sandbox.SessionInfo, name string) bool {
	return slices.ContainsFunc(list, func(i sandbox.SessionInfo) bool { return i.Name == name })
}

// ParseMode reads a file's permissions; "" is 0644.
func ParseMode(text string) (fs.FileMode, error) {
	if text == "" {
		return 0o644, nil
	}
	mode, err := strconv.ParseUint(text, 8, 9)
	if err != nil {
		return 0, sandbox.Invalid("write permissions in octal, such as 0644", "mode %.20q", text)
	}
	return fs.FileMode(mode), nil
}
