package policy

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

var shellOptions = newGrammar("c l,login e u x v f h m n p r B C E T b t norc noprofile posix restricted verbose version help o: O: i!o s!o rcfile:!o init-file:!o @ordered")

// shell judges the script of sh -c. Without one sh runs a file, or its input.
func shell(c *call) {
	p := c.parse(c.words[1:], shellOptions)
	if p.has("c") && len(p.operands) > 0 {
		c.wrapper = true
		if text := p.operands[0]; text.splits || text.globs {
			c.s.hidden("the script of "+c.words[0].text+" -c", c.span())
		} else {
			c.shell(text, strings.HasSuffix(c.words[0].text, "bash"))
		}
		return
	}
	c.opaque("runs a script from a file or its input", c.words[0], 1)
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
	p := c.parse(c.words[1:], shellOptions)
	if !p.has("c") || len(p.operands) == 0 || len(c.uses) > 0 || len(probe.j.commands) > 0 {
		return nil
	}
	if unreadable(p.operands[0].text) != "" {
		return nil
	}
	inner := s.nest(p.operands[0], s.lang)
	inner.nested, inner.onlyBash = 0, s.onlyBash
	if bash {
		inner.lang, inner.onlyBash = langBash, true
	}
	return inner
}

var envOptions = newGrammar("i,ignore-environment 0,null u,unset: C,chdir:!C v,debug S,split-string:!o block-signal? default-signal? ignore-signal? P:!o help version @ordered")

// env sets variables for the command after them.
func env(c *call) {
	p := c.parse(c.words[1:], envOptions)
	words := p.operands
	for len(words) > 0 {
		name, _, isVar := strings.Cut(words[0].text, "=")
		if words[0].splits || !words[0].static && !isVar {
			c.s.hidden("which program env runs", c.span())
			return
		}
		if !isVar {
			break
		}
		c.env = append(c.env, name)
		words = words[1:]
	}
	c.wrapper = len(words) > 0 || len(c.uses) > 0
	c.run(words)
	if len(words) > 0 {
		c.env = nil
	}
}
