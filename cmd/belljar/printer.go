package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

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
	viewed   bool         // in text, the result's views are shown instead of the output
	file     *outputFile  // gets all output unchanged; nil for none
	saveTo   string       // a directory for collected files; "" for none
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
	case sandbox.EventStdout, sandbox.EventStderr:
		if !p.viewed {
			_, err = p.stream(e.Type == sandbox.EventStderr).Write(e.Data)
		}
	case sandbox.EventNotice:
		// A reader of the bytes notices by itself that they are binary, and has all of them.
		if !e.Binary && (!e.Waits || p.terminal) && (e.LeftOut == 0 || p.viewed) {
			p.say(string(e.Data))
		}
	case sandbox.EventResult:
		if err = p.views(e.Result.Views); err == nil {
			err = flushAll(p.streams, p.say)
		}
		if err == nil {
			p.story(*e.Result)
		}
	}
	return err
}

func (p *printer) stream(isStderr bool) io.Writer {
	if isStderr {
		return p.streams[1]
	}
	return p.streams[0]
}

// views shows the views, if they are to be shown.
func (p *printer) views(v *sandbox.Views) error {
	if !p.viewed || v == nil {
		return nil
	}
	for i, text := range []*sandbox.Text{v.Merged, v.Stdout, v.Stderr} {
		if text == nil || text.Text == "" {
			continue
		}
		if _, err := io.WriteString(p.stream(i == 2), strings.TrimSuffix(text.Text, "\n")+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// textOnly stops the streams at binary data: all of them if they are made safe to
// display, otherwise those that go to a terminal.
func (p *printer) textOnly(safe bool) {
	for i, w := range p.streams {
		if safe || isTerminal(w) {
			p.streams[i] = view.NewTextWriter(w, safe)
		}
	}
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// flushAll makes text writers write what they held back, and says what they did not write.
func flushAll(streams [2]io.Writer, say func(text string)) error {
	var errs []error
	for i, w := range streams {
		if text, ok := w.(*view.TextWriter); ok {
			errs = append(errs, text.Flush())
			if n := text.Data(); n > 0 {
				say(fmt.Sprintf("%s is binary: %d bytes are not shown (write them to a file, or pipe them into a program)", [2]string{"stdout", "stderr"}[i], n))
			}
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
func (p *printer) written() (failed error) {
	told := func(what string, err error) {
		if err != nil {
			p.say(what + ": " + err.Error())
			failed = exitError(exitFailed)
		}
	}
	told("writing the output file", p.file.close())
	if p.saveTo != "" && p.result != nil {
		told("writing the collected files", saveCollected(p.saveTo, p.result, p.say))
	}
	if !errors.Is(p.broken, syscall.EPIPE) {
		told("writing the output", p.broken)
	}
	return failed
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
