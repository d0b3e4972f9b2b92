package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"belljar/config"
	"belljar/internal/hostprog"
	"belljar/sandbox"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// A detached command is run by a process of its own: this program, started again by
// belljar run --detach as belljar supervise, with the same arguments. Until the command
// starts it is a belljar run like any other, in its caller's session and on its terminal:
// it asks what the policy asks, and reports what it refuses. Once the command starts it
// leaves both, and sends the command's ID to the process that the caller waits for. If that
// one is killed or interrupted before, the connection ends, and the command is canceled.
//
// The arguments go through the connection, not through the command line, which other users
// can read for as long as the command runs.

const superviseName = "supervise"

// checkDetach refuses flags whose effect no one would see.
func (f *runFlags) checkDetach() error {
	switch {
	case f.template != "":
		return usagef("--template and --detach exclude each other: leave out one")
	case f.stdin && term.IsTerminal(int(os.Stdin.Fd())):
		return usagef("-i and --detach exclude each other at a terminal: leave out one, or redirect stdin from a file or pipe")
	case f.file != "":
		return usagef("--output-file and --detach exclude each other: leave out one; belljar logs ID --follow prints all output")
	case f.safe:
		return usagef("--safe and --detach exclude each other: leave out --safe; belljar logs makes control characters visible on a terminal")
	case f.live == string(sandbox.LiveView):
		return usagef("--live view and --detach exclude each other: leave out one")
	}
	return nil
}

// keepsResults refuses a configuration in which no one could get the result.
func keepsResults(c *config.Config) error {
	switch {
	case c.StateDir == "":
		return sandbox.Invalid("set HOME or XDG_STATE_HOME", "--detach needs a state directory, which keeps the command's output and result")
	case c.Spool.Age == 0:
		return sandbox.Invalid("set it to a time such as 1h", "--detach keeps nothing of the command after its end, because spool.age is 0")
	}
	return nil
}

// startSupervisor starts the process that runs the command, and waits until the command
// has started.
func startSupervisor(ctx context.Context, show *printer) error {
	ctx, _, stop := interruptible(ctx)
	defer stop()
	ours, theirs, err := socketPair()
	if err != nil {
		return fmt.Errorf("connecting to the process that supervises the command: %w", err)
	}
	defer ours.Close()
	process := exec.Cmd{Path: "/proc/self/exe", Args: []string{"belljar", superviseName}, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, ExtraFiles: []*os.File{theirs}}
	err = process.Start()
	theirs.Close()
	if err != nil {
		return fmt.Errorf("starting the process that supervises the command: %w", err)
	}
	defer context.AfterFunc(ctx, func() { ours.CloseWrite() })()
	id := ""
	if err = sendArguments(ours, os.Args[1:]); err == nil {
		id, err = bufio.NewReader(io.LimitReader(ours, 1<<10)).ReadString('\n')
	}
	if err == nil {
		process.Process.Release()
		return show.detached(strings.TrimSuffix(id, "\n"))
	}
	process.Wait() // it has reported why
	if code := process.ProcessState.ExitCode(); code >= 0 {
		return exitError(code)
	}
	return &sandbox.Error{Cause: sandbox.CauseEngine, Message: "the process that supervises the command ended: " + process.ProcessState.String(), Hint: "see whether the command runs: belljar ps"}
}

// socketPair is a connection to a process that is started.
func socketPair() (ours *net.UnixConn, theirs *os.File, err error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	theirs = os.NewFile(uintptr(ends[1]), "supervised")
	if ours, err = unixConn(os.NewFile(uintptr(ends[0]), "supervisor")); err != nil {
		theirs.Close()
	}
	return ours, theirs, err
}

func unixConn(file *os.File) (*net.UnixConn, error) {
	defer file.Close() // it is duplicated
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	if own, ok := conn.(*net.UnixConn); ok {
		return own, nil
	}
	return nil, errors.Join(errors.New("it is not a Unix socket"), conn.Close())
}

// sendArguments sends them as they are: an argument has any byte but NUL.
func sendArguments(w io.Writer, args []string) error {
	text := strings.Join(args, "\x00")
	_, err := w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
	return err
}

// maxArguments is more than the kernel lets a program have (execve(2)).
const maxArguments = 8 << 20

func readArguments(r io.Reader) ([]string, error) {
	var size uint32
	if err := binary.Read(r, binary.BigEndian, &size); err != nil || size > maxArguments {
		return nil, errors.Join(err, errors.New("there are no arguments"))
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(r, text); err != nil {
		return nil, err
	}
	return strings.Split(string(text), "\x00"), nil
}

// superviseCmd is started by belljar run --detach.
func superviseCmd() *cobra.Command {
	return &cobra.Command{
		Use: superviseName, Hidden: true, Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			const fd = 3 // of its ExtraFiles
			unix.CloseOnExec(fd)
			conn, err := unixConn(os.NewFile(fd, "supervised"))
			var args []string
			if err == nil {
				defer conn.Close()
				args, err = readArguments(conn)
			}
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return &sandbox.Error{Cause: sandbox.CauseCanceled, Message: "canceled before the command was known"}
			}
			if err != nil {
				return sandbox.Invalid("use: belljar run --detach", "belljar %s is started by belljar run --detach only", superviseName)
			}
			return exitError(run(&globals{supervisor: &supervisor{conn: conn}}, args))
		},
	}
}

// supervisor runs a detached command. A nil supervisor runs one in the foreground.
type supervisor struct {
	conn     *net.UnixConn // to the process that the caller waits for
	reading  sync.WaitGroup
	stdin    bool // the command reads ours
	detached bool
}

// watch is ctx, canceled when that process ends or is interrupted, until the command is
// detached.
func (s *supervisor) watch(ctx context.Context) (context.Context, func()) {
	if s == nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	s.reading.Go(func() {
		if _, err := s.conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			cancel()
		}
	})
	return ctx, func() {
		s.unwatch()
		cancel()
	}
}

func (s *supervisor) unwatch() {
	s.conn.SetReadDeadline(time.Unix(1, 0))
	s.reading.Wait()
}

// follow detaches the command once it has started, or waits for its session, and follows
// it to its end. How it ended is kept for belljar wait, and shown if it did not start, or
// could not be detached.
func (s *supervisor) follow(ctx context.Context, x sandbox.Execution, logs sandbox.Logs, show *printer, kill <-chan struct{}) error {
	var failed error
	for more := true; more; {
		var e sandbox.Event
		select {
		case <-kill:
			x.Kill()
			kill = nil
			continue
		case e, more = <-x.Events():
		}
		if (e.Type == sandbox.EventStart || e.Waits) && !s.detached && failed == nil {
			if failed = s.detach(ctx, x.ID(), logs); failed != nil {
				x.Kill()
			}
		}
		reports := failed == nil || e.Type == sandbox.EventResult || e.Type == sandbox.EventNotice && show.format == "text" // it says why
		if more && !s.detached && reports {
			show.event(e)
		}
	}
	switch {
	case failed != nil: // its result is shown: it began, or waited for its session
		tellError(show.err, failed)
		return exitError(exitFor(failed))
	case s.detached:
		return nil
	}
	return show.exit()
}

// detach leaves the caller's session, terminal and files, and sends the ID.
func (s *supervisor) detach(ctx context.Context, id string, logs sandbox.Logs) error {
	if _, err := logs.LogInfo(ctx, id); err != nil {
		return &sandbox.Error{Cause: sandbox.CauseEngine, Message: "the output and the result of a detached command cannot be kept", Hint: "free disk space, or make the state directory writable: see belljar doctor"}
	}
	s.unwatch()
	if ctx.Err() != nil {
		return &sandbox.Error{Cause: sandbox.CauseCanceled, Message: "canceled before the command was in the background"}
	}
	if err := leave(s.stdin); err != nil {
		return fmt.Errorf("leaving the terminal: %w", err)
	}
	s.detached = true
	fmt.Fprintln(s.conn, id) // a caller that went meanwhile finds it with belljar ps
	return s.conn.Close()
}

// leave makes this process independent of the one that started it, but for a stdin that
// the command reads.
func leave(stdin bool) error {
	if _, err := unix.Setsid(); err != nil {
		return err
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	for fd := range 3 {
		if fd == 0 && stdin {
			continue
		}
		if err := unix.Dup3(int(null.Fd()), fd, 0); err != nil {
			return err
		}
	}
	hostprog.CloseInherited()
	return nil
}

// detached shows the ID of a command that runs in the background.
func (p *printer) detached(id string) (err error) {
	if p.format == "json" || p.format == "ndjson" {
		err = writeJSON(p.out, struct {
			ID string `json:"id"`
		}{id})
	} else {
		_, err = fmt.Fprintln(p.out, id)
	}
	if err == nil {
		return nil
	}
	p.say(fmt.Sprintf("command %s runs in the background, but writing its ID failed: %v", id, err))
	return exitError(exitFailed)
}
