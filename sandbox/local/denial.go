package local

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"belljar/sandbox"
)

// denial refuses a script, and says by which rule, where and why.
func denial(script string, v sandbox.Verdict, message string) *sandbox.Error {
	message += ": " + v.Who()
	if v.Span.Line > 0 {
		message += fmt.Sprintf(" at %v, %s", v.Span, excerpt(script, v.Span))
	}
	if v.Reason != "" {
		message += ": " + v.Reason
	}
	return &sandbox.Error{Cause: sandbox.CauseDenied, Message: message, Hint: "`belljar policy explain SCRIPT` shows where"}
}

// excerpt quotes the span, cut where it is long: scripts may be large.
func excerpt(script string, at sandbox.ScriptSpan) string {
	most := 60 // bytes
	text := script[min(at.Start, len(script)):min(at.End, len(script))]
	if len(text) <= most {
		return fmt.Sprintf("%q", text)
	}
	for i := most; i > most-utf8.UTFMax; i-- {
		if utf8.RuneStart(text[i]) {
			most = i
			break
		}
	}
	return fmt.Sprintf("%q…", strings.TrimRight(text[:most], " \t\n"))
}
