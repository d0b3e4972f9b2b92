package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"belljar/sandbox"

	"golang.org/x/sys/unix"
)

// keys is the keyboard of the person who sees our stderr. While a process has it, no
// other one asks there.
type keys struct {
	tty  *os.File
	back chan os.Signal // we were stopped, and continue
}

// openKeys waits while another question is asked at the terminal, by this belljar
// or another: what is typed below one must not answer the other.
func openKeys(ctx context.Context) (*keys, error) {
	if !inForeground() {
		return nil, errNoTerminal
	}
	tty, err := openTerminal()
	if err != nil {
		return nil, err
	}
	if err := lock(ctx, tty); err != nil {
		tty.Close()
		return nil, err
	}
	// In the background, reading or flushing would stop us: it must fail instead.
	signal.Ignore(syscall.SIGTTIN, syscall.SIGTTOU)
	k := &keys{tty, make(chan os.Signal, 1)}
	signal.Notify(k.back, syscall.SIGCONT)
	return k, nil
}

func (k *keys) close() {
	signal.Stop(k.back)
	signal.Reset(syscall.SIGTTIN, syscall.SIGTTOU)
	k.tty.Close() // so that the next one may ask
}

// openTerminal opens stderr's terminal again: a lock and O_NONBLOCK belong to
// an open file, and stderr's is shared with the shell and other commands.
func openTerminal() (*os.File, error) {
	device, err := unix.IoctlGetUint32(int(os.Stderr.Fd()), unix.TIOCGDEV)
	if err != nil {
		return nil, unlockable(err)
	}
	// Stderr may be /dev/tty, a file that all terminals share.
	minor := unix.Minor(uint64(device))
	for _, name := range []string{"/proc/self/fd/2", fmt.Sprintf("/dev/pts/%d", minor), fmt.Sprintf("/dev/tty%d", minor)} {
		tty, failed := os.OpenFile(name, os.O_RDONLY|syscall.O_NOCTTY|syscall.O_NONBLOCK, 0)
		if failed != nil {
			err = failed
			continue
		}
		var about unix.Stat_t
		if err = control(tty, func(fd int) error { return unix.Fstat(fd, &about) }); err == nil && about.Rdev == uint64(device) {
			return tty, nil
		}
		tty.Close()
	}
	return nil, unlockable(err)
}

// unlockable says why no one is asked: two could ask at the same time.
func unlockable(err error) error {
	return &sandbox.Error{Cause: sandbox.CauseDenied, Message: "cannot ask for approval: the terminal belongs to another user", Err: err, Hint: errNoTerminal.Hint}
}

// lock waits until no other process asks at the terminal.
func lock(ctx context.Context, tty *os.File) error {
	tell := time.After(20 * look)
	for {
		err := control(tty, func(fd int) error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) })
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case !inForeground():
			return errNoTerminal
		case err == nil:
			return nil
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			return unlockable(err)
		}
		select {
		case <-ctx.Done():
		case <-tell: // the other process may be stopped, and forgotten
			fmt.Fprintln(os.Stderr, "\nbelljar: another belljar is asking at this terminal; the next question follows when it is answered")
		case <-time.After(look):
		}
	}
}

// control keeps the file non-blocking, unlike Fd.
func control(f *os.File, do func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var done error
	if err := raw.Control(func(fd uintptr) { done = do(int(fd)) }); err != nil {
		return err
	}
	return done
}

// inForeground reports whether stderr is our controlling terminal, and our process
// group is in its foreground (tcgetpgrp(3)).
func inForeground() bool {
	group, err := unix.IoctlGetInt(int(os.Stderr.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// flush drops typed keys that were not read, unless they are for another program.
func (k *keys) flush() {
	if inForeground() {
		unix.IoctlSetInt(int(os.Stderr.Fd()), unix.TCFLSH, unix.TCIFLUSH)
	}
}

// underway is how long keys that were typed before a question may still come: the kernel carries them to where they can
// be dropped in a thread of its own, which a busy host lets wait. No one reads a question in that time.
const underway = 200 * time.Millisecond

// drop drops the keys that were typed so far: they answer something else.
func (k *keys) drop(ctx context.Context) {
	select {
	case <-time.After(underway):
	case <-ctx.Done():
	}
	k.flush()
}

// ask writes the last line of the question and reads a line.
func (k *keys) ask(ctx context.Context, q sandbox.Question, always bool) (string, error) {
	k.drop(ctx)
	choice := "[y]es, once; [N]o"
	if always {
		choice = "[y]es, once; [a]lways in this session; [N]o"
		if q.Session == "" {
			choice = "[y]es, once; [a]lways in this template; [N]o"
		}
	}
	fmt.Fprintf(os.Stderr, "%sbelljar: allow it? %s (%s left): ", afresh(), choice, sandbox.FormatDuration(time.Until(q.Deadline).Round(time.Second)))
	var typed []byte
	for len(typed) < 256 {
		k.tty.SetReadDeadline(time.Now().Add(look))
		chunk := make([]byte, 256)
		n, err := k.tty.Read(chunk)
		typed = append(typed, chunk[:n]...)
		if line, _, ended := bytes.Cut(bytes.ReplaceAll(typed, []byte("\r"), []byte("\n")), []byte("\n")); ended {
			return string(line), nil
		}
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return "", ctx.Err()
		case !inForeground():
			return "", errNoTerminal
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return "", err
		}
		select {
		case <-k.back:
			return "?", nil // other output may have covered the question
		default:
		}
	}
	return "?", nil
}
