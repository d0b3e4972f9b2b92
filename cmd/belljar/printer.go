package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"belljar/config"
	"belljar/sandbox"
	"belljar/view"

	"golang.org/x/term"
)

// printer shows one command in one of the formats.
type printer struct {
	format   string
	out, err io.Writer
	streams  [2]io.Writer // where the command's stdout and stderr go, in text
	terminal bool         // err is a terminal
	file     *outputFile  // gets all output unchanged; nil for none
	result   *sandbox.Result
	report   reporter
	broken   error // the first failure to write
}

func newPrinter(format string) (*printer, error) {
	switch format {
	case "text", "json", "ndjson", "report", "report-brief":
		return &printer{
			format: format, out: os.Stdout, err: os.Stderr, streams: [2]io.Writer{os.Stdout, os.Stderr},
			terminal: term.IsTerminal(int(os.Stderr.Fd())), report: reporter{brief: format == "report-brief"},
		}, nil
	}
	return nil, usagef("--format %q is unknown: use text, json, ndjson, report or report-brief", format)
}

// event shows one event. After an error, further output is
// dropped.
func (p *printer) event(e sandbox.Event) error {
	if e.Type == sandbox.EventResult {
		p.result = e.Result
	}
	if e.Type == sandbox.EventStdout || e.Type == sandbox.EventStderr {
		p.file.write(e.Data)
	}
	if p.broken != nil {
		return nil
	}
	switch p.format {
	case "text":
		p.broken = p.text(e)
	case "json":
		if e.Type == sandbox.EventResult {
			p.broken = p.line(*e.Result)
		}
	case "ndjson":
		p.broken = p.line(e)
	default:
		p.broken = p.report.event(p.out, e)
	}
	return p.broken
}

func (p *printer) text(e sandbox.Event) error {
	var err error
	switch e.Type {
	case sandbox.EventStdout:
		_, err = p.streams[0].Write(e.Data)
	case sandbox.EventStderr:
		_, err = p.streams[1].Write(e.Data)
	case sandbox.EventNotice:
		if !e.Binary && (!e.Waits || p.terminal) { // a reader of the bytes notices that by itself
			p.say(string(e.Data))
		}
	case sandbox.EventResult:
		if err = flushAll(p.streams[:]); err == nil {
			p.story(*e.Result)
		}
	}
	return err
}

// safe makes the streams safe to display.
func (p *printer) safe() {
	for i, w := range p.streams {
		p.streams[i] = view.NewSafeWriter(w)
	}
}

// flushAll makes safe writers write what they held back.
func flushAll(to []io.Writer) error {
	var errs []error
	for _, w := range to {
		if safe, ok := w.(*view.SafeWriter); ok {
			errs = append(errs, safe.Flush())
		}
	}
	return errors.Join(errs...)
}

// line writes a result or an event as a line of JSON.
func (p *printer) line(v interface{ WriteJSON(io.Writer) error }) error {
	if err := v.WriteJSON(p.out); err != nil {
		return err
	}
	_, err := io.WriteString(p.out, "\n")
	return err
}

// story says why the command ended, unless its exit status says it. If the command
// exited by itself, it is for terminals only: to a program, stderr belongs to the
// command, and everything is in the JSON.
func (p *printer) story(r sandbox.Result) {
	if e := r.Evidence.OutputError; e != "" {
		p.say("output may be missing: " + e)
	}
	if r.ExitCode >= 0 && !p.terminal {
		return
	}
	if r.Message != "" {
		p.say(r.Message)
	}
	if r.Summary != "" {
		for line := range strings.Lines(strings.TrimSpace(r.Summary)) {
			p.say("summary: " + strings.TrimSuffix(line, "\n"))
		}
	}
	for _, l := range r.Lingering {
		whose := ""
		if l.CommandID != "" && l.CommandID != r.ID {
			whose = " (of command " + view.SafeLine(l.CommandID) + ")"
		}
		p.say("was still running: " + processLine(l) + whose)
	}
	if e := r.Evidence.ListError; e != "" {
		p.say("cannot list what was still running: " + e)
	}
}

// processLine is one line: an argument with a line end must not fake another.
func processLine(l sandbox.Process) string {
	if l.PID == 0 {
		return fmt.Sprintf("%d (on the engine's host) %s", l.HostPID, view.SafeLine(l.Command))
	}
	return fmt.Sprintf("%d %s", l.PID, view.SafeLine(l.Command))
}

func (p *printer) say(text string) { tell(p.err, text) }

// tell writes a message of belljar as one line, whatever names from a caller, a file
// or an image it contains: they cannot fake another message.
func tell(w io.Writer, text string) { fmt.Fprintln(w, "belljar: "+view.SafeLine(text)) }

// tellError writes each problem of a configuration as a message.
func tellError(w io.Writer, err error) {
	if problems, ok := errors.AsType[config.Problems](err); ok {
		for _, line := range problems.Lines() {
			tell(w, line)
		}
		return
	}
	// Quote the caller's text in cobra's message.
	text, names, _ := strings.Cut(err.Error(), "\n\nDid you mean this?\n\t")
	if names != "" {
		text += " (did you mean " + strings.ReplaceAll(strings.TrimSpace(names), "\n\t", " or ") + "?)"
	} else if of := strings.LastIndex(text, `" for "belljar`); of > 0 && strings.HasPrefix(text, "unknown command ") {
		text += " (see: " + strings.Trim(text[of+len(`" for `):], `"`) + " --help)"
	}
	tell(w, text)
}

// refused shows a command that never began.
func (p *printer) refused(c sandbox.Command, err error) error {
	p.file.drop()
	r := sandbox.Refused(c, err)
	tellError(p.err, err)
	switch p.format {
	case "json":
		p.broken = p.line(r)
	case "ndjson":
		p.broken = p.line(sandbox.Event{Type: sandbox.EventResult, Seq: 1, Time: time.Now(), Result: &r})
	case "report", "report-brief":
		p.broken = p.report.write(p.out, r)
	}
	return exitError(exitStatus(r))
}

// exit is the program's exit status. Output that could not be written is a failure of
// belljar, whatever the command did.
func (p *printer) exit() error {
	if err := p.written(); err != nil {
		return err
	}
	if code := exitStatus(*p.result); code != 0 {
		return exitError(code)
	}
	return nil
}

// written reports that some output could not be written, unless its reader went
// away on purpose.
func (p *printer) written() error {
	if err := p.file.close(); err != nil {
		p.say("writing the output file: " + err.Error())
		return exitError(exitFailed)
	}
	if p.broken != nil && !errors.Is(p.broken, syscall.EPIPE) {
		p.say("writing the output: " + p.broken.Error())
		return exitError(exitFailed)
	}
	return nil
}

// exitStatus is what belljar run exits with.
func exitStatus(r sandbox.Result) int {
	switch r.Status {
	case sandbox.StatusSuccess, sandbox.StatusError:
		if r.ExitCode < 0 {
			return exitKilled // by belljar, at a limit other than time
		}
		return r.ExitCode
	case sandbox.StatusTimeout:
		return exitTimeout
	case sandbox.StatusCanceled:
		return exitCanceled
	case sandbox.StatusDenied:
		return exitDenied
	}
	return exitFailed
}
