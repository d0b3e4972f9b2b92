package main

import (
	"fmt"
	"os"
	"path"
	"strings"

	"belljar"
	"belljar/config"
	evalrun "belljar/eval/run"
	"belljar/eval/suite"
	"belljar/sandbox"
)

// openRunner is one that keeps the sessions of trials open between their commands, and without pools: the
// harness makes containers ahead itself.
func openRunner(host *belljar.Host, c *config.Config) *belljar.Runner {
	for name, p := range c.Profiles {
		p.Pool = sandbox.PoolSize{Max: sandbox.NoPool}
		c.Profiles[name] = p
	}
	runner := belljar.New(host, c)
	runner.Warm()
	return runner
}

// maxJobs is how many trials can run at the same time on a CPU, of tasks that need less.
const maxJobs = 4

// availableMemory is most of what this host can give to containers.
func availableMemory() int64 {
	text, _ := os.ReadFile("/proc/meminfo")
	for line := range strings.Lines(string(text)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "MemAvailable: %d kB", &kib); n == 1 {
			return kib << 10 / 10 * 9
		}
	}
	return 1 << 62 // not known: CPUs decide
}

// filtered are the tasks whose names match the glob, or all.
func filtered(tasks []suite.Task, glob string) (list []suite.Task, err error) {
	if glob == "" {
		return tasks, nil
	}
	for _, t := range tasks {
		fits, err := path.Match(glob, t.ID)
		if err != nil {
			return nil, sandbox.Invalid("write a glob such as add-*", "filter %q is malformed", glob)
		}
		if fits {
			list = append(list, t)
		}
	}
	if len(list) == 0 {
		return nil, sandbox.Invalid("use another --filter", "no task's name matches %q", glob)
	}
	return list, nil
}

// shardOf is the Ith of N parts of the tasks, which are dealt out one by one, or all.
func shardOf(tasks []suite.Task, shard string) (list []suite.Task, err error) {
	if shard == "" {
		return tasks, nil
	}
	part, parts, ok := evalrun.ParseShard(shard)
	if !ok {
		return nil, sandbox.Invalid("write I/N, from 1/N to N/N", "shard %q is malformed", shard)
	}
	for i, t := range tasks {
		if i%parts == part-1 {
			list = append(list, t)
		}
	}
	if len(list) == 0 {
		return nil, sandbox.Invalid("use fewer shards", "shard %s has no task: there are %d", shard, len(tasks))
	}
	return list, nil
}
