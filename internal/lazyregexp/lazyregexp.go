// Package lazyregexp is for regular expressions that most runs of belljar do not need: they
// are compiled when they are first used. To compile all of them took a tenth of the time
// that `belljar run` takes at a sidecar.
package lazyregexp

import (
	"regexp"
	"sync"
)

// Regexp is a regular expression. A wrong one panics when it is first used.
type Regexp struct {
	expr string
	get  func() *regexp.Regexp
}

// New does not compile yet.
func New(expr string) *Regexp {
	return &Regexp{expr, sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })}
}

// String is the expression.
func (r *Regexp) String() string { return r.expr }

// Get is the compiled expression.
func (r *Regexp) Get() *regexp.Regexp { return r.get() }

// MatchString is regexp.Regexp's.
func (r *Regexp) MatchString(s string) bool { return r.get().MatchString(s) }

// FindString is regexp.Regexp's.
func (r *Regexp) FindString(s string) string { return r.get().FindString(s) }

// FindStringSubmatch is regexp.Regexp's.
func (r *Regexp) FindStringSubmatch(s string) []string { return r.get().FindStringSubmatch(s) }
