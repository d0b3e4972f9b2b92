package docker

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"

	"belljar/sandbox"
	"belljar/sandbox/internal/cgroup"
	"belljar/sandbox/internal/failure"
)

// Under a runtime with a kernel of its own, such as gVisor, running out of memory or
// processes ends that kernel, and with it everything in the container. The process that
// started the command then ends instead, with its own exit status and messages: neither
// are the command's.

// runtimeFailed is the exit status of runsc for its own failures.
const runtimeFailed = 128

// exitStatus is the exit status of a command under a kernel of its own, or an error that
// says why it is unknown.
func (r *running) exitStatus(ctx context.Context, status int) (int, error) {
	b := r.box
	if !b.sharesKernel() && b.ending.Load() && status == runtimeFailed {
		return killed, nil // runsc may fail to tell it once the container is killed
	}
	if b.sharesKernel() || b.ending.Load() || status != runtimeFailed && status != killed {
		return status, nil
	}
	counted := b.inspector.Count() // the counts go with the container
	if b.survived(ctx) {
		return status, nil
	}
	return b.kernelStatus(ctx, counted, r.runtimeText.String())
}

// kernelStatus is the exit status of a command whose container's kernel ended. text is
// what its runtime wrote.
func (b *box) kernelStatus(ctx context.Context, counted cgroup.Counts, text string) (int, error) {
	now, _ := b.watch.now()
	switch {
	case b.stopped(ctx), counted.OOMKills > 0, now.oom > 0:
		return killed, nil
	case counted.PidsLimitHits > 0:
		return 0, engineError(nil, "the container's kernel crashed because it could not start a thread (limits.pids is %d, and runtime %s needs some of them)", b.spec.Limits.Pids, b.runtime).
			As(sandbox.CausePidsLimit).Hint("raise limits.pids")
	}
	var said error
	if words := failure.OneLine(text); words != "" {
		said = errors.New(words)
	}
	how := "crashed"
	if b.root != "" { // or its root ended the init: gVisor lets it
		how = "ended"
	}
	return 0, engineError(said, "the container's kernel (runtime %s) %s while the command ran: its exit status is unknown", b.runtime, how).
		As(sandbox.CauseEngineLost).Hint("partial output kept; run it again")
}

// runtimeFilter removes the runtime's own messages from a command's stderr: lines with
// the container's full ID, which no command in the container knows.
type runtimeFilter struct {
	to    io.Writer
	id    string
	words *bytes.Buffer
}

// maxRuntimeText bounds what is kept of them.
const maxRuntimeText = 4096

func (w runtimeFilter) Write(p []byte) (int, error) {
	if !bytes.Contains(p, []byte(w.id)) {
		return w.to.Write(p)
	}
	var rest strings.Builder
	for line := range strings.Lines(string(p)) {
		if strings.Contains(line, w.id) {
			limitWriter{w.words, maxRuntimeText}.Write([]byte(line))
			continue
		}
		rest.WriteString(line)
	}
	if rest.Len() > 0 {
		if _, err := io.WriteString(w.to, rest.String()); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}
