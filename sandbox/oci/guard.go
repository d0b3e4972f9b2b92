package oci

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"belljar/internal/lifeline"
	"belljar/sandbox/internal/proc"
)

// guardWord is what the second process is told first: see guard.
const guardWord = "oci"

// init makes any program that contains this package the guard, where it was started as that.
func init() {
	if words, yes := lifeline.Broke(); yes && len(words) == 3 && words[0] == guardWord {
		guard(words[1], words[2])
		os.Exit(0)
	}
}

// watchOver starts the guard, with the first container. Where it does not start, the next belljar's
// sweep removes what this one leaves.
func (e *Engine) watchOver() {
	e.watched.Do(func() { e.line, _ = lifeline.Start(guardWord, e.dir, e.owner.Process) })
}

const (
	// guardPause is the time between two looks.
	guardPause = 10 * time.Millisecond
	// guardLimit bounds it all, where a container cannot be removed. The next belljar tries again.
	guardLimit = time.Minute
)

// guard removes what a killed process left: a container that had no runtime yet, or whose runtime was
// killed, too, or does not go on. Any other goes by itself, and is only waited for. All that it had begun has
// a control group by now, or had one: its runtime may make that again.
func guard(dir, maker string) {
	e := &Engine{dir: dir, owner: proc.ThisProcess()}
	if os.Geteuid() != 0 {
		e.user = &rootless{notes: notesOf(filepath.Dir(dir))}
	}
	end := time.Now().Add(guardLimit)
	for !e.owner.Gone(e.owner.Host, maker) { // its files are closed first
		time.Sleep(time.Millisecond)
	}
	var left []string
	for again := true; again && time.Now().Before(end); {
		all, err := e.containers()
		for _, f := range all {
			if f.process == maker && e.orphaned(f) && !slices.Contains(left, f.id) {
				left = append(left, f.id)
			}
		}
		if again = err != nil; again {
			time.Sleep(guardPause)
		}
	}
	for len(left) > 0 && time.Now().Before(end) {
		all, _ := e.containers()
		for _, f := range all {
			if slices.Contains(left, f.id) {
				e.sweep(f) // where it fails, it is tried again
			}
		}
		if left = slices.DeleteFunc(left, e.isGone); len(left) > 0 {
			time.Sleep(guardPause)
		}
	}
}

// isGone reports whether a container has neither a control group nor a runtime.
func (e *Engine) isGone(id string) bool {
	if f, err := e.find(id); err != nil || f.id != "" {
		return false
	}
	processes, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	return !slices.ContainsFunc(processes, func(name string) bool {
		args, _ := os.ReadFile(name)
		return strings.HasSuffix(string(args), "\x00"+id+"\x00")
	})
}
