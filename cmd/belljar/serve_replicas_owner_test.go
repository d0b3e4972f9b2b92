package main

import (
	"testing"

	"belljar/cmd/internal/executions"
	"belljar/cmd/internal/replicas"
	"belljar/sandbox/local"
)

// Once a bug: a replica gave a session that it took over to whom it remembered from an earlier one of that name.
func TestTakeOverSetsTheOwner(t *testing.T) {
	r := &replica{owners: &executions.Owners{Dir: t.TempDir()}, runner: &local.Local{}}
	r.runner.StateDir = t.TempDir()
	for _, remembered := range []string{"ben", ""} {
		if err := r.owners.Set("dev", remembered); err != nil {
			t.Fatal(err)
		}
		for _, k := range []replicas.Kept{{Owner: "ann"}, {Owner: "ann", State: `{"session":"dev"}`}, {State: `{"session":"dev"}`}} {
			if err := r.TakeOver(t.Context(), "dev", k); err != nil || r.Owner("dev") != k.Owner {
				t.Errorf("%v: %q has %+v", err, r.Owner("dev"), k)
			}
		}
	}
}
