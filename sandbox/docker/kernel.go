package docker

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"

	"belljar/sandbox"
)

// Under a runtime that brings a kernel of its own, as gVisor's does, memory and
// processes that run out take that kernel with them, and with it everything in
// the container. What started the command then ends in its place, with a status
// and words of its own: neither are the command's.

// runtimeFailed is the exit status of runsc where it failed itself.
const runtimeFailed = 128

// fate is the exit status of a command under a kernel of its own, or why it is
// not known.
func (r *running) fate(ctx context.Context, status int) (int, error) {
	b := r.box
	if b.sharesKernel() || b.ending.Load() || status != runtimeFailed && status != killed {
		return status, nil
	}
	counted := b.inspector.count() // the counts go with the container
	if b.settle(ctx) {
		return status, nil
	}
	now := b.watch.until(ctx, func(seen) bool { return true })
	switch {
	case b.stopped(ctx), counted.oomKills > 0, now.oom > 0:
		return killed, nil
	case counted.pidsLimitHits > 0:
		return 0, engineError(nil, "the container's kernel ended as it was refused a thread: limits.pids is %d, of which runtime %s needs some for itself", b.spec.Limits.Pids, b.runtime).
			as(sandbox.CausePidsLimit).hint("raise limits.pids")
	}
	var said error
	if words := oneLine(r.words.String()); words != "" {
		said = errors.New(words)
	}
	return 0, engineError(said, "the container's kernel (runtime %s) ended under the command: its exit status is unknown", b.runtime).
		as(sandbox.CauseEngineLost).hint("run it again; partial output kept")
}

// wordsWriter takes what the runtime writes into a command's stderr out of it:
// lines with the container's full ID, which no command in there knows.
type wordsWriter struct {
	to    io.Writer
	id    string
	words *bytes.Buffer
}

// maxWords bounds what is kept of them.
const maxWords = 4096

func (w wordsWriter) Write(p []byte) (int, error) {
	if !bytes.Contains(p, []byte(w.id)) {
		return w.to.Write(p)
	}
	var rest strings.Builder
	for line := range strings.Lines(string(p)) {
		if strings.Contains(line, w.id) {
			limitWriter{w.words, maxWords}.Write([]byte(line))
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
