package config

import (
	"fmt"
	"time"

	"belljar/policy"
	"belljar/sandbox"
)

// commandPolicy has the keys policy.* of one profile.
type commandPolicy struct {
	Default string // "allow", "ask" or "deny"
	Set     string // a bundled set's name, or ""
	Shell   string // which shell's language scripts are judged in; "" is the command's
	Rules   []commandRule

	AskTimeout time.Duration `mapstructure:"ask_timeout"`
}

// compile makes one policy of the file's own rules, followed by those of the set. If
// everything is allowed it is nil: no script is judged.
func (c commandPolicy) compile() (*policy.CommandPolicy, error) {
	if c.Default == policy.Allow.String() && c.Set == "" && len(c.Rules) == 0 {
		return nil, nil
	}
	all := policy.CommandRules{Shell: c.Shell}
	if err := all.Default.UnmarshalText([]byte(c.Default)); err != nil {
		return nil, fmt.Errorf("policy.default: %w", err)
	}
	for _, rule := range c.Rules {
		all.Rules = append(all.Rules, rule.CommandRule)
	}
	set, _ := policy.Bundled(c.Set)
	all.Writes, all.Env = set.Writes, set.Env
	all.Rules = append(all.Rules, set.Rules...)
	return all.Compile()
}

// checkPolicy finds a set that conflicts with the default or the rules.
func (s settings) checkPolicy() Problems {
	var problems Problems
	set := s.value("policy.set")
	name, _ := set.data.(string)
	bundled, _ := policy.Bundled(name)
	report := func(v value, hint, format string, args ...any) {
		p := wrong(hint, format, args...)
		p.Place, p.Line, p.Key = v.place, v.line, v.key
		problems = append(problems, p)
	}
	if name != "" && s.value("policy.default").data == policy.Allow.String() {
		report(set, "set policy.default to deny or ask", "%s lists what is allowed, but policy.default allows everything else", name)
	}
	if judged := s.value("policy.shell"); judged.data == policy.ShellBash && s.value("shell").data == sandbox.ShellSh {
		report(judged, "add shell: bash, or leave out policy.shell", "scripts run in sh, and sh may be another shell than bash")
	}
	rules := s.value("policy.rules")
	own, _ := rules.data.([]commandRule)
	for i, rule := range own {
		for _, other := range bundled.Rules {
			if rule.Name == other.Name {
				report(rules, "give it another name", "rules[%d] has the name %q of a rule in policy.set %s", i, rule.Name, name)
			}
		}
	}
	return problems
}
