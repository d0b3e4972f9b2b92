package docker

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"belljar/sandbox"
)

// maxListing bounds what is read of a listing from inside.
const maxListing = 4 << 20

// listScript prints the clock, then three files of each process, with a mark
// after each. The mark is read from stdin, where no process can see it, and so
// none's name or arguments can hold it.
const listScript = `read -r mark; cat /proc/uptime; printf %s "$mark"
for p in /proc/[0-9]*; do for f in stat status cmdline; do cat $p/$f; printf %s "$mark"; done; done 2>/dev/null`

// listInside lists by an exec in the container, as the keeper's user, whom no
// command can touch. It needs cat, and costs an exec.
func (b *box) listInside(ctx context.Context) ([]sandbox.Process, error) {
	mark := rand.Text()
	var out bytes.Buffer
	listing, err := b.Exec(ctx, sandbox.Exec{
		Script: listScript, Dir: "/", User: sandbox.User{UID: b.keeper, GID: b.keeper}, Stdin: strings.NewReader(mark + "\n"),
		Stdout: limitWriter{&out, maxListing}, Stderr: io.Discard,
	})
	if err != nil {
		return nil, fmt.Errorf("listing from inside: %w", err)
	}
	if _, err := listing.Wait(ctx); err != nil {
		return nil, fmt.Errorf("listing from inside: %w", err)
	}
	parts := strings.Split(out.String(), mark)
	if len(parts) < 5 || out.Len() == maxListing { // the keeper, at least
		return nil, fmt.Errorf("listing from inside: the image's cat gave no list (%d bytes)", out.Len())
	}
	return parseInside(parts, b.keeper), nil
}

// parseInside reads the clock and then three parts a process. One that went
// while it was read lacks some.
func parseInside(parts []string, keeper int) []sandbox.Process {
	up := parseUptime(parts[0])
	var list []sandbox.Process
	for files := range slices.Chunk(parts[1:], 3) {
		if len(files) < 3 {
			break
		}
		stat, err := parseStat([]byte(files[0]))
		status := parseStatus(files[1])
		if err != nil || !stat.runs() || status.uid == keeper {
			continue
		}
		p := stat.process(up, status.uid, []byte(files[2]))
		p.PID, p.PPID, p.PGID, p.SID = stat.pid, stat.ppid, stat.pgrp, stat.sid
		list = append(list, p)
	}
	slices.SortFunc(list, byPID)
	return list
}

func parseUptime(text string) time.Duration {
	first, _, _ := strings.Cut(text, " ")
	seconds, _ := strconv.ParseFloat(first, 64)
	return time.Duration(seconds * float64(time.Second))
}
