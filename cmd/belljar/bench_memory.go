package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"belljar/sandbox"
)

// memoryCount is how many containers wait when their memory is measured.
const memoryCount = 4

// memory is what a container that waits takes of the host's memory: belljar's, for a command, and the peer's with a sleep.
func (b *bench) memory(ctx context.Context) (ours, theirs int64, err error) {
	var made []sandbox.Container
	ours, err = memoryOfEach(ctx, func() error {
		c, err := b.host.Engine.Create(ctx, b.spec(b.peer.life))
		if err == nil {
			made = append(made, c)
		}
		return err
	})
	for _, c := range made {
		err = errors.Join(err, c.Remove(ctx))
	}
	if err != nil {
		return 0, 0, err
	}
	theirs, err = memoryOfEach(ctx, func() error {
		_, err := wholeProcess(b.peer.run(fmt.Sprintf("exec sleep %d", int(b.peer.life.Seconds())), "-d"))(ctx)
		return err
	})
	return ours, theirs, errors.Join(err, b.peer.clear(ctx))
}

// memoryOfEach makes containers, one more than it measures: what the first one starts may be for all.
func memoryOfEach(ctx context.Context, start func() error) (int64, error) {
	if err := start(); err != nil {
		return 0, err
	}
	before, err := dirtyMemory()
	if err != nil {
		return 0, err
	}
	for range memoryCount {
		if err := start(); err != nil {
			return 0, err
		}
	}
	if err := pause(ctx, settle); err != nil {
		return 0, err
	}
	after, err := dirtyMemory()
	maps.DeleteFunc(after, func(pid int, _ int64) bool { _, old := before[pid]; return old })
	sum := int64(0)
	for _, size := range after {
		sum += size
	}
	return sum / memoryCount, err
}

// dirtyMemory is, by process of the host, what is its own and has no file to be read from again: smaps_rollup of proc_pid_smaps(5).
func dirtyMemory() (map[int]int64, error) {
	files, err := filepath.Glob("/proc/[0-9]*/smaps_rollup")
	all := map[int]int64{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil { // it has ended
			continue
		}
		pid, _ := strconv.Atoi(strings.Split(file, "/")[2])
		for line := range bytes.Lines(text) {
			var kb int64
			if n, _ := fmt.Sscanf(string(line), "Private_Dirty: %d kB", &kb); n == 1 {
				all[pid] = kb << 10
			}
		}
	}
	return all, err
}
