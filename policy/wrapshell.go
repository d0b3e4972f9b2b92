package policy

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// shell judges the script of sh -c. Without one sh runs a file, or its input.
func shell(c *call) { c.shellWith(c.words[1:]) }

// shellWith judges a shell that is started with these words. Behind an option that is not
// known, any of them may be its script.
func (c *call) shellWith(words []word) {
	r := readShellWords(words, false)
	switch {
	case r.unclear != nil && r.has("c") && !r.unclear.static:
		c.s.hidden("the script of "+c.words[0].text+" -c", c.span())
		return
	case r.unclear != nil:
		c.unknown("what "+c.words[0].text+" does with "+r.unclear.show(), *r.unclear)
		c.opaque("may run another script", *r.unclear, 1)
		if c.s.j.policy.rules.Default > Deny {
			c.runAny(words)
		}
		return
	case !r.has("c") || len(r.rest) == 0:
		c.opaque("runs a script from a file or its input", c.words[0], 1)
		return
	}
	if c.wrapper = true; r.has("si") {
		c.opaque("runs a script from its input", c.words[0], 0)
	}
	if text := r.rest[0]; text.splits || text.globs {
		c.s.hidden("the script of "+c.words[0].text+" -c", c.span())
	} else {
		c.shell(text, strings.HasSuffix(c.words[0].text, "bash"))
	}
}

// unwrapped removes the one `sh -c '…'` or `bash -lc "…"` that agents wrap
// around every script.
func (s *script) unwrapped() *script {
	if !s.outer || len(s.file.Stmts) != 1 {
		return nil
	}
	stmt := s.file.Stmts[0]
	cmd, ok := stmt.Cmd.(*syntax.CallExpr)
	if !ok || len(cmd.Assigns) > 0 || len(stmt.Redirs) > 0 || stmt.Background || stmt.Negated || len(cmd.Args) < 3 {
		return nil
	}
	name := cmd.Args[0].Lit()
	bash := name == "bash"
	if !bash && (s.onlyBash || !slices.Contains([]string{"sh", "dash", "ash"}, name)) {
		return nil
	}
	probe := &script{j: &judge{policy: s.j.policy, src: s.j.src, start: s.j.start, names: newNames()}, lang: s.lang, text: s.text, onlyBash: s.onlyBash}
	c := &call{s: probe, words: probe.words(cmd.Args)}
	for _, w := range c.words {
		if !w.static {
			return nil
		}
	}
	r := readShellWords(c.words[1:], false)
	if r.unclear != nil || r.has("si") || !r.has("c") || len(r.rest) == 0 || len(probe.j.commands) > 0 {
		return nil
	}
	if unreadable(r.rest[0].text) != "" {
		return nil
	}
	inner := s.nest(r.rest[0], s.lang)
	inner.nested, inner.onlyBash = 0, s.onlyBash
	if bash {
		inner.lang, inner.onlyBash = langBash, true
	}
	return inner
}

var envOptions = newGrammar("i,ignore-environment 0,null u,unset: C,chdir:!C v,debug S,split-string:!o block-signal? default-signal? ignore-signal? P:!o help version @ordered")

// env sets and removes variables for the command after them.
func env(c *call) {
	p := c.parse(c.words[1:], envOptions)
	for _, o := range p.options {
		if o.name == "split-string" && c.s.j.policy.rules.Default > Deny {
			c.runAny([]word{o.value})
		}
	}
	words := p.operands
	clears := p.has("ignore-environment")
	if len(words) > 0 && words[0].is("-") {
		clears, words = true, words[1:]
	}
	for len(words) > 0 {
		name, value, isVar := strings.Cut(words[0].text, "=")
		if words[0].splits || !words[0].static && !isVar {
			c.s.hidden("which program env runs", c.span())
			return
		}
		if !isVar {
			break
		}
		if harmless := harmlessValues[name]; harmless == "" || !words[0].is(name+"="+harmless) {
			c.env = append(c.env, c.s.j.setting(name, value, words[0].static))
		} else if strings.HasSuffix(name, "PAGER") && value == "cat" {
			clears = false
		}
		words = words[1:]
	}
	c.wrapper = len(words) > 0 || len(c.uses) > 0
	if len(words) > 0 {
		c.removes(p)
		if clears {
			there := *c.s
			there.pages = true
			c.s = &there
		}
	}
	c.run(words)
	if len(words) > 0 {
		c.env = nil
	}
}

// removes judges env -u as unset is.
func (c *call) removes(p *parsed) {
	for _, o := range p.options {
		switch {
		case o.name != "unset":
		case !o.value.static:
			c.s.hidden("which variable env removes", c.s.span(o.value.start, o.value.end))
		case changesCommands(o.value.text):
			c.env = append(c.env, o.value.text)
		}
	}
}
