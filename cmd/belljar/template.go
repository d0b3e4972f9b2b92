package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"belljar/cmd/internal/template"
	"belljar/sandbox"
	"belljar/view"
)

// checkTemplate refuses flags that do nothing with a template.
func (f *runFlags) checkTemplate() error {
	_, viewed := f.keys["view.mode"]
	switch {
	case f.stdin || f.tty:
		return usagef("--template runs commands without stdin and without a terminal: leave out -i and -t")
	case f.file != "":
		return usagef("--template writes its text to stdout: leave out --output-file")
	case f.live != string(sandbox.LiveRaw) || f.format == "ndjson":
		return usagef("--template prints nothing before the whole text: leave out --live and --format ndjson")
	case isReport(f.format):
		return usagef("--template and --format %s exclude each other: leave out one", f.format)
	case viewed:
		return usagef("--template always uses merged views: leave out --view")
	}
	return nil
}

// filling is a template while it is filled in. nil means no template.
type filling struct {
	name     string // the file's name
	template *template.Template
	args     string
	commands []template.Command
	json     bool
	show     *printer
}

// openTemplate reads the template, and fills in the arguments.
func openTemplate(ctx context.Context, f *runFlags, words []string, show *printer) (*filling, error) {
	if f.template == "" {
		return nil, nil
	}
	if err := f.checkTemplate(); err != nil {
		return nil, err
	}
	if len(words) > 0 {
		return nil, usagef("--template contains the commands: leave out %q", words[0])
	}
	text, err := readTemplate(ctx, f.template)
	if ctx.Err() != nil {
		return nil, err
	}
	if err != nil {
		return nil, &sandbox.Error{
			Cause: sandbox.CauseInvalid, Message: fmt.Sprintf("reading --template %q", f.template), Err: bare(err),
			Hint: "name a readable file, or - for stdin",
		}
	}
	fill := &filling{name: f.template, json: f.format == "json", show: show}
	if fill.template, err = template.Parse(text); err != nil {
		return nil, fill.wrong(err)
	}
	switch has := fill.template.HasArgs(); {
	case has && f.args == nil:
		line, column := fill.template.Args()
		return nil, usagef("--template %s:%d:%d: {{args}} needs a value: add --args TEXT", f.template, line, column)
	case f.args != nil && !has:
		return nil, usagef("--template %s has no {{args}}: leave out --args, or write {{args}} where the text goes", f.template)
	case has:
		fill.args = *f.args
	}
	if fill.commands, err = fill.template.Commands(fill.args); err != nil {
		return nil, fill.wrong(err)
	}
	return fill, nil
}

func readTemplate(ctx context.Context, name string) (string, error) {
	read := func() ([]byte, error) { return readInput(ctx, name, template.MaxBytes) }
	if name == "-" {
		read = func() ([]byte, error) { return readStdin(ctx, template.MaxBytes) }
	}
	text, err := read()
	if _, long := errors.AsType[tooLong](err); long {
		err = nil // the parser reports the error, with a hint
	}
	return string(text), err
}

func (t *filling) wrong(err error) error {
	return &sandbox.Error{Cause: sandbox.CauseInvalid, Message: "--template " + t.name + ":" + err.Error()}
}

// place describes where in the template a command is.
func (t *filling) place(i int) string {
	return fmt.Sprintf("%s:%d:%d", t.name, t.commands[i].Line, t.commands[i].Column)
}

// run runs the commands, if all are allowed, and writes the text. A command that is
// refused or fails after others ran ends it; their output is not lost.
func (t *filling) run(ctx context.Context, runner sandbox.Preparer, like sandbox.Command, kill <-chan struct{}) error {
	like.View.Mode = sandbox.ViewMerged
	prepared := make([]sandbox.Prepared, len(t.commands))
	for i, command := range t.commands {
		like.Script = command.Script
		var err error
		if prepared[i], err = runner.Prepare(ctx, like); err != nil {
			return t.show.refused(like, fmt.Errorf("%s: %w", t.place(i), err))
		}
	}
	var outputs []string
	var results []sandbox.Result
	status := 0
	for i, p := range prepared {
		like.Script = t.commands[i].Script
		r := t.one(ctx, i, p, like, kill)
		outputs = append(outputs, said(r))
		if t.json {
			results = append(results, r)
		}
		if !ended(r) {
			t.show.say(t.place(i) + ": " + r.Message)
			if status = exitStatus(r); i == 0 && output(r) == "" {
				if t.json {
					t.show.broken = t.show.line(r)
				}
				return exitError(status)
			}
			break
		}
	}
	for last := len(outputs) - 1; len(outputs) < len(prepared); {
		outputs = append(outputs, fmt.Sprintf("[not run: the command at %s did not finish]", view.SafeLine(t.place(last))))
	}
	t.show.broken = t.write(t.template.Fill(t.args, outputs), results)
	if err := t.show.written(); err != nil || status == 0 {
		return err
	}
	return exitError(status)
}

// ended reports whether the template may continue after a command's end: it ended by
// itself, or by a limit.
func ended(r sandbox.Result) bool {
	return r.Status != sandbox.StatusFatal && r.Status != sandbox.StatusDenied && r.Status != sandbox.StatusCanceled
}

// one runs a command.
func (t *filling) one(ctx context.Context, i int, p sandbox.Prepared, like sandbox.Command, kill <-chan struct{}) sandbox.Result {
	x, err := p.Start(ctx)
	if err != nil {
		return sandbox.Refused(like, err)
	}
	return t.follow(i, x, kill)
}

// follow waits for a command's result, and shows notices meanwhile.
func (t *filling) follow(i int, x sandbox.Execution, kill <-chan struct{}) (r sandbox.Result) {
	if t.show.terminal {
		t.show.say(t.place(i) + ": " + cut(t.commands[i].Script, 100))
	}
	for {
		select {
		case <-kill:
			x.Kill()
			kill = nil
		case event, more := <-x.Events():
			if !more {
				return r
			}
			if event.Type == sandbox.EventNotice && !event.Binary {
				t.show.say(t.place(i) + ": " + string(event.Data))
			}
			if event.Type == sandbox.EventResult {
				r = *event.Result
			}
		}
	}
}

// said is what replaces a command: its output, and how it ended on a line of
// its own.
func said(r sandbox.Result) string {
	text := output(r)
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if r.Cause == sandbox.CauseExited {
		return fmt.Sprintf("%s[exit status %d]", text, r.ExitCode)
	}
	return fmt.Sprintf("%s[%s: %s]", text, r.Status, view.SafeLine(r.Message))
}

func output(r sandbox.Result) string {
	if r.Views != nil && r.Views.Merged != nil {
		return r.Views.Merged.Text
	}
	return ""
}

func (t *filling) write(text string, results []sandbox.Result) error {
	if !t.json {
		if _, err := io.WriteString(t.show.streams[0], text); err != nil {
			return err
		}
		return flushAll(t.show.streams, t.show.say)
	}
	quoted, err := sandbox.JSON(text)
	if err == nil {
		_, err = fmt.Fprintf(t.show.out, `{"text":%s,"results":[`, quoted)
	}
	for i, r := range results {
		if i > 0 && err == nil {
			_, err = io.WriteString(t.show.out, ",")
		}
		if err == nil {
			err = r.WriteJSON(t.show.out)
		}
	}
	if err == nil {
		_, err = io.WriteString(t.show.out, "]}\n")
	}
	return err
}
