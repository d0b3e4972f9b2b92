package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"belljar/config"
	"belljar/view"
)

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
	if several := joined(err); len(several) > 0 {
		for _, one := range several {
			tellError(w, one)
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

// joined are the errors that errors.Join made one of. An error that only mentions others says more
// than they do.
func joined(err error) (all []error) {
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		all = several.Unwrap()
	}
	texts := make([]string, len(all))
	for i, one := range all {
		texts[i] = one.Error()
	}
	if strings.Join(texts, "\n") != err.Error() {
		return nil
	}
	return all
}
