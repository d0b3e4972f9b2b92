package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"belljar"
	"belljar/config"
	"belljar/eval"
	evalrun "belljar/eval/run"
	"belljar/eval/suite"
	"belljar/sandbox"
)

const (
	// evalImage is what the tasks of the eval rows run in.
	evalImage = "belljar/debian:eval"
	evalHint  = "belljar images build debian --packages python3,python3-pytest --tag " + evalImage
	// evalJobs is how many tasks each side does at the same time, and evalRounds how often at most it has its turn.
	evalJobs   = 2
	evalRounds = 4
)

// evalTask is one task like HumanEval's: a function of Python, and assertions about it.
func evalTask(i int) (solve, tests string) {
	solve = fmt.Sprintf("cat >solution.py <<'E'\ndef f%d(numbers):\n    \"\"\"The sum of the numbers that %d divides.\"\"\"\n    return sum(n for n in numbers if n %% %d == 0)\nE", i, i%7+2, i%7+2)
	tests = fmt.Sprintf("from solution import f%d\nfor k in range(50):\n    numbers = list(range(k))\n    assert f%d(numbers) == sum(numbers[::%d])\n", i, i, i%7+2)
	return solve, tests
}

// benchEval measures tasks, each of which has two containers: one that solves it, and one that grades.
func benchEval(controls bool) func(context.Context, *bench) (benchRow, error) {
	return func(ctx context.Context, b *bench) (row benchRow, err error) {
		e, err := b.newEval(ctx, controls)
		if err != nil {
			return row, err
		}
		defer func() { err = errors.Join(err, e.close(ctx)) }()
		var took [2][]time.Duration
		var whole [2]time.Duration
		rounds := min(evalRounds, b.count)
		each := (5*b.count + rounds - 1) / rounds
		for i := range 2 * (rounds + 1) {
			n := each
			if i < 2 {
				n = evalJobs // not counted
			}
			d, elapsed, err := [2]func(context.Context, int) ([]time.Duration, time.Duration, error){e.ours, e.theirs}[i%2](ctx, n)
			if err != nil {
				return row, err
			}
			if i >= 2 {
				took[i%2], whole[i%2] = append(took[i%2], d...), whole[i%2]+elapsed
			}
		}
		side := func(i int) measured {
			return measured{took[i], float64(len(took[i])) / whole[i].Seconds()}
		}
		return newBenchRow("2 x docker run", side(0), side(1)), nil
	}
}

// evalBench has both sides.
type evalBench struct {
	host     *belljar.Host // to be closed, or nil
	runner   *belljar.Runner
	peer     *peer
	dir      string
	controls bool
	runs     int
}

// newEval uses the user's own images, which an engine without a daemon has in the state directory.
func (b *bench) newEval(ctx context.Context, controls bool) (*evalBench, error) {
	c := *b.config
	c.Audit.Enabled = false
	host, e := b.host, &evalBench{controls: controls}
	if host.Kind == config.EngineOCI {
		c.StateDir = b.state
		own, err := connect(ctx, &c)
		if err != nil {
			return nil, err
		}
		host, e.host = own, own
	}
	for _, h := range []*belljar.Host{host, b.docker} {
		if _, err := h.Images.Resolve(ctx, evalImage, sandbox.PullNever); err != nil {
			return nil, errors.Join(&sandbox.Error{Cause: sandbox.CauseImage, Message: "this row needs an image with Python, in both engines", Err: err, Hint: evalHint}, e.close(ctx))
		}
	}
	p := c.Profiles[sandbox.DefaultProfile]
	image, err := b.docker.Images.Resolve(ctx, evalImage, sandbox.PullNever)
	if err == nil {
		e.peer, err = newPeer(b.dockerEngine().Host(), p, image, 10*b.count)
	}
	if err == nil {
		e.dir, err = os.MkdirTemp("", "belljar-bench-eval-")
	}
	if err != nil {
		return nil, errors.Join(err, e.close(ctx))
	}
	c.Profiles = map[string]sandbox.Profile{sandbox.DefaultProfile: eval.Profile(p, nil)}
	e.runner = openRunner(host, &c)
	return e, nil
}

func (e *evalBench) close(ctx context.Context) (err error) {
	if e.runner != nil {
		e.runner.Close()
	}
	if e.peer != nil {
		err = e.peer.close(ctx)
	}
	if e.host != nil {
		err = errors.Join(err, e.host.Close())
	}
	if e.dir != "" {
		err = errors.Join(err, os.RemoveAll(e.dir))
	}
	return err
}

// ours evaluates tasks.
func (e *evalBench) ours(ctx context.Context, n int) (took []time.Duration, whole time.Duration, err error) {
	e.runs++
	tasks, err := e.tasks(n)
	if err != nil {
		return nil, 0, err
	}
	r := evalrun.Run{Version: evalrun.Version, ID: newRunID(), Agent: evalrun.Agent{Kind: evalrun.Oracle}, Trials: 1, Options: evalrun.Options{Controls: e.controls}}
	dir, err := evalrun.Create(filepath.Join(e.dir, fmt.Sprint(e.runs)), r)
	if err != nil {
		return nil, 0, err
	}
	defer dir.Close()
	h := &eval.Harness{Runner: e.runner, Profile: sandbox.DefaultProfile, Dir: dir, Tasks: tasks, Jobs: evalJobs}
	began := time.Now()
	err = h.Run(ctx)
	whole = time.Since(began)
	results, failed := dir.Results()
	if err := errors.Join(err, failed); err != nil {
		return nil, 0, err
	}
	for _, r := range results {
		if r.Verdict != evalrun.Passed {
			return nil, 0, fmt.Errorf("task %s: %s: %s", r.Task, r.Verdict, r.Message)
		}
		took = append(took, time.Duration(r.Millis*float64(time.Millisecond)))
	}
	return took, whole, nil
}

func (e *evalBench) tasks(n int) ([]suite.Task, error) {
	name := filepath.Join(e.dir, "tasks.jsonl")
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	lines := json.NewEncoder(f)
	for i := range n {
		solve, tests := evalTask(i)
		err = errors.Join(err, lines.Encode(map[string]any{
			"id": fmt.Sprint("f", i), "image": evalImage, "artifacts": []string{"solution.py"}, "solve": solve, "check": "PYTHONPATH=/work python3 /tests/test.py", "tests": map[string]string{"test.py": tests},
		}))
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	return suite.Load([]string{name}, suite.Allow{})
}

// theirs runs docker twice for each task: what the first container made is given to the second, as
// a script of a harness would.
func (e *evalBench) theirs(ctx context.Context, n int) (took []time.Duration, whole time.Duration, err error) {
	next, began := make(chan int, n), time.Now()
	for i := range n {
		next <- i
	}
	close(next)
	var mu sync.Mutex
	var all sync.WaitGroup
	for range evalJobs {
		all.Go(func() {
			for i := range next {
				d, failed := e.twice(ctx, i)
				mu.Lock()
				took, err = append(took, d), errors.Join(err, failed)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return took, time.Since(began), err
}

func (e *evalBench) twice(ctx context.Context, i int) (time.Duration, error) {
	solve, tests := evalTask(i)
	began := time.Now()
	made, err := e.peer.stdout(ctx, e.peer.run("cd /work\n"+solve+"\ncat solution.py"))
	if err == nil {
		_, err = e.peer.stdout(ctx, e.peer.run("cd /work\ncat >solution.py <<'E'\n"+made+"E\ncat >/tmp/test.py <<'E'\n"+tests+"E\nPYTHONPATH=/work python3 /tmp/test.py"))
	}
	return time.Since(began), err
}
