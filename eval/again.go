package eval

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"belljar/eval/run"
	"belljar/eval/suite"
)

// again grades the artifacts of an earlier run's trial once more.
func (t *trial) again(ctx context.Context) outcome {
	key := run.Key{Task: t.task.ID, Trial: t.number}
	before, ended := t.harness.earlier[key]
	switch {
	case !ended || before.Verdict == run.Skipped:
		return outcome{verdict: run.Skipped, message: "it has not ended in the earlier run"}
	case !before.Sealed:
		return outcome{verdict: run.Skipped, message: "it was graded in the container in which the solution was made, which is gone"}
	case !graded(before):
		return outcome{verdict: run.Skipped, message: "nothing was graded in the earlier run: " + before.Message}
	}
	made, err := t.kept(key, before.Artifacts)
	if err != nil {
		return infrastructure(run.Collect, err)
	}
	if out := t.keep(made); out.verdict != "" {
		return out
	}
	if len(t.task.Steps.List) > 0 {
		return t.stepsAgain(ctx, made, before.Steps)
	}
	return t.judge(ctx, made)
}

// graded reports whether all that the trial came to was graded: of several steps each that ran. What the infrastructure
// failed has no verdict that another could differ from.
func graded(r run.Result) bool {
	if !r.Final() {
		return false
	}
	verified := func(step string) bool {
		return slices.ContainsFunc(r.Phases, func(p run.Phase) bool { return p.Name == run.Verify && p.Step == step })
	}
	if len(r.Steps) == 0 {
		return verified("")
	}
	return !slices.ContainsFunc(r.Steps, func(s run.Step) bool { return !verified(s.Name) })
}

// kept are the artifacts that the earlier run has of a trial, if they are what was graded then.
func (t *trial) kept(key run.Key, want []run.Artifact) (artifacts, error) {
	d := t.harness.Earlier
	name, err := filepath.Rel(d.Path, d.ArtifactsFile(key))
	if err != nil {
		return nil, err
	}
	f, err := d.Open(filepath.ToSlash(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is missing", filepath.Join(d.Path, name))
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	declared := append(slices.Clone(t.task.Artifacts), suite.Artifact{Path: suite.LogsDir})
	if len(t.task.Steps.List) > 0 {
		declared = []suite.Artifact{{Path: "/" + suite.StepsDir}}
	}
	made, refused, err := unpacked(f, declared, len(t.task.Steps.List))
	if err != nil {
		return nil, fmt.Errorf("%s is not one that belljar wrote: %w", f.Name(), err)
	}
	if len(refused) > 0 {
		return nil, fmt.Errorf("%s is not one that belljar wrote: it has %q", f.Name(), refused)
	}
	have := made.list()
	for _, w := range want {
		if !slices.Contains(have, w) {
			return nil, fmt.Errorf("artifact %s in %s is not the one that was graded: it has another digest or mode, or is missing", w.Path, f.Name())
		}
	}
	if len(have) != len(want) {
		return nil, fmt.Errorf("%s has %d files, and %d were graded", f.Name(), len(have), len(want))
	}
	return made, nil
}
