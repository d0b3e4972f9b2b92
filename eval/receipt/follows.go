package receipt

import (
	"context"
	"crypto/ed25519"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"belljar/sandbox"
)

// Follows refuses a statement in which the same run, or a trial that counted, is not as an earlier one
// has it: what was signed does not change by itself.
func (s *Statement) Follows(earlier *Statement) error {
	if s.Predicate.Run != earlier.Predicate.Run {
		return nil // of another run
	}
	is, p := sums(s.Subject), earlier.Predicate
	final := map[string]bool{}
	for _, test := range slices.Concat(p.Passed, p.Warned, p.Failed) {
		final[test] = true
	}
	for _, r := range earlier.Subject {
		what, name := kind(r.Name)
		if r.Name != "run.json" && !ofOne(final, what, name) || is[r.Name] == r.SHA256() {
			continue
		}
		return sandbox.Invalid("find out who changed it; to sign it all the same, remove that receipt", "%s %s is not the one that the run's earlier receipt has", what, name)
	}
	return nil
}

// ofOne reports whether a subject is of one of the tests. Their names may have what is between a test and its artifact.
func ofOne(tests map[string]bool, what, name string) bool {
	if what != "artifact" {
		return tests[name]
	}
	for i := range name {
		if strings.HasPrefix(name[i:], ":/") && tests[name[:i]] {
			return true
		}
	}
	return false
}

// FollowsFile is Follows, for the receipt in a file if there is one that this key signed.
func (s *Statement) FollowsFile(ctx context.Context, name string, key ed25519.PublicKey) error {
	about, err := os.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && (!about.Mode().IsRegular() || about.Size() > MaxEnvelope) {
		return nil // none that belljar wrote
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if earlier, err := Open(ctx, text, key); err == nil {
		return s.Follows(earlier)
	}
	return nil // of someone else
}
