package images

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

const (
	// stepGrace is what a cancelled tool gets to clean up.
	stepGrace = 20 * time.Second

	tailSize = 600 // bytes, a few lines
)

// runStep runs one tool with its output going to stdout, and its last words in
// the error.
func (s *Store) runStep(ctx context.Context, stdout io.Writer, args []string) error {
	var last tail
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdout = stdout
	cmd.Stderr = io.MultiWriter(&last, s.progress())
	// Clamps the times in the tree, so that equal packages give equal trees.
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=0", "LC_ALL=C.UTF-8")
	// Killed outright, it would leave mounts behind; and mmdebstrap, told
	// alone, waits for what it started to finish in its own time.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = stepGrace
	err := cmd.Run()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("running %q: %w", filepath.Base(args[0]), ctx.Err())
	default:
		return refuse(quoted{errors.Join(err, errors.New(last.String()))},
			"check the packages and the suite; it takes root and the network", "running %q", filepath.Base(args[0]))
	}
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
