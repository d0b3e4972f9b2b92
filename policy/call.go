package policy

import (
	"cmp"
	"fmt"
	"path"
	"slices"

	"mvdan.cc/sh/v3/syntax"
)

// call is one program and its arguments, as a script or a wrapper starts it.
type call struct {
	s     *script
	words []word // the program first
	in    dirSet
	env   []string // variables set for it; see setting
	inner int      // how many wrappers it is nested in

	byShell   bool // the shell starts it, so that it may be a builtin
	functions bool // or a function may be meant
	piped     bool // its output goes to another command

	// Rows of the tables set these.
	subject []word // words that rules match, without leading options
	wrapper bool   // does nothing by itself: without a rule, what it runs decides
	uses    []use
}

// simple judges a simple command with its assignments and redirections.
func (s *script) simple(cmd *syntax.CallExpr, redirs []*syntax.Redirect, in dirSet) (ok, fail dirSet) {
	if len(cmd.Args) == 0 {
		s.assigns(cmd.Assigns)
		s.redirects(redirs, in, nil)
		return in, in
	}
	c := &call{s: s, words: s.words(cmd.Args), in: in}
	for _, a := range cmd.Assigns {
		set := s.assign(a)
		if value := harmlessValues[a.Name.Value]; value == "" || a.Value == nil || a.Value.Lit() != value {
			c.env = append(c.env, s.j.setting(a.Name.Value, set.text, set.static))
		}
	}
	if name := c.words[0]; name.static && builtins[name.text] != nil {
		c.persist(name.text)
	}
	c.byShell, c.functions = true, true
	c.piped = s.piped && pipedOut(redirs)
	rule := c.judge()
	s.redirects(redirs, in, rule)
	return c.dirsAfter(in)
}

// persist judges assignments before a builtin as the shell's own, since some
// builtins (POSIX 2.14) keep them. IFS before read is common and harmless.
func (c *call) persist(name string) {
	for _, env := range c.env {
		switch {
		case name == "eval":
			c.s.exported(env, c.span())
		case name == "read" && env == "IFS", slices.Contains(charsetVariables, env):
		default:
			c.s.assigned(nameOf(env), c.span())
		}
	}
	if name != "exec" && name != "command" && name != "builtin" {
		c.env = nil
	}
}

func (c *call) span() Span {
	return c.s.span(c.words[0].start, c.words[len(c.words)-1].end)
}

// judge decides on the command, and returns the rule that allows it, if any.
func (c *call) judge() *ruleMatch {
	name := c.words[0]
	// Behind an option that is not known any word may begin a command, so that some are read often.
	if !c.s.spend(1+(len(c.words)+8*len(c.env))/wordsInStep, name.start, c.words[len(c.words)-1].end) {
		return nil
	}
	if c.inner > 10 {
		c.s.deny("wrappers are nested too deeply", c.span())
		return nil
	}
	if !name.static || name.text == "" {
		c.s.hidden("which program runs", c.s.span(name.start, name.end))
		return nil
	}
	if c.functions && c.s.functions[name.text] && !c.s.j.policy.named[name.text] {
		c.s.j.names.called[name.text] = true
		c.mayBeUnset(name.text)
		for _, env := range c.env { // its commands inherit them
			c.s.exported(env, c.span())
		}
		return nil
	}
	c.subject = c.words
	if row := builtins[name.text]; row != nil && c.byShell && (c.s.lang == langBash || !bashBuiltins[name.text]) {
		c.wrapper = true
		row(c)
	} else if row := programRow(name.text); row != nil {
		c.s.j.names.roots[name.text] = true
		if !c.onlyPrintsVersion() {
			row(c)
		}
	} else {
		c.s.j.names.roots[name.text] = true
		switch row := programs[path.Base(name.text)]; {
		case row != nil && path.Base(name.text) != name.text:
			row(c) // the name may be this program, or any other
			c.wrapper = false
		case builtins[name.text] != nil && !c.byShell: // `env jobs -x id` may be a script that has a shell do so
			c.opaque("is a program with the name of a shell builtin", name, 1)
		}
	}
	return c.decide()
}

// systemProgram is the name of a program that is called by its path in one of the
// image's program directories. Nothing is ever mounted there (containerPaths), and
// the image is read-only.
func systemProgram(text string) string {
	dir, name := path.Split(text)
	if programs[name] != nil && slices.Contains([]string{"/bin/", "/usr/bin/", "/sbin/", "/usr/sbin/", "/usr/local/bin/"}, dir) {
		return name
	}
	return ""
}

// decide finds the rule and its decision. Where unknown words leave
// several rules possible, the strictest counts.
func (c *call) decide() *ruleMatch {
	p := c.s.j.policy
	var found []*ruleMatch
	var certain bool
	for i := range p.matches {
		m := &p.matches[i]
		likely := m.match(c)
		if likely == no {
			continue
		}
		found = append(found, m)
		if certain = likely == yes; certain {
			break
		}
	}
	if len(found) == 0 && c.wrapper && len(c.uses) == 0 {
		return nil
	}
	if !certain {
		found = append(found, nil)
	}
	slices.SortStableFunc(c.uses, func(a, b use) int { return cmp.Compare(a.kind, b.kind) })
	for _, u := range c.uses {
		if u.kind == useUnknown {
			c.s.j.unknown = append(c.s.j.unknown, Unknown{What: u.what, Span: u.at})
		}
	}
	verdict, decided := CommandVerdict{Decision: Allow}, false
	var asked []CommandVerdict
	for i, m := range found {
		v, uses := c.ask(m)
		if asked = append(asked, uses...); i == 0 || v.Decision < verdict.Decision {
			verdict, decided = v, m != nil && m.Decision == Deny
		}
	}
	if len(found) > 1 {
		c.s.j.unknown = append(c.s.j.unknown, Unknown{What: "which rule matches", Span: c.span()})
		if verdict.Decision == Deny && !decided {
			verdict.Rule, verdict.Reason = "", "known only when it runs: which rule matches "+quoteShort(c.words[0].text)
		}
	}
	verdict.Program = c.words[0].text
	if (found[0] == nil || found[0].leavesToAsk(p)) && verdict.Decision == Ask {
		c.noteUnknown(found[0])
	}
	c.s.j.ruled = c.s.j.ruled || !c.wrapper || found[0] != nil
	c.s.j.add(verdict)
	if verdict.Decision == Ask {
		c.addAsked(verdict, asked)
	}
	c.grants(found)
	if len(found) == 1 && verdict.Decision > Deny {
		return found[0]
	}
	return nil
}

// ask asks one rule for its decision, or the default if the rule is nil. The uses are
// those that need an approval, with their own reasons.
func (c *call) ask(m *ruleMatch) (v CommandVerdict, uses []CommandVerdict) {
	v.Span = c.span()
	if m == nil {
		v.Decision = c.s.j.policy.rules.Default
		name := quoteShort(c.words[0].text)
		if len(c.subject) > 1 && c.subject[1].static && looksOther(c.subject[1].text) {
			name += " " + quoteShort(c.subject[1].text)
		}
		v.Reason = fmt.Sprintf("no rule matches %s, and the default is %s", name, v.Decision)
		if c.wrapper {
			v.Decision = Allow
		}
	} else {
		v.Decision, v.Rule, v.Reason = m.Decision, m.Name, m.Reason
		if flag := m.denies(c); flag != "" {
			v.Decision, v.Reason = Deny, "the rule denies option "+flag
		}
		if v.Reason == "" {
			v.Reason = fmt.Sprintf("rule %q says %s", m.Name, v.Decision)
		}
	}
	c.askEnv(m, &v)
	base := v.Decision
	for _, u := range c.uses {
		d, reason := c.askUse(m, u, base)
		if d == Ask && d < base {
			uses = append(uses, CommandVerdict{Rule: v.Rule, Reason: reason, Span: u.at})
		}
		if d < v.Decision {
			v.Decision, v.Reason, v.Span = d, reason, u.at
		}
	}
	return v, uses
}

// run judges a command that the program starts.
func (c *call) run(words []word) { c.start(words, false) }

func (c *call) start(words []word, byShell bool) {
	switch {
	case len(words) == 0:
	case words[0].static && !mayBeProgram(words[0].text):
		c.s.hidden("which program "+c.words[0].text+" runs", c.s.span(words[0].start, words[0].end))
	default:
		inner := &call{s: c.s, words: words, in: c.in, env: slices.Clip(c.env), inner: c.inner + 1, byShell: byShell}
		inner.judge()
	}
}

// shell judges a script that the program has a shell run.
func (c *call) shell(text word, bash bool) {
	if !c.s.spend(len(c.env), text.start, text.end) {
		return
	}
	for _, name := range c.env { // what the script runs inherits them
		c.s.exported(name, c.span())
	}
	dialects := []syntax.LangVariant{syntax.LangPOSIX, langBash}
	if bash {
		dialects = dialects[1:]
	}
	c.within(text, dialects, script{onlyBash: bash})
}

// sourced judges a script that this same shell runs, in its own dialect.
func (c *call) sourced(text word) {
	c.within(text, []syntax.LangVariant{c.s.lang}, script{onlyBash: c.s.onlyBash, lost: true})
}

// within judges a script that one of the words contains.
func (c *call) within(text word, dialects []syntax.LangVariant, like script) {
	if !text.static {
		c.s.hidden("the script that "+quoteShort(c.words[0].text)+" runs", c.s.span(text.start, text.end))
		return
	}
	if what := unreadable(text.text); what != "" {
		c.s.deny(what, c.s.span(text.start, text.end))
		return
	}
	c.s.j.readings(dialects, func(one *judge, lang syntax.LangVariant) {
		inner := c.s.nest(text, lang)
		inner.j, inner.onlyBash, inner.lost = one, like.onlyBash, like.lost
		inner.judgeText(c.in)
	})
}

func (s *script) nest(text word, lang syntax.LangVariant) *script {
	inner := &script{j: s.j, lang: lang, text: text.text, fixed: s.fixed, shift: s.shift + text.inner, nested: s.nested + 1, elsewhere: s.elsewhere, pages: s.pages}
	if text.inner < 0 && inner.fixed == nil {
		at := s.span(text.start, text.end)
		inner.fixed = &at
	}
	return inner
}
