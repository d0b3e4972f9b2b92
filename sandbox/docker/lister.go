package docker

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"belljar/sandbox"
	"belljar/sandbox/internal/proc"
)

// maxListing bounds what is read of a listing from inside.
const maxListing = 4 << 20

// listScript prints its PID, and then answers lines: "p" with a line of what runs, and any other, a mark and
// directories of processes, with the clock and then three files of each process. A dot and the mark end each of
// them, and an exclamation mark and the mark the answer, so that no number of empty files looks like its end.
// The mark is read from stdin, where no process can see it, so that none's name or arguments can hold it.
const listScript = `echo $$
while read -r mark all; do
	case $mark in
	p) echo /proc/[0-9]* ;;
	*) cat /proc/uptime; printf .%s "$mark"
		for p in $all; do for f in stat status cmdline; do cat $p/$f; printf .%s "$mark"; done; done 2>/dev/null
		printf !%s "$mark" ;;
	esac
done`

// lister is an exec that waits and lists processes on demand. Starting one for each list
// would take longer than most commands. It runs as the keeper's user, which no command
// can signal, and needs cat.
type lister struct {
	exec  *running
	stdin *io.PipeWriter
	out   chan []byte
	end   context.CancelFunc // of what it writes
	own   []string           // the container's own processes, itself included, as "/proc/PID"
}

// openLister starts one, which writes until life ends.
func (b *box) openLister(ctx, life context.Context) (*lister, error) {
	in, stdin := io.Pipe()
	life, end := context.WithCancel(life)
	l := &lister{stdin: stdin, out: make(chan []byte), end: end}
	exec, err := b.exec(ctx, sandbox.Exec{
		Script: listScript, Dir: "/", User: sandbox.User{UID: b.keeperUID, GID: b.keeperUID}, Stdin: in,
		Stdout: chanWriter{life, l.out}, Stderr: io.Discard,
	})
	if err != nil {
		end()
		return nil, err
	}
	l.exec = exec
	if _, err = l.read(ctx, "\n"); err == nil {
		_, err = l.list(ctx, b.keeperUID)
	}
	if err != nil && !errors.Is(err, proc.ErrMissed) {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *lister) close() {
	l.end()
	l.stdin.Close()
	l.exec.close()
	l.exec.box.forget(l.exec)
}

// ask sends one line and reads the answer up to its end mark. After an error the lister
// cannot be used any more.
func (l *lister) ask(ctx context.Context, question, end string) (string, error) {
	stop := context.AfterFunc(ctx, func() { l.stdin.CloseWithError(ctx.Err()) })
	defer stop()
	if _, err := fmt.Fprintln(l.stdin, question); err != nil {
		return "", err
	}
	return l.read(ctx, end)
}

// read reads up to a mark.
func (l *lister) read(ctx context.Context, mark string) (string, error) {
	var text []byte
	for !bytes.HasSuffix(text, []byte(mark)) {
		select {
		case p := <-l.out:
			text = append(text, p...)
		case <-l.exec.copied:
			return "", errors.New("it ended")
		case <-ctx.Done():
			return "", ctx.Err()
		}
		if len(text) > maxListing {
			return "", fmt.Errorf("it printed more than %s", humanSize(maxListing))
		}
	}
	return string(text), nil
}

// listRounds is how many times more is read that began while the list was made. Each takes less time than the one
// before: it reads only what is new.
const listRounds = 10

// list lists all processes but the container's own, once they have been compared with what runs. What ended while
// the list was made is not in it.
func (l *lister) list(ctx context.Context, keeper int) ([]sandbox.Process, error) {
	var list []sandbox.Process
	var own, seen []string
	for range listRounds {
		now, err := l.running(ctx)
		if err != nil {
			return nil, err
		}
		fresh := slices.DeleteFunc(slices.Clone(now), func(name string) bool { return slices.Contains(seen, name) })
		if len(fresh) == 0 {
			list = slices.DeleteFunc(list, func(p sandbox.Process) bool { return !slices.Contains(now, procDir(p.PID)) })
			slices.SortFunc(list, proc.ByPID)
			l.own = own
			return list, nil
		}
		mark := rand.Text()
		text, err := l.ask(ctx, mark+" "+strings.Join(fresh, " "), "!"+mark)
		if err != nil {
			return nil, err
		}
		parts := strings.Split(strings.TrimSuffix(text, "!"+mark), "."+mark)
		if seen == nil && strings.TrimSpace(strings.Join(parts[1:], "")) == "" { // the keeper, at least, has files
			return nil, fmt.Errorf("the image's cat printed no list (%s)", humanSize(int64(len(text))))
		}
		more, ours := parseInside(parts, keeper)
		list, own, seen = append(list, more...), append(own, ours...), append(seen, fresh...)
	}
	now, err := l.running(ctx)
	if missed := proc.CountNew(now, seen); err == nil && missed > 0 {
		err = fmt.Errorf("%w: %d of them", proc.ErrMissed, missed)
	}
	slices.SortFunc(list, proc.ByPID)
	return list, err
}

// running are the directories of all processes.
func (l *lister) running(ctx context.Context) ([]string, error) {
	text, err := l.ask(ctx, "p", "\n")
	return strings.Fields(text), err
}

// idle reports whether nothing runs but the container's own.
func (l *lister) idle(ctx context.Context) (bool, error) {
	now, err := l.running(ctx)
	return err == nil && proc.CountNew(now, l.own) == 0, err
}

// chanWriter passes on what is written until its context ends.
type chanWriter struct {
	ctx context.Context
	to  chan<- []byte
}

func (w chanWriter) Write(p []byte) (int, error) {
	select {
	case w.to <- bytes.Clone(p):
	case <-w.ctx.Done():
	}
	return len(p), nil
}

// procDir is the directory of a process, as the script names it.
func procDir(pid int) string { return fmt.Sprintf("/proc/%d", pid) }

// parseInside reads the clock and then three parts a process. One that went
// while it was read lacks some.
func parseInside(parts []string, keeper int) (list []sandbox.Process, own []string) {
	up := proc.ParseUptime(parts[0])
	for files := range slices.Chunk(parts[1:], 3) {
		if len(files) < 3 {
			break
		}
		switch p, runs := proc.ParseInside(files[0], files[1], files[2], up); {
		case runs && p.UID == keeper:
			own = append(own, procDir(p.PID))
		case runs:
			list = append(list, p)
		}
	}
	return list, own
}
