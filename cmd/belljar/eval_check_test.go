package main

import (
	"testing"

	evalrun "belljar/eval/run"
)

// A task is in order if what it was tried with is known, and said something.
func TestChecked(t *testing.T) {
	held, idle := evalrun.Control{Name: "failing .py"}, evalrun.Control{Name: "failing .js", Passed: true, Skipped: "it says nothing"}
	for name, c := range map[string]struct {
		kind   evalrun.AgentKind
		result evalrun.Result
		fine   bool
	}{
		"passed":                      {evalrun.Oracle, evalrun.Result{Verdict: evalrun.Passed}, true},
		"failed":                      {evalrun.Oracle, evalrun.Result{Verdict: evalrun.Failed}, false},
		"the oracle was skipped":      {evalrun.Oracle, evalrun.Result{Verdict: evalrun.Skipped}, false},
		"nop failed":                  {evalrun.Nop, evalrun.Result{Verdict: evalrun.Failed}, true},
		"nop passed":                  {evalrun.Nop, evalrun.Result{Verdict: evalrun.Passed}, false},
		"nop was skipped":             {evalrun.Nop, evalrun.Result{Verdict: evalrun.Skipped}, false},
		"a language that no one uses": {evalrun.Oracle, evalrun.Result{Verdict: evalrun.Passed, Controls: []evalrun.Control{held, idle}}, true},
		"no language that one uses":   {evalrun.Oracle, evalrun.Result{Verdict: evalrun.Passed, Controls: []evalrun.Control{idle, idle}}, false},
		"another control":             {evalrun.Oracle, evalrun.Result{Verdict: evalrun.Passed, Controls: []evalrun.Control{held, {Name: "equality", Skipped: "x"}}}, false},
	} {
		if got := checked(c.kind, c.result); (got == "") != c.fine {
			t.Errorf("%s: %q", name, got)
		}
	}
}
