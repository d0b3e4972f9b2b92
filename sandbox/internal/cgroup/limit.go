package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Limits are what a group may use at most.
type Limits struct {
	Memory int64 // bytes, without swap
	Pids   int64 // processes and threads
	CPUs   float64
}

// period is how often a group's share of the processors is dealt out, in microseconds: the
// kernel's default.
const period = 100_000

// Limit limits a group by its directories, as Make returned them: for a runtime that takes a group as
// it is.
func Limit(dirs []string, l Limits) error {
	memory, pids, quota := strconv.FormatInt(l.Memory, 10), strconv.FormatInt(l.Pids, 10), strconv.FormatInt(int64(l.CPUs*period), 10)
	found := map[string]bool{}
	for _, dir := range dirs {
		if err := inherit(dir); err != nil {
			return err
		}
		for _, f := range []struct{ name, text string }{
			{"memory.limit_in_bytes", memory}, {"memory.memsw.limit_in_bytes", memory}, {"cpu.cfs_quota_us", quota}, // version 1
			{"pids.max", pids},                                                                                // both
			{"memory.max", memory}, {"memory.swap.max", "0"}, {"cpu.max", quota + " " + strconv.Itoa(period)}, // version 2
		} {
			name := filepath.Join(dir, f.name)
			if _, err := os.Stat(name); err != nil {
				continue
			}
			if err := os.WriteFile(name, []byte(f.text), 0); err != nil {
				return fmt.Errorf("limiting a control group: %w", err)
			}
			kind, _, _ := strings.Cut(f.name, ".")
			found[kind] = true
		}
	}
	for _, kind := range []string{"memory", "pids", "cpu"} {
		if !found[kind] {
			return fmt.Errorf("limiting a control group: the kernel has no controller %s for it", kind)
		}
	}
	return nil
}

// inherit gives a group of version 1 the processors and memory of its parent: without any
// no process can enter it.
func inherit(dir string) error {
	for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(dir), name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			if _, there := os.Stat(filepath.Join(dir, name)); there != nil {
				return nil
			}
			err = os.WriteFile(filepath.Join(dir, name), text, 0)
		}
		if err != nil {
			return fmt.Errorf("sharing processors with a control group: %w", err)
		}
	}
	return nil
}
