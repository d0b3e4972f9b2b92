package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"

	"belljar"
	"belljar/config"
	"belljar/eval"
	evalrun "belljar/eval/run"
	"belljar/eval/suite"
	"belljar/sandbox"
	"belljar/view"

	"github.com/spf13/cobra"
)

// newRunID names a run, and its containers.
func newRunID() string { return strings.ToLower(rand.Text()[:12]) }

// evaluation is a suite, and what runs it.
type evaluation struct {
	harness *eval.Harness
	close   func()
}

// open reads the suite, opens the engine, and completes what is to run.
func (f *evalFlags) open(ctx context.Context, g *globals, r *evalrun.Run) (*evaluation, error) {
	if err := errors.Join(textOrJSON(f.format), f.output.check()); err != nil {
		return nil, err
	}
	if g.sidecar() != "" {
		return nil, sandbox.Invalid("leave out --host and BELLJAR_HOST", "belljar eval does not run at a sidecar yet")
	}
	f.allow.options(&r.Options)
	whole, err := suite.Load(r.Suite.Paths, allowed(r.Options))
	tasks := whole
	if err == nil {
		tasks, err = filtered(whole, r.Options.Filter)
	}
	if err != nil {
		return nil, err
	}
	all := tasks // of all shards, of which digests are, too: merge compares them
	r.Suite.All = suite.Digest(all)
	tasks, err = shardOf(all, r.Options.Shard)
	if err != nil {
		return nil, err
	}
	var answers *suite.Answers
	if r.Agent.Kind == evalrun.Solutions {
		if answers, err = suite.LoadAnswers(r.Agent.Path, all); err != nil {
			return nil, err
		}
		r.Agent.SHA256, r.Notices = answers.SHA256, answers.Unused(whole, r.Trials)
	}
	var earlier *evalrun.Dir
	if r.Agent.Kind == evalrun.Regrade {
		if earlier, err = evalrun.Open(r.Agent.Path); err == nil {
			r.Agent.SHA256, err = resultsDigest(earlier)
		}
		if err != nil {
			return nil, err
		}
	}
	c, err := g.loadConfig(nil)
	if err != nil {
		return nil, err
	}
	if r.Config, err = f.profileFor(c, all); err != nil {
		return nil, err
	}
	f.addRooted(c, tasks)
	host, err := connect(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := buildImages(ctx, host, c.Profiles[f.profile].Pull, tasks); err != nil {
		host.Close()
		return nil, err
	}
	jobs, room := f.jobs, (*eval.Room)(nil)
	if jobs == 0 {
		room = eval.NewRoom(runtime.NumCPU(), availableMemory(), c.Profiles[f.profile].Limits)
		jobs = maxJobs * runtime.NumCPU()
	}
	c.Admission.MaxRunning = max(c.Admission.MaxRunning, 4*jobs) // an agent can have several commands
	runner := openRunner(host, c)
	var program eval.Program
	if r.Agent.Kind == evalrun.Program {
		if program, err = newHostAgent(r.ID, r.Agent, runner, c); err != nil {
			runner.Close()
			host.Close()
			return nil, err
		}
	}
	r.Suite.SHA256, r.Tasks = suite.Digest(tasks), listed(ctx, host, c.Profiles[f.profile], tasks)
	e := &evaluation{
		harness: &eval.Harness{Runner: runner, Profile: f.profile, Rooted: rootedProfile, Tasks: tasks, Answers: answers, Program: program, Earlier: earlier, Jobs: jobs, Room: room, FailFast: f.failFast},
		close: func() {
			runner.Close()
			host.Close()
		},
	}
	if err := refuse(ctx, e.harness, r.Agent); err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

// profileFor makes the profile one for untrusted solutions, and returns its digest.
func (f *evalFlags) profileFor(c *config.Config, tasks []suite.Task) (digest string, err error) {
	p, ok := c.Profiles[f.profile]
	if !ok {
		return "", sandbox.Invalid("see sandbox.yaml", "no profile %q", f.profile)
	}
	p = eval.Profile(p, tasks)
	c.Profiles[f.profile] = p
	policy := ""
	if p.Policy != nil {
		policy, p.Policy = p.Policy.Hash(), nil
	}
	text, err := json.Marshal(p)
	sum := sha256.Sum256(append(text, policy...))
	return hex.EncodeToString(sum[:]), err
}

// listed are the tasks as run.json has them. Where an image cannot be found, its trials say why.
func listed(ctx context.Context, host *belljar.Host, p sandbox.Profile, tasks []suite.Task) (list []evalrun.Task) {
	digests := map[string]string{}
	image := func(name string) evalrun.Image {
		name = cmp.Or(name, p.Image)
		if _, known := digests[name]; !known {
			image, _ := host.Images.Resolve(ctx, name, p.Pull)
			digests[name] = image.ID
		}
		return evalrun.Image{Name: name, Digest: digests[name]}
	}
	for _, t := range tasks {
		own := image(t.Image)
		one := evalrun.Task{ID: t.ID, Source: t.Source, SHA256: t.SHA256, Image: own.Name, Digest: own.Digest, Grading: t.Grader.By, Sealed: t.Sealed(), Notices: t.Notices, Files: t.Sums()}
		for _, name := range t.VerifierImages() {
			if other := image(name); other != own {
				one.Images = append(one.Images, other)
			}
		}
		list = append(list, one)
	}
	return list
}

// run evaluates, and shows how it ended.
func (e *evaluation) run(cmd *cobra.Command, g *globals, f *evalFlags, dir *evalrun.Dir) error {
	if err := e.evaluate(cmd, dir); err != nil {
		return err
	}
	results, err := dir.Results()
	if err != nil {
		return err
	}
	if e.harness.Earlier != nil {
		c, err := compared(e.harness.Earlier, results)
		if err == nil {
			err = f.output.write(cmd.Context(), g, io.Discard, f.format, dir.Path)
		}
		if err != nil {
			return err
		}
		return c.write(cmd.OutOrStdout(), f.format)
	}
	if err := f.output.write(cmd.Context(), g, cmd.OutOrStdout(), f.format, dir.Path); err != nil {
		return err
	}
	return exitOf(results)
}

func (e *evaluation) evaluate(cmd *cobra.Command, dir *evalrun.Dir) error {
	e.harness.Dir = dir
	if a, ok := e.harness.Program.(*hostAgent); ok {
		a.clean()
	}
	left, err := unfinished(dir, len(e.harness.Tasks)*dir.Run.Trials)
	if err != nil {
		return err
	}
	show := newEvalProgress(left)
	for _, n := range dir.Run.Notices {
		fmt.Fprintln(cmd.ErrOrStderr(), "belljar: "+view.SafeLine(n))
	}
	for _, t := range e.harness.Tasks {
		for _, n := range t.Notices {
			fmt.Fprintln(cmd.ErrOrStderr(), "belljar: "+view.SafeLine(t.ID+": "+n))
		}
	}
	e.harness.Watch = eval.Watch{Begun: show.begun, Ended: show.ended}
	defer show.clear()
	return e.harness.Run(cmd.Context())
}

// unfinished is how many of a run's trials are to be run.
func unfinished(dir *evalrun.Dir, all int) (int, error) {
	results, err := dir.Results()
	for _, r := range results {
		if r.Final() {
			all--
		}
	}
	return all, err
}

// exitOf is the exit status of a run.
func exitOf(results []evalrun.Result) error {
	status := 0
	for _, r := range results {
		switch {
		case r.Verdict == evalrun.Error:
			return exitError(exitFailed)
		case r.Verdict != evalrun.Passed:
			status = 1
		}
	}
	if status != 0 {
		return exitError(status)
	}
	return nil
}

// checkWith runs one of check's agents.
func (f *evalFlags) checkWith(cmd *cobra.Command, g *globals, out string, r evalrun.Run) ([]evalrun.Result, error) {
	e, err := f.open(cmd.Context(), g, &r)
	if err != nil {
		return nil, err
	}
	defer e.close()
	dir, err := evalrun.Create(out, r)
	if err != nil {
		return nil, err
	}
	err = e.evaluate(cmd, dir)
	results, failed := dir.Results()
	return results, errors.Join(err, failed, dir.Close())
}
