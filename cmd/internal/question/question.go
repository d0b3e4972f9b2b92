// Package question shows commands that need an approval to the person who decides.
//
// The one rule: nothing that the command's caller wrote can pass for belljar's words, and what
// is asked about is always there to see.
//
//	text := question.Text(q, question.Look{Columns: 80})
package question

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"belljar/internal/limits"
	"belljar/sandbox"
	"belljar/view"
)

const (
	marginScript = 10 // columns before a script's text
	marginField  = 13

	// No other row has the carets' margin: so no text can imitate them.
	marginCarets   = "        ^ "
	marginContinue = "        | "

	longestName = 60 // bytes of a program's name that "always" may allow

	maxScriptRows = 40 // of a script, without those near marked parts
	maxFieldRows  = 12 // of each of the other fields
	nearRows      = 3  // shown before and after what is asked about
	maxListed     = 8  // reasons, and parts that are unknown
)

// LeastColumns are those of a terminal that can show a question.
const LeastColumns = 20

// Look is how a question is shown.
type Look struct {
	Columns int                 // of the terminal, at least LeastColumns
	Colour  func(string) string // of marked parts; nil: none
	Beyond  string              // what "always" covers for a command without a session
}

// Text is a request for approval. Untrusted text
// never begins a line, so that it cannot imitate belljar's, and
// the part that needs the approval is always shown, however long it is.
func Text(q sandbox.Question, look Look) string {
	p := page{columns: max(look.Columns, LeastColumns) - 1, colour: look.Colour}
	if p.colour == nil {
		p.colour = func(text string) string { return text }
	}
	p.WriteString("belljar: the policy requires your approval for this command:\n\n")
	spans := []sandbox.ScriptSpan{q.Verdict.Span}
	reasons := []string{Reason(q.Verdict.Who(), q.Verdict.Span, q.Verdict.Reason)}
	for _, c := range q.Verdict.Asks() {
		spans = append(spans, c.Span)
		if c.Span != q.Verdict.Span {
			reasons = append(reasons, Reason(sandbox.Verdict{Rule: c.Rule}.Who(), c.Span, c.Reason))
		}
	}
	p.script(q.Script, spans)
	p.WriteByte('\n')
	p.fields("reason", reasons)
	p.field("runs", strings.Join(names(q.Verdict.Roots), ", "))
	var unknown []string
	for _, u := range q.Verdict.Unknown {
		unknown = append(unknown, fmt.Sprintf("at %v: %s", u.Span, u.What))
	}
	p.fields("unknown", unknown)
	p.fields("grant", Granted(q.Verdict))
	p.field("in", q.Dir)
	p.surroundings(q)
	p.field("purpose", q.Description)
	if q.Profile != sandbox.DefaultProfile {
		p.field("profile", q.Profile)
	}
	p.field("session", q.Session)
	if q.Always {
		text, _ := Always(q, look)
		p.field("if always", text)
	}
	p.WriteByte('\n')
	return p.String()
}

// Reason says what decided, where and why.
func Reason(who string, at sandbox.ScriptSpan, why string) string {
	if at.Line > 0 {
		who += " at " + at.String()
	}
	if why != "" {
		who += ": " + why
	}
	return who
}

// Always says what an "always" would approve, or why it
// is not offered: no one can approve what is not fully shown.
func Always(q sandbox.Question, look Look) (text string, offered bool) {
	var list []string
	for _, c := range q.Verdict.Asks() {
		if len(c.Program) > longestName || len(c.Rule) > longestName {
			return fmt.Sprintf("not available: a name is longer than %d bytes", longestName), false
		}
		what := name(c.Program) + " by " + sandbox.Verdict{Rule: c.Rule}.Who()
		if !slices.Contains(list, what) {
			list = append(list, what)
		}
	}
	text = strings.Join(list, ", ") + ", until the session ends"
	if q.Session == "" {
		text = strings.Join(list, ", ") + ", " + look.Beyond
	}
	if len(Rows(text, nil, max(look.Columns, LeastColumns)-1-marginField)) > maxFieldRows {
		return "not available: it would cover more than this question shows", false
	}
	return text, true
}

// name is a program's name, quoted if it could be read as several.
func name(program string) string {
	const signs = "-_./+@[:%~"
	if program == "" || strings.ContainsFunc(program, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && !strings.ContainsRune(signs, r)
	}) {
		return strconv.Quote(program)
	}
	return program
}

func names(programs []string) (list []string) {
	for _, program := range programs {
		list = append(list, name(program))
	}
	return list
}

// surroundings are the command's settings that give it more than the minimum.
func (p *page) surroundings(q sandbox.Question) {
	if q.Shell != sandbox.ShellSh {
		p.field("shell", q.Shell)
	}
	p.field("image", q.Image)
	if q.User != (sandbox.User{}) {
		p.field("user", q.User.String())
	}
	if q.Network != "none" {
		p.field("network", q.Network)
	}
	var mounts []string
	for _, m := range q.Mounts {
		mode := "ro"
		if m.Writable {
			mode = "rw"
		}
		mounts = append(mounts, view.SafeLine(m.Source+":"+m.Target+":"+mode))
	}
	p.fields("mounts", mounts)
	var tmpfs []string
	for _, dir := range q.Tmpfs {
		tmpfs = append(tmpfs, view.SafeLine(dir))
	}
	p.fields("tmpfs", tmpfs)
	p.field("runtime", q.Runtime)
	p.fields("variables", variables(q.Env))
	var files []string
	for _, f := range q.Files {
		files = append(files, view.SafeLine(f))
	}
	p.fields("files", files)
	if q.Stdin {
		p.field("stdin", "passed to the command")
	}
}

// variables are those that are set: one per line, and if there are many the rest by
// name only.
func variables(env []string) (list []string) {
	var rest []string
	for i, v := range env {
		key, _, set := strings.Cut(v, "=")
		switch {
		case len(env) > maxListed && i >= maxListed-1:
			rest = append(rest, view.SafeLine(key))
		case set:
			list = append(list, view.SafeLine(v))
		default:
			list = append(list, view.SafeLine(v)+", from your environment")
		}
	}
	if len(rest) > 0 {
		list = append(list, fmt.Sprintf("and %d more: %s", len(rest), strings.Join(rest, ", ")))
	}
	return list
}

// Granted describes what the rules restrict and grant.
func Granted(v sandbox.Verdict) (lines []string) {
	g := v.Grant
	if most := limits.Narrows(g); len(most) > 0 {
		lines = append(lines, "at most: "+strings.Join(most, ", "))
	}
	if len(g.Secrets) > 0 {
		lines = append(lines, "gets secrets: "+strings.Join(g.Secrets, ", "))
	}
	if len(v.Withheld) > 0 {
		lines = append(lines, "does not get, because not every rule for its commands grants it: "+strings.Join(v.Withheld, ", "))
	}
	return lines
}
