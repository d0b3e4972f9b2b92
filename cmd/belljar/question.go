package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"belljar/policy"
	"belljar/sandbox"
	"belljar/view"
)

const (
	marginScript = 10 // columns before a script's text
	marginField  = 13

	// No other row has the margin of carets: text must not draw them.
	marginCarets   = "        ^ "
	marginContinue = "        | "

	leastColumns = 20 // of a terminal that a question is shown on
	longestName  = 60 // bytes of what is approved for as long as a session lives

	maxScriptRows = 40 // that are shown of a script whatever is in them,
	maxFieldRows  = 12 // and of what is said about it
	nearRows      = 3  // shown before and after what is asked about
	maxListed     = 8  // reasons, and parts that are unknown
)

// question is what a person is shown who is asked to approve a command. What
// comes from outside never begins a line, so that it cannot pass for ours, and
// what is asked about is shown, however long it is.
func question(q sandbox.Question, columns int, colour func(string) string) string {
	p := page{columns: max(columns, leastColumns) - 1, colour: colour}
	p.WriteString("belljar: the policy requires your approval for this command:\n\n")
	spans := []policy.Span{q.Verdict.Span}
	reasons := []string{reason(q.Verdict.Who(), q.Verdict.Span, q.Verdict.Reason)}
	for _, c := range q.Verdict.Asks() {
		spans = append(spans, c.Span)
		if c.Span != q.Verdict.Span {
			reasons = append(reasons, reason(sandbox.Verdict{Rule: c.Rule}.Who(), c.Span, c.Reason))
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
	p.fields("grant", granted(q.Verdict))
	p.field("in", q.Dir)
	p.surroundings(q)
	p.field("purpose", q.Description)
	if q.Profile != sandbox.DefaultProfile {
		p.field("profile", q.Profile)
	}
	p.field("session", q.Session)
	if q.Always {
		text, _ := always(q.Verdict, columns)
		p.field("if always", text)
	}
	p.WriteByte('\n')
	return p.String()
}

// reason is what decided, where and why.
func reason(who string, at policy.Span, why string) string {
	if at.Line > 0 {
		who += " at " + at.String()
	}
	if why != "" {
		who += ": " + why
	}
	return who
}

// always is what an approval for as long as the session lives is about, or why
// that is not offered: nobody approves what is not shown whole.
func always(v sandbox.Verdict, columns int) (text string, offered bool) {
	var list []string
	for _, c := range v.Asks() {
		if len(c.Program) > longestName || len(c.Rule) > longestName {
			return fmt.Sprintf("not available: a name is longer than %d bytes", longestName), false
		}
		what := name(c.Program) + " by " + sandbox.Verdict{Rule: c.Rule}.Who()
		if !slices.Contains(list, what) {
			list = append(list, what)
		}
	}
	text = strings.Join(list, ", ") + ", until the session ends"
	if len(rows(text, nil, max(columns, leastColumns)-1-marginField)) > maxFieldRows {
		return "not available: it would cover more than this question shows", false
	}
	return text, true
}

// name is a program's, quoted where it could pass for more than one.
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

// surroundings are what the command runs with, where that is not the least.
func (p *page) surroundings(q sandbox.Question) {
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
	if q.Stdin {
		p.field("stdin", "passed to the command")
	}
}

// variables are those that are set: each on a line of its own, and where they are
// many the rest by name.
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
