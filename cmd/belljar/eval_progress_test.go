package main

import (
	"path/filepath"
	"testing"
	"time"

	evalrun "belljar/eval/run"
)

// A run that is resumed has what is left to do, not what was done before: its line would never come to the end.
func TestUnfinished(t *testing.T) {
	r := evalrun.Run{Version: evalrun.Version, ID: "unfinished", Started: time.Now(), Trials: 5, Tasks: []evalrun.Task{{ID: "a"}}}
	d, err := evalrun.Create(filepath.Join(t.TempDir(), "run"), r)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for i, one := range []evalrun.Result{
		{Verdict: evalrun.Passed}, {Verdict: evalrun.Error, Side: evalrun.ByTask}, {Verdict: evalrun.Error, Side: evalrun.Infrastructure}, {Verdict: evalrun.Skipped},
	} {
		one.Task, one.Trial = "a", i+1
		if err := d.Add(one); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := unfinished(d, 5); left != 3 || err != nil {
		t.Errorf("%d are left, %v", left, err)
	}
}
