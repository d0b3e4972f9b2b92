package policy

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"belljar/sandbox"
)

// Judge decides on a script. Without Commands it is allowed: not judged.
func (r Rules) Judge(script string) Verdict {
	if r.Commands == nil {
		return Verdict{Decision: Allow, Reason: "there is no command policy, so scripts are not judged"}
	}
	return r.Commands.Judge(script)
}

// CheckScript refuses a script that is not allowed with a *sandbox.Error that
// names the rule, the reason and the place. What needs an approval is refused,
// too: there is nobody to ask.
func (r Rules) CheckScript(script string) error {
	v := r.Judge(script)
	if v.Decision == Allow {
		return nil
	}
	message := "the command policy denies it"
	if v.Decision == Ask {
		message = "the command policy wants an approval, and nobody is there to ask"
	}
	message += ": " + v.Who()
	if v.Span.Line > 0 {
		message += fmt.Sprintf(" at %d:%d, %s", v.Span.Line, v.Span.Column, excerpt(script, v.Span))
	}
	if v.Reason != "" {
		message += ": " + v.Reason
	}
	return &sandbox.Error{Cause: sandbox.CauseDenied, Message: message, Hint: "`belljar policy explain SCRIPT` shows where"}
}

// Who is what decided, as messages name it: `rule "x"`, or "default".
func (v Verdict) Who() string {
	if v.Rule == "" {
		return "default"
	}
	return fmt.Sprintf("rule %q", v.Rule)
}

// excerpt quotes the span, cut where it is long: scripts may be large.
func excerpt(script string, at Span) string {
	const most = 60 // bytes
	text := script[min(at.Start, len(script)):min(at.End, len(script))]
	if len(text) <= most {
		return fmt.Sprintf("%q", text)
	}
	end := most
	for end > most-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return fmt.Sprintf("%q…", strings.TrimRight(text[:end], " \t\n"))
}
