package docker

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"

	"belljar/sandbox"

	"github.com/docker/docker/api/types/container"
)

// terminalScript becomes the command once its terminal has its size. An engine can set
// the size only while the process runs: too late for a short command, and for what any
// other reads first (moby#35407; API 1.42 takes the size at the start, 1.41 does not).
// It needs nothing but sh.
const terminalScript = `echo ` + terminalReady + `; read -r _ || exit 1; echo ` + terminalSet + `; exec sh -c "$@"`

const (
	terminalReady = "belljar: ready"
	terminalSet   = "belljar: set"

	// maxTerminalPreamble bounds what comes before them, in bytes, such as what
	// the image's loader or its sh warns of. The command's own says it again.
	maxTerminalPreamble = 64 << 10

	// endOfInput is what a terminal takes for it at the beginning of a line,
	// and elsewhere for the end of that line: Ctrl-D.
	endOfInput = "\x04"
)

// execOptions are those of a command.
func execOptions(x sandbox.Exec) container.ExecOptions {
	options := container.ExecOptions{
		Cmd:          append([]string{"sh", "-c"}, sandbox.ShellArgs(x.Script)...),
		User:         fmt.Sprintf("%d:%d", x.User.UID, x.User.GID),
		WorkingDir:   x.Dir,
		Env:          x.Env,
		AttachStdin:  x.Stdin != nil,
		AttachStdout: true,
		AttachStderr: true,
	}
	if x.TTY != nil {
		options.Tty, options.AttachStdin = true, true
		options.Cmd = append([]string{"sh", "-c", terminalScript, "sh"}, sandbox.ShellArgs(x.Script)...)
		options.DetachKeys = noDetachKeys()
	}
	return options
}

// noDetachKeys are keys that nobody types. Ctrl-P Ctrl-Q, which the engine takes
// where it is told none, would break the stream off. It holds back the first of
// the keys until it sees the next: so that is one that few programs know.
func noDetachKeys() string {
	return "ctrl-^," + strings.Join(strings.Split(rand.Text(), ""), ",")
}

// beginInTerminal lets the command begin, once its terminal has its size, and
// unless ctx ended and Exec with it.
func (r *running) beginInTerminal(ctx context.Context, size sandbox.TerminalSize) bool {
	err := r.openTerminal(size)
	select {
	case r.opened <- err:
	case <-ctx.Done():
		return false
	}
	if err != nil {
		return false
	}
	io.WriteString(r.conn.Conn, "\n")
	if err := unlessEnded(awaitLine(r.conn.Reader, terminalSet)); err != nil {
		r.markCut(err.Error())
	}
	return true
}

// openTerminal sets the terminal's size. A stream that ends meanwhile is no
// error: Wait tells what became of the process.
func (r *running) openTerminal(size sandbox.TerminalSize) error {
	if err := awaitLine(r.conn.Reader, terminalReady); err != nil {
		return unlessEnded(err)
	}
	return r.resize(context.Background(), size)
}

// errNotReady is the error of a shell that does not print the expected line.
var errNotReady = errors.New("its shell is not ready")

// unlessEnded drops the error of a stream that ended.
func unlessEnded(err error) error {
	if errors.Is(err, errNotReady) {
		return err
	}
	return nil
}

// awaitLine reads up to a line. The terminal may echo what it was told.
func awaitLine(from *bufio.Reader, want string) error {
	for read := 0; read < maxTerminalPreamble; {
		line, err := from.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
		if string(bytes.TrimRight(line, "\r\n")) == want {
			return nil
		}
		read += len(line)
	}
	return errNotReady
}

// Resize implements sandbox.Running.
func (r *running) Resize(ctx context.Context, size sandbox.TerminalSize) error {
	if err := r.resize(ctx, size); err != nil {
		return engineError(err, "resizing the command's terminal").hint("see: belljar doctor")
	}
	return nil
}

func (r *running) resize(ctx context.Context, size sandbox.TerminalSize) error {
	if size.Columns <= 0 || size.Rows <= 0 {
		size = sandbox.TerminalSize{Columns: 80, Rows: 24}
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := r.box.engine.client.ContainerExecResize(ctx, r.id, container.ResizeOptions{Width: uint(size.Columns), Height: uint(size.Rows)})
	if err == nil {
		return nil
	}
	// For a process that has ended the engine says only that something is wrong.
	if about, askErr := r.inspect(ctx); askErr == nil && !about.Running {
		return nil
	}
	select {
	case <-r.copied: // or it went with its container
		return nil
	default:
		return fmt.Errorf("setting the terminal size: %w", err)
	}
}
