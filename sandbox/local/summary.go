package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"

	"belljar/internal/hostprog"
	"belljar/sandbox"
	"belljar/sandbox/internal/spool"
)

const (
	maxSummary       = 64 << 10 // bytes of a summary
	maxToldCommand   = 32 << 10 // bytes of the command that the program is told
	maxSummaryStderr = 1 << 10  // bytes of stderr that an error quotes, the last
)

// wantsSummary reports whether a command with that much output is to be summarized.
func wantsSummary(s sandbox.Summarize, written int64) bool {
	return len(s.Command) > 0 && written > s.Over
}

// summarized is what the program is told of a command, beside its output.
type summarized struct {
	command  string // masked
	exitCode int
	most     int // bytes that are used of the summary
}

// env is what the program gets as variables. A command that is too long for one is cut.
func (s summarized) env() []string {
	command := []byte(strings.ReplaceAll(s.command, "\x00", ""))
	if len(command) > maxToldCommand {
		command = spool.WholeRunes(command[:maxToldCommand])
	}
	return []string{
		"BELLJAR_COMMAND=" + string(command),
		"BELLJAR_EXIT_CODE=" + strconv.Itoa(s.exitCode),
		"BELLJAR_SUMMARY_BYTES=" + strconv.Itoa(s.most),
	}
}

// runSummary runs the program with the output on stdin, and returns what it writes to
// stdout: valid UTF-8, never empty, cut where it is longer than about.most, and otherwise
// as the program wrote it. It is untrusted: the program read a command's output.
//
// It is called after the command's end, and returns when the program, and what
// are left of its process group, are gone: at the latest a second after Timeout,
// or after ctx is cancelled, which kills them. The program need not read all;
// output must not block. An error says why there is no summary.
func runSummary(ctx context.Context, about summarized, s sandbox.Summarize, output io.Reader) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	stdout, stderr := &firstBytes{most: about.most}, &lastBytes{}
	cmd := exec.Command(s.Command[0], s.Command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env = output, stdout, stderr, about.env()
	err := hostprog.Run(ctx, cmd)
	text := stdout.String()
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("not finished after %s (raise summarize.timeout)", sandbox.FormatDuration(s.Timeout))
	case err != nil && !errors.Is(err, context.Canceled):
		err = fmt.Errorf("%w%s (check summarize.command)", err, stderr)
	case err == nil && text == "":
		err = fmt.Errorf("it wrote nothing to stdout%s (check summarize.command)", stderr)
	}
	if err != nil {
		return "", fmt.Errorf("running %q: %w", s.Command[0], err)
	}
	return text, nil
}

// firstBytes keeps what fits into a summary, and counts the rest.
type firstBytes struct {
	most  int
	kept  []byte
	total int64
}

func (b *firstBytes) Write(p []byte) (int, error) {
	b.total += int64(len(p))
	b.kept = append(b.kept, p[:min(len(p), b.most-len(b.kept))]...)
	return len(p), nil
}

func (b *firstBytes) String() string {
	if b.total == int64(len(b.kept)) {
		return strings.TrimRight(strings.ToValidUTF8(string(b.kept), "\uFFFD"), " \t\r\n")
	}
	whole := spool.WholeRunes(b.kept)
	return fmt.Sprintf("%s\n[%d more bytes of the summary left out]", strings.ToValidUTF8(string(whole), "\uFFFD"), b.total-int64(len(whole)))
}

// lastBytes keeps the last bytes that a program writes.
type lastBytes struct{ kept []byte }

func (b *lastBytes) Write(p []byte) (int, error) {
	b.kept = append(b.kept, p[max(0, len(p)-maxSummaryStderr):]...)
	b.kept = append(b.kept[:0], b.kept[max(0, len(b.kept)-maxSummaryStderr):]...)
	return len(p), nil
}

// String is one line that is safe for a terminal, to follow an error.
func (b *lastBytes) String() string {
	line := strings.Join(strings.Fields(strings.ToValidUTF8(string(b.kept), "\uFFFD")), " ")
	if line == "" {
		return ""
	}
	return ": " + strconv.Quote(line)
}
