// Package access decides who may call the sidecar, and how much of it at once.
//
// The one rule: a request has an Identity before any other code sees it, and what is
// doubtful is refused. A wrong token is never taken for none.
//
//	var tokens access.Tokens
//	err := tokens.Load(path)
//	guard := &access.Guard{Tokens: &tokens, Hosts: []string{"belljar.internal"}}
//	handler := guard.Wrap(access.Bounds{Requests: 1024, Body: 64 << 20}.Wrap(api))
//	// in a handler of the API:
//	who := access.FromContext(r.Context())
//	if !who.Can(access.Run) { … }
//
// # Design
//
// The unix socket's file decides who may connect to it, so a token is not needed there.
// A web page can make a browser call servers of its own machine and network: by its
// origin, which browsers report, and by a name of its own that leads to them (DNS
// rebinding), which is in the Host header. Both are checked before any token.
package access

import (
	"context"
	"fmt"
	"slices"

	"belljar/cmd/internal/problem"
	"belljar/sandbox"
)

// Scope is a part of the API.
type Scope string

// The scopes. Admin includes the others, and Run includes Read.
const (
	Run     Scope = "run"     // executions, sessions and files of one's own
	Read    Scope = "read"    // only to look at them
	Approve Scope = "approve" // answer questions about commands
	Metrics Scope = "metrics" // only /metrics
	Admin   Scope = "admin"   // what is another's, images, pools, the audit log
)

var scopes = []Scope{Run, Read, Approve, Metrics, Admin}

// anyProfile is the name that stands for every profile.
const anyProfile = "*"

// Identity is who calls. The zero Identity may do nothing.
type Identity struct {
	Name     string // the owner of what it makes
	Scopes   []Scope
	Profiles []string
}

// Local is who opened the unix socket without a token.
var Local = Identity{Name: "local", Scopes: scopes, Profiles: []string{anyProfile}}

// Can reports whether the identity may use that part of the API.
func (i Identity) Can(scope Scope) bool {
	return slices.Contains(i.Scopes, scope) || slices.Contains(i.Scopes, Admin) ||
		scope == Read && slices.Contains(i.Scopes, Run)
}

// MayUse reports whether the identity may run commands with the profile. "" is the
// default profile.
func (i Identity) MayUse(profile string) bool {
	if profile == "" {
		profile = sandbox.DefaultProfile
	}
	return slices.Contains(i.Profiles, profile) || slices.Contains(i.Profiles, anyProfile)
}

// Owns reports whether what belongs to owner is the identity's to see.
func (i Identity) Owns(owner string) bool { return i.Name == owner || i.Can(Admin) }

// Need is the identity of the request with that context. It refuses one without the scope.
func Need(ctx context.Context, scope Scope) (Identity, error) {
	who := FromContext(ctx)
	if !who.Can(scope) {
		return who, problem.New(problem.Forbidden, fmt.Sprintf("this needs the scope %q", scope), "use a token with that scope: serve.token_file")
	}
	return who, nil
}

type identityKey struct{}

// FromContext is the identity of the request with that context.
func FromContext(ctx context.Context) Identity {
	i, _ := ctx.Value(identityKey{}).(Identity)
	return i
}

// With is ctx with the identity.
func With(ctx context.Context, i Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, i)
}
