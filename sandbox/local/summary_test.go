package local

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"belljar/sandbox"
)

// shSummary is a program that the host's shell runs.
func shSummary(script string, args ...string) sandbox.Summarize {
	return sandbox.Summarize{Command: append([]string{"sh", "-c", script, "sh"}, args...), Timeout: time.Minute}
}

// endless is output without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestSummaryOfPrograms(t *testing.T) {
	for name, test := range map[string]struct {
		program sandbox.Summarize
		output  io.Reader
		want    string
	}{
		"reads all":           {shSummary("wc -c"), strings.NewReader(strings.Repeat("x", 1e6)), "1000000"},
		"reads nothing":       {shSummary("echo enough"), endless{}, "enough"},
		"reads some":          {shSummary("head -c 10 | wc -c"), endless{}, "10"},
		"closes stdin":        {shSummary("exec <&-; echo enough"), endless{}, "enough"},
		"is not UTF-8":        {shSummary(`printf 'a\377b'`), strings.NewReader(""), "a\uFFFDb"},
		"says some on stderr": {shSummary("echo a; echo b >&2"), strings.NewReader(""), "a"},
		"runs in the root":    {shSummary("pwd"), strings.NewReader(""), "/"},
		"stays below 64 KiB":  {shSummary("head -c 65536 /dev/zero | tr '\\0' x"), endless{}, strings.Repeat("x", 65536)},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := runSummary(t.Context(), summarized{most: maxSummary}, test.program, test.output)
			if err != nil || strings.TrimSpace(got) != test.want {
				t.Errorf("%.100q, error %v; want %.100q", got, err, test.want)
			}
		})
	}
}

func TestLongSummaryIsCutBetweenRunes(t *testing.T) {
	got, err := runSummary(t.Context(), summarized{most: maxSummary}, shSummary(`printf a; yes ééé | tr -d '\n' | head -c 200000`), strings.NewReader(""))
	if err != nil {
		t.Fatal(err)
	}
	text, mark, _ := strings.Cut(got, "\n")
	if want := "a" + strings.Repeat("é", 65534/2); text != want || mark != "[134466 more bytes of the summary left out]" {
		t.Errorf("%d bytes, ending in %q, then %q; want %d", len(text), text[max(0, len(text)-5):], mark, len(want))
	}
	if !utf8.ValidString(got) {
		t.Error("not UTF-8")
	}
}

func TestNoSummary(t *testing.T) {
	for name, test := range map[string]struct {
		program sandbox.Summarize
		want    string
	}{
		"fails":       {shSummary(`echo half; printf 'a\n\033[31mb\377\n' >&2; exit 3`), `running "sh": exit status 3: "a \x1b[31mb` + "\uFFFD" + `" (check summarize.command)`},
		"is killed":   {shSummary("kill -9 $$"), `running "sh": signal: killed (check summarize.command)`},
		"is silent":   {shSummary("echo; echo why >&2"), `running "sh": it wrote nothing to stdout: "why" (check summarize.command)`},
		"is missing":  {sandbox.Summarize{Command: []string{"no-such-program"}, Timeout: time.Minute}, `running "no-such-program": starting it: executable file not found in $PATH (check summarize.command)`},
		"is nowhere":  {sandbox.Summarize{Command: []string{"/no/such"}, Timeout: time.Minute}, `running "/no/such": starting it: fork/exec /no/such: no such file or directory (check summarize.command)`},
		"takes long":  {sandbox.Summarize{Command: []string{"sleep", "1000"}, Timeout: 50 * time.Millisecond}, `running "sleep": not finished after 50ms (raise summarize.timeout)`},
		"never stops": {sandbox.Summarize{Command: []string{"yes"}, Timeout: 50 * time.Millisecond}, `running "yes": not finished after 50ms (raise summarize.timeout)`},
		"defies TERM": {sandbox.Summarize{Command: []string{"sh", "-c", "trap '' TERM INT HUP; sleep 1000; sleep 1000"}, Timeout: 50 * time.Millisecond}, `running "sh": not finished after 50ms (raise summarize.timeout)`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := runSummary(t.Context(), summarized{most: maxSummary}, test.program, endless{})
			if err == nil || err.Error() != test.want || got != "" {
				t.Errorf("%q, error %v; want %s", got, err, test.want)
			}
		})
	}
}

// Half of the output is not what the summary would be of.
func TestSummaryOfUnreadableOutput(t *testing.T) {
	broken := errors.New("broken")
	got, err := runSummary(t.Context(), summarized{most: maxSummary}, shSummary("wc -c"), io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(broken)))
	if !errors.Is(err, broken) || got != "" {
		t.Errorf("%q, error %v", got, err)
	}
}

func TestCanceledSummary(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	// Read is called when the program runs.
	output := readerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil })
	if got, err := runSummary(ctx, summarized{most: maxSummary}, shSummary("sleep 1000"), output); !errors.Is(err, context.Canceled) || got != "" {
		t.Errorf("%q, error %v", got, err)
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// What a program leaves in its group is killed with its end.
func TestSummaryLeavesNothing(t *testing.T) {
	fifo := mkfifo(t)
	// Opened for both, so that neither side waits for the other.
	held, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	reader, err := os.OpenFile(fifo, os.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	for name, test := range map[string]struct {
		script  string
		timeout time.Duration
		want    string
	}{
		"it ends":      {`sleep 1000 3>"$1" & echo sum`, time.Minute, "sum"},
		"it is killed": {`sleep 1000 3>"$1" & wait`, 50 * time.Millisecond, ""},
	} {
		s := shSummary(test.script, fifo)
		s.Timeout = test.timeout
		if got, err := runSummary(t.Context(), summarized{most: maxSummary}, s, endless{}); got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%s: %q, error %v", name, got, err)
		}
	}
	held.Close()
	if _, err := io.Copy(io.Discard, reader); err != nil { // ends with the last that holds it
		t.Error(err)
	}
}

func mkfifo(t *testing.T) string {
	t.Helper()
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	return fifo
}

// What left the program's group and holds its pipes delays the summary, but
// does not stop it.
func TestSummaryOfAProgramWithADaemon(t *testing.T) {
	const script = `setsid sh -c 'echo >"$1"; exec sleep 1000' sh "$1" & pid=$!; read -r _ <"$1"; echo $pid`
	got, err := runSummary(t.Context(), summarized{most: maxSummary}, shSummary(script, mkfifo(t)), endless{})
	pid, notNumber := strconv.Atoi(got)
	if err != nil || notNumber != nil {
		t.Fatalf("%q, error %v", got, err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Errorf("the daemon: %v", err)
	}
}

func TestSummaryEnvironment(t *testing.T) {
	t.Setenv("SECRET", "1")
	t.Setenv("HOME", "/home/me")
	t.Setenv("LANG", "C.UTF-8")
	about := summarized{"make test", 2, 1000}
	got, err := runSummary(t.Context(), about, sandbox.Summarize{Command: []string{"env"}, Timeout: time.Minute}, &bytes.Buffer{})
	lines := strings.Split(got, "\n")
	if want := []string{"PATH=" + os.Getenv("PATH"), "HOME=/home/me", "LANG=C.UTF-8", "BELLJAR_COMMAND=make test", "BELLJAR_EXIT_CODE=2", "BELLJAR_SUMMARY_BYTES=1000"}; err != nil || !slices.Equal(lines, want) {
		t.Errorf("%q, error %v; want %q", lines, err, want)
	}
}

// A command that is too long for a variable is cut between characters, and a summary
// that is longer than asked for, too.
func TestSummaryIsToldBounds(t *testing.T) {
	about := summarized{command: "a\x00" + strings.Repeat("é", maxToldCommand), most: 100}
	got, err := runSummary(t.Context(), about, shSummary(`printf %s "$BELLJAR_COMMAND" | wc -c; printf %s "$BELLJAR_COMMAND" | tail -c 2; yes | head -c 200`), &bytes.Buffer{})
	if err != nil || !strings.HasPrefix(got, strconv.Itoa(maxToldCommand-1)+"\né") || !strings.HasSuffix(got, "more bytes of the summary left out]") || len(got) > 150 {
		t.Errorf("%q, error %v", got, err)
	}
}

func TestWantsSummary(t *testing.T) {
	s := sandbox.Summarize{Command: []string{"sum"}, Over: 10}
	if wantsSummary(s, 10) || !wantsSummary(s, 11) || wantsSummary((sandbox.Summarize{}), 1) {
		t.Error("wrong")
	}
}
