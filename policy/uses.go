package policy

import (
	"fmt"
	"slices"
	"strings"
)

// use is a side effect of a program.
type use struct {
	kind  useKind
	what  string
	at    Span
	file  word
	named int // a rule that names that many words allows exactly this; 0 means none does
}

type useKind uint8

// The worst comes first, as it does where a person is asked.
const (
	useRuns    useKind = iota // runs something that cannot be judged
	useUnknown                // its effect depends on an unknown word
	useWrites                 // writes the file
)

// harmlessEnv may be set for any command.
var harmlessEnv = []string{
	"LC_ALL", "LC_CTYPE", "LC_COLLATE", "LC_MESSAGES", "LC_NUMERIC", "LC_TIME", "LANG", "LANGUAGE", "TZ",
	"NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "LINES", "CI",
}

// harmlessValues are values that are harmless for variables that otherwise matter.
var harmlessValues = map[string]string{
	"PAGER": "cat", "GIT_PAGER": "cat", "MANPAGER": "cat", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "TERM": "dumb", "DEBIAN_FRONTEND": "noninteractive", "OPENSSL_CONF": "/dev/null",
}

// maySet reports whether the setting is allowed for commands: for any, or for
// those that the rule matches.
func (p *CommandPolicy) maySet(setting string, rule *ruleMatch) bool {
	name := nameOf(setting)
	allows := func(env []string) bool { // no glob means another charset
		return slices.Contains(env, name) || name == setting && Rules{Env: env}.AllowEnv(name)
	}
	return slices.Contains(harmlessEnv, setting) || allows(p.rules.Env) || rule != nil && allows(rule.Env)
}

// changesCommands reports whether the variable may change which program a name means.
func changesCommands(name string) bool {
	return isDangerous(name) || matchAny(shellVariables, name) || matchAny(npmVariables, strings.ToUpper(name))
}

// changesMeaning reports the same of a setting: another charset can make another script of it.
func changesMeaning(setting string) bool {
	return changesCommands(nameOf(setting)) || nameOf(setting) != setting
}

func (c *call) askEnv(m *ruleMatch, v *CommandVerdict) {
	p := c.s.j.policy
	for _, setting := range c.env {
		if p.maySet(setting, m) {
			continue
		}
		d := Deny
		if m == nil { // no one said which variables the default allows
			d = p.rules.Default
			if changesMeaning(setting) {
				d = p.worst
			}
		}
		if d < v.Decision {
			v.Decision, v.Reason = d, fmt.Sprintf("it sets %s, which no rule allows (env)", quoteShort(setting))
			if name := nameOf(setting); name != setting {
				v.Reason = fmt.Sprintf("it sets %s, which %s", quoteShort(name), choosesCharset)
			}
		}
	}
}

// noteUnknown records what is unknown of a program that the default asks about:
// a person who approves it for longer must know which program it is and what it runs.
// A rule allows neither by itself. What a read rule leaves to the default is never
// approved for longer: the next such command may write elsewhere.
func (c *call) noteUnknown(m *ruleMatch) {
	for _, setting := range c.env {
		if changesMeaning(setting) && !c.s.j.policy.maySet(setting, nil) {
			c.s.j.unknown = append(c.s.j.unknown, Unknown{What: fmt.Sprintf("what %s is where %s is set", quoteShort(c.words[0].text), quoteShort(setting)), Span: c.span()})
		}
	}
	for _, u := range c.uses {
		if u.kind == useRuns || u.kind == useWrites && m != nil {
			c.s.j.unknown = append(c.s.j.unknown, Unknown{What: quoteShort(c.words[0].text) + " " + u.what, Span: u.at})
		}
	}
}

// askUse decides on one use by the rule, or by the default.
func (c *call) askUse(m *ruleMatch, u use, base Decision) (Decision, string) {
	p := c.s.j.policy
	program := quoteShort(c.words[0].text)
	if m == nil {
		switch {
		case u.kind == useUnknown: // nothing worse than what "runs" allows
			return p.rules.Default, "known only when it runs: " + u.what
		case u.kind == useWrites && c.s.mayWrite(c.in, u.file, nil):
			return base, ""
		case u.kind == useWrites && len(p.rules.Writes) > 0:
			return Deny, program + " " + u.what + ", which no path rule allows"
		}
		return p.rules.Default, fmt.Sprintf("%s %s, and the default is %s", program, u.what, p.rules.Default)
	}
	named := u.named > 0 && m.longest(c) >= u.named && !slices.Contains(m.Allow, Reads)
	allowed, add := false, ""
	switch u.kind {
	case useUnknown:
		allowed, add = m.AllowUnknown, "allow_unknown"
	case useRuns:
		allowed, add = named || slices.Contains(m.Allow, Runs), "allow: [runs]"
	case useWrites:
		unbound := len(p.rules.Writes)+len(m.Writes) == 0
		allowed = named && unbound || slices.Contains(m.Allow, Writes) || c.s.mayWrite(c.in, u.file, m)
		add = "a path to its writes, or allow: [writes]"
	}
	if allowed {
		return base, ""
	}
	d := Deny
	if m.leavesToAsk(p) {
		d = min(base, Ask)
	}
	return d, fmt.Sprintf("%s %s, which rule %q does not allow (add %s)", program, u.what, m.Name, add)
}

// leavesToAsk reports whether the rule allows only reading, so that a person
// is asked about everything else, as where no rule matches.
func (m *ruleMatch) leavesToAsk(p *CommandPolicy) bool {
	return m != nil && m.Decision == Allow && slices.Contains(m.Allow, Reads) && p.rules.Default == Ask
}

// What the rows record about a call.

func (c *call) unknown(what string, at word) {
	c.uses = append(c.uses, use{kind: useUnknown, what: what, at: c.s.span(at.start, at.end)})
}

// opaque records that something runs which cannot be judged.
func (c *call) opaque(what string, at word, named int) {
	c.uses = append(c.uses, use{kind: useRuns, what: what, at: c.s.span(at.start, at.end), named: named})
}

func (c *call) write(file word, named int) {
	c.uses = append(c.uses, use{kind: useWrites, what: "writes " + showWritten(file), at: c.s.span(file.start, file.end), file: file, named: named})
}

// writeSomewhere is a write to a file that the arguments do not name.
func (c *call) writeSomewhere(what string, at word, named int) {
	c.uses = append(c.uses, use{kind: useWrites, what: what, at: c.s.span(at.start, at.end), file: word{start: at.start, end: at.end}, named: named})
}
