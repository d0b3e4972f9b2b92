package receipt

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What was signed once is not signed again as something else.
func TestFollows(t *testing.T) {
	t.Parallel()
	private, public := newKey(t)
	d := ran(t)
	signed := made(t, d)
	text, err := signed.Sign(t.Context(), private)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "receipt.json")
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := made(t, d).FollowsFile(t.Context(), name, public); err != nil {
		t.Errorf("unchanged: %v", err)
	}
	edited := *signed
	edited.Subject = append([]Resource{}, signed.Subject...)
	changed := ""
	for i, r := range edited.Subject {
		if what, of := kind(r.Name); what == "result line" && strings.Contains(strings.Join(append(signed.Predicate.Passed, signed.Predicate.Failed...), " "), of) {
			edited.Subject[i].Digest, changed = digest(sum("another")), of
			break
		}
	}
	if err := edited.FollowsFile(t.Context(), name, public); err == nil || changed == "" || !strings.Contains(err.Error(), "result line "+changed+" is not the one that the run's earlier receipt has") {
		t.Errorf("%q changed: %v", changed, err)
	}
	other := edited
	other.Predicate.Run = "another"
	if err := other.FollowsFile(t.Context(), name, public); err != nil {
		t.Errorf("another run: %v", err)
	}
	if _, stranger := newKey(t); edited.FollowsFile(t.Context(), name, stranger) != nil || edited.FollowsFile(t.Context(), name+".no", public) != nil {
		t.Error("a receipt of someone else's, or none, is followed")
	}
}
