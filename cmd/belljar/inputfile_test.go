package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"belljar/config"
	"belljar/sandbox"
)

func makeFIFO(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// A FIFO without a writer held belljar, deaf to signals.
func TestFIFOIsReadUntilCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	read := make(chan error)
	name := makeFIFO(t)
	go func() { _, err := readInput(ctx, name, 100); read <- err }()
	cancel()
	if err := <-read; sandbox.CauseOf(err) != sandbox.CauseCanceled {
		t.Error(err)
	}
	// Also one with a writer that says nothing more.
	ctx, cancel = context.WithCancel(t.Context())
	go func() { _, err := readInput(ctx, name, 100); read <- err }()
	writer, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	fmt.Fprint(writer, "A=b")
	cancel()
	if err := <-read; sandbox.CauseOf(err) != sandbox.CauseCanceled {
		t.Error(err)
	}
	if _, err := openOutput(ctx, makeFIFO(t)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestFIFOIsRead(t *testing.T) {
	name := makeFIFO(t)
	done := make(chan error)
	go func() {
		writer, err := os.OpenFile(name, os.O_WRONLY, 0) // which waits for the reader
		if err == nil {
			_, err = writer.WriteString("A=b\n")
		}
		done <- errors.Join(err, writer.Close())
	}()
	env, err := envs(t.Context(), []string{name}, []string{"C=d"})
	if err != nil || !slices.Equal(env, []string{"A=b", "C=d"}) || <-done != nil {
		t.Error(env, err)
	}
	// A shell's <(…) is a pipe that has ended, maybe.
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	w.WriteString("A=b")
	w.Close()
	pipe := fmt.Sprintf("/dev/fd/%d", r.Fd())
	for _, want := range []string{"A=b", ""} {
		if text, err := readInput(t.Context(), pipe, 100); err != nil || string(text) != want {
			t.Errorf("%q, %v", text, err)
		}
	}
	for name, want := range map[string]string{t.TempDir(): "directory", "/dev/zero": "longer than 100 bytes", "/nowhere": "no such file"} {
		if _, err := readInput(t.Context(), name, 100); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A byte order mark became part of the first name, and its variable was lost.
func TestEnvLines(t *testing.T) {
	for text, want := range map[string][]string{
		"\ufeffA=b\nC=d":        {"A=b", "C=d"},
		"\ufeff# x\r\nA=b\r\n":  {"A=b"},
		"A=\ufeffb":             {"A=\ufeffb"},
		"A=b\r\r\n\n  \t C=d e": {"A=b\r", "C=d e"},
		"A= x \nB":              {"A= x ", "B"},
		"\ufeff":                nil,
		"":                      nil,
	} {
		if got, err := envLines(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	for _, text := range []string{"A=b\x00", "\xff\xfeA\x00=\x00", "A=\xff", "=b", "export A=b", "A =b"} {
		if got, err := envLines(text); err == nil {
			t.Errorf("%q: %q", text, got)
		}
	}
}

// A line of an env file that is no variable may be a secret: the error only counts it.
func TestEnvFileErrorKeepsSecrets(t *testing.T) {
	for _, line := range []string{"API_KEY: sk-live-5ecret", "sk-live-5ecret", "5ecret of mine", "= 5ecret"} {
		if _, err := envLines("# x\n\nA=b\n" + line + "\n"); err == nil || strings.Contains(err.Error(), "5ecret") || !strings.Contains(err.Error(), "line 4 ") {
			t.Errorf("%q: %v", line, err)
		}
	}
}

// A name with a line end made a second line, which passed for another message.
func TestMessagesAreOneLine(t *testing.T) {
	const forged = "a\nbelljar: forged\r\x1b[2J\u2028\u0085b"
	problem := &config.Problem{Place: forged, Message: "wrong"}
	for name, test := range map[string]struct {
		err   error
		lines int
	}{
		"usage":    {usagef("-v %s", forged), 1},
		"joined":   {errors.Join(errors.New(forged), errors.New("b")), 2},
		"nested":   {errors.Join(nil, errors.Join(errors.New(forged), errors.New("b"))), 2},
		"wrapped":  {fmt.Errorf("both %w and %w", errors.New(forged), errors.New("b")), 1},
		"problem":  {problem, 1},
		"problems": {config.Problems{problem, problem}, 2},
	} {
		var to bytes.Buffer
		tellError(&to, test.err)
		if lines := strings.Split(strings.TrimSuffix(to.String(), "\n"), "\n"); len(lines) != test.lines || strings.ContainsAny(to.String(), "\r\x1b\u2028\u0085") {
			t.Errorf("%s: %q", name, lines)
		}
		if name == "wrapped" && !strings.HasPrefix(to.String(), "belljar: both a") {
			t.Errorf("%q", &to)
		}
	}
	var to bytes.Buffer
	p := printer{err: &to, terminal: true}
	p.story(sandbox.Result{Message: forged, Summary: "one\nbelljar: forged\n", Lingering: []sandbox.Process{{PID: 3, Command: forged}}})
	p.event(sandbox.Event{Type: sandbox.EventNotice, Data: []byte(forged)})
	for line := range strings.Lines(to.String()) {
		if strings.HasPrefix(line, "belljar: forged") || !strings.HasPrefix(line, "belljar: ") {
			t.Errorf("%q", line)
		}
	}
	to.Reset()
	tellError(&to, errors.New("unknown command \"rn\" for \"belljar\"\n\nDid you mean this?\n\trun\n\tps\n"))
	if to.String() != "belljar: unknown command \"rn\" for \"belljar\" (did you mean run or ps?)\n" {
		t.Errorf("%q", &to)
	}
	to.Reset()
	tellError(&to, errors.New(`unknown command "x" for "belljar images ls"`))
	if to.String() != "belljar: unknown command \"x\" for \"belljar images ls\" (see: belljar images ls --help)\n" {
		t.Errorf("%q", &to)
	}
}
