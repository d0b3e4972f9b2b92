package images

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"belljar/view"
)

const (
	// stepGrace is the time that a canceled tool gets to clean up.
	stepGrace = 20 * time.Second

	tailSize = 8 << 10 // bytes
	maxLines = 4       // of a tool's errors
)

// runStep runs one tool in a work directory. Its output goes to stdout, or,
// if that is nil, is treated as messages. Its failure is an *errTool.
func (m maker) runStep(ctx context.Context, work *workdir, stdout io.Writer, args []string) error {
	var last tail
	said := view.NewSafeWriter(m.progress)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = stdout, io.MultiWriter(&last, said)
	if stdout == nil {
		cmd.Stdout = cmd.Stderr
	}
	// Fixes the times in the tree, so that equal packages give equal trees.
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=0", "LC_ALL=C.UTF-8", "TMPDIR="+work.path)
	cmd.ExtraFiles = []*os.File{work.lock} // held as long as one of its processes lives
	// Killed at once, it would leave mounts behind; and mmdebstrap, if only it is
	// signaled, waits for its children to finish.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS // its mounts end with it, on every path
	}
	runtime.LockOSThread() // the tool is signaled when this thread ends
	defer runtime.UnlockOSThread()
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = stepGrace
	err := cmd.Run()
	_ = said.Flush() // what cannot be shown fails no build
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("running %q: %w", filepath.Base(args[0]), ctx.Err())
	default:
		return &errTool{filepath.Base(args[0]), last.String(), err}
	}
}

// errTool is a tool's failure.
type errTool struct {
	tool string
	said string // its last output
	err  error
}

func (e *errTool) Unwrap() error { return e.err }

func (e *errTool) Error() string {
	text := fmt.Sprintf("%s: %v", e.tool, e.err)
	if lines := errorLines(e.said); len(lines) > 0 {
		text += ": " + strings.Join(lines, "; ")
	}
	return text
}

// errorLines are the first that apt, dpkg and debootstrap mark as errors, or
// else the last ones. The lines after an error only report that they give up.
func errorLines(said string) []string {
	var all, marked []string
	for line := range strings.Lines(said) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		all = append(all, line)
		if text, ok := strings.CutPrefix(line, "E: "); ok {
			marked = append(marked, text)
		}
	}
	if len(marked) > 0 {
		return marked[:min(len(marked), maxLines)]
	}
	return all[max(0, len(all)-maxLines):]
}

// tail keeps the last tailSize bytes written to it.
type tail struct{ kept []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if extra := len(t.kept) - tailSize; extra > 0 {
		t.kept = append(t.kept[:0], t.kept[extra:]...)
	}
	return len(p), nil
}

func (t *tail) String() string { return string(t.kept) }
