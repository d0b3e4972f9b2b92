package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	evalrun "belljar/eval/run"
	"belljar/view"

	"github.com/spf13/cobra"
)

const evalRegradeHelp = `Grade the artifacts of a run again, with the same tests, images, settings and controls.
Nothing is solved again. RUN is the directory of a run, which does not change.

A trial whose verdict is another one now is flaky: its tests, or the solution, do not
always do the same. Each is listed.

The exit status is 0 if all verdicts are the same, 1 if some are not, and 125 if some are
not known, because the infrastructure failed.`

func evalRegradeCmd(g *globals) *cobra.Command {
	f := &evalFlags{}
	cmd := &cobra.Command{
		Use:   "regrade RUN",
		Short: "Grade the artifacts of a run again, and list the verdicts that differ",
		Long:  evalRegradeHelp,
		Example: `  belljar eval regrade runs/1
  belljar eval regrade runs/1 --out runs/1-again --html again.html`,
		Args: cobra.ExactArgs(1),
		RunE: stoppable(func(cmd *cobra.Command, args []string) error {
			return f.regrade(cmd, g, args[0])
		}),
	}
	f.add(cmd)
	f.addOutput(cmd)
	f.allow.again(cmd.Flags())
	cmd.Flags().StringVar(&f.out, "out", "", "keep the new run in this `DIR`ectory, as eval run does (default: nothing is kept)")
	return cmd
}

func (f *evalFlags) regrade(cmd *cobra.Command, g *globals, name string) error {
	earlier, err := evalrun.Open(name)
	if err != nil {
		return err
	}
	if err := f.allow.named(earlier.Run.Options); err != nil {
		return err
	}
	r := earlier.Run
	r.ID, r.Started, r.Belljar = newRunID(), time.Now().UTC().Truncate(time.Second), strings.TrimSpace(versionLine())
	r.Agent = evalrun.Agent{Kind: evalrun.Regrade}
	if r.Agent.Path, err = filepath.Abs(name); err != nil {
		return err
	}
	e, err := f.open(cmd.Context(), g, &r)
	if err != nil {
		return err
	}
	defer e.close()
	was := earlier.Run
	was.Agent = r.Agent
	if err := same(was, r); err != nil {
		return err
	}
	if f.out == "" {
		temp, err := os.MkdirTemp("", "belljar-regrade-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(temp)
		f.out = temp
	}
	dir, err := evalrun.Create(f.out, r)
	if err != nil {
		return err
	}
	defer dir.Close()
	return e.run(cmd, g, f, dir)
}

// resultsDigest is the SHA-256 of a run's results.
func resultsDigest(d *evalrun.Dir) (string, error) {
	file, err := d.Open(evalrun.ResultsFile)
	if err != nil {
		return "", err
	}
	defer file.Close()
	hash := sha256.New()
	_, err = io.Copy(hash, file)
	return hex.EncodeToString(hash.Sum(nil)), err
}

// regraded is what came of grading again.
type regraded struct {
	Same    int            `json:"same"`
	Flaky   []flakyVerdict `json:"flaky"`
	Unknown []string       `json:"unknown"` // TASK/TRIAL: why
	Skipped int            `json:"skipped"` // had nothing that was graded
}

// flakyVerdict is one that is not the same.
type flakyVerdict struct {
	Task  string          `json:"task"`
	Trial int             `json:"trial"`
	Was   evalrun.Verdict `json:"was"`
	Is    evalrun.Verdict `json:"is"`
	Why   string          `json:"message"`
}

func compared(earlier *evalrun.Dir, now []evalrun.Result) (c regraded, err error) {
	list, err := earlier.Results()
	if err != nil {
		return c, err
	}
	before := map[evalrun.Key]evalrun.Result{}
	for _, r := range list {
		before[r.Key()] = r
	}
	c.Flaky, c.Unknown = []flakyVerdict{}, []string{}
	for _, is := range now {
		was := before[is.Key()]
		switch {
		case is.Verdict == evalrun.Skipped:
			c.Skipped++
		case is.Verdict == evalrun.Error && is.Side == evalrun.Infrastructure:
			c.Unknown = append(c.Unknown, fmt.Sprintf("%s/%d: %s", is.Task, is.Trial, is.Message))
		case is.Verdict == was.Verdict && is.Side == was.Side && reward(is) == reward(was):
			c.Same++
		default:
			c.Flaky = append(c.Flaky, flakyVerdict{is.Task, is.Trial, was.Verdict, is.Verdict, is.Message})
		}
	}
	return c, nil
}

// reward is a text, because there may be none.
func reward(r evalrun.Result) string {
	if r.Reward == nil {
		return ""
	}
	return fmt.Sprint(*r.Reward)
}

// write shows it, and returns the exit status.
func (c regraded) write(w io.Writer, format string) (err error) {
	if format == "json" {
		err = writeJSON(w, c)
	} else {
		for _, f := range c.Flaky {
			_, e := fmt.Fprintln(w, view.SafeLine(fmt.Sprintf("flaky: %s/%d was %s and is %s now: %s", f.Task, f.Trial, f.Was, f.Is, f.Why)))
			err = errors.Join(err, e)
		}
		for _, u := range c.Unknown {
			_, e := fmt.Fprintln(w, view.SafeLine("not known: "+u))
			err = errors.Join(err, e)
		}
		_, e := fmt.Fprintf(w, "%d verdicts are the same, %d are flaky, %d are not known; %d trials had nothing to grade\n", c.Same, len(c.Flaky), len(c.Unknown), c.Skipped)
		err = errors.Join(err, e)
	}
	switch {
	case err != nil:
		return err
	case len(c.Unknown) > 0:
		return exitError(exitFailed)
	case len(c.Flaky) > 0:
		return exitError(1)
	}
	return nil
}
