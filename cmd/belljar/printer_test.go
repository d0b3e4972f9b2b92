package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"belljar/sandbox"
)

// printed is what a printer of the text format writes.
func printed(t *testing.T, change func(p *printer), events ...sandbox.Event) (stdout, stderr, said string) {
	t.Helper()
	var out, errs, own bytes.Buffer
	p := &printer{format: "text", err: &own, streams: [2]io.Writer{&out, &errs}}
	change(p)
	for _, e := range events {
		if err := p.event(e); err != nil {
			t.Fatal(err)
		}
	}
	return out.String(), errs.String(), own.String()
}

// What cannot be written in one place is written in the others, and all is told.
func TestPrinterWritesTheRest(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "collected")
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	p := &printer{
		format: "text", err: &said, saveTo: dir, broken: syscall.ENOSPC,
		file:   &outputFile{file: full, broken: syscall.EIO, stop: func() bool { return true }},
		result: &sandbox.Result{Files: []sandbox.CollectedFile{{Path: "f", Content: []byte("text"), Size: 4, Mode: 0o644}}},
	}
	if err := p.written(); err == nil {
		t.Error("no error")
	}
	for _, want := range []string{"writing the output file: ", "writing the output: "} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("said %q, not %q", said.String(), want)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "f")); string(text) != "text" {
		t.Errorf("collected %q, %v", text, err)
	}
}

// In text, the output streams on, as bytes; views are shown at the end, if asked for.
func TestPrinterShowsViews(t *testing.T) {
	r := &sandbox.Result{Views: &sandbox.Views{Stdout: &sandbox.Text{Text: "view"}, Stderr: &sandbox.Text{Text: "other\n"}}}
	events := []sandbox.Event{
		{Type: sandbox.EventStdout, Data: []byte("out\xff\x00")}, {Type: sandbox.EventStderr, Data: []byte("err")},
		{Type: sandbox.EventNotice, LeftOut: 5, Data: []byte("5 bytes are left out")}, {Type: sandbox.EventResult, Result: r},
	}
	if stdout, stderr, said := printed(t, func(*printer) {}, events...); stdout != "out\xff\x00" || stderr != "err" || said != "" {
		t.Errorf("%q, %q, %q", stdout, stderr, said)
	}
	viewed := func(p *printer) { p.viewed = true }
	if stdout, stderr, said := printed(t, viewed, events...); stdout != "view\n" || stderr != "other\n" || said != "belljar: 5 bytes are left out\n" {
		t.Errorf("%q, %q, %q", stdout, stderr, said)
	}
	r.Views = &sandbox.Views{Merged: &sandbox.Text{Text: "both"}}
	if stdout, stderr, _ := printed(t, viewed, events...); stdout != "both\n" || stderr != "" {
		t.Errorf("%q, %q", stdout, stderr)
	}
}

// Where text turns to binary data, a stream that is made safe stops.
func TestPrinterStopsAtBinary(t *testing.T) {
	data := strings.Repeat("\x00\x01\xff", 100)
	stdout, stderr, said := printed(t, func(p *printer) { p.textOnly(true) },
		sandbox.Event{Type: sandbox.EventStdout, Data: []byte("text\x1b\n" + data)}, sandbox.Event{Type: sandbox.EventStdout, Data: []byte("more text\n")},
		sandbox.Event{Type: sandbox.EventStderr, Data: []byte("caf\xe9\n")}, sandbox.Event{Type: sandbox.EventResult, Result: &sandbox.Result{}})
	if stdout != `text\x1b`+"\n" || stderr != `caf\xe9`+"\n" || said != "belljar: stdout is binary: 310 bytes are not shown (write them to a file, or pipe them into a program)\n" {
		t.Errorf("%q, %q, %q", stdout, stderr, said)
	}
}
