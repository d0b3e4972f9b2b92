package policy

import (
	"fmt"
	"slices"
	"strings"

	"belljar/sandbox"
)

// Limits on the rules that a caller sends with one command.
const (
	maxOwnRules = 100
	maxOwnRule  = 1000 // bytes
)

// ownRules is the name in messages of the rules that came with a command, when none of
// them matches.
const ownRules = "this command's own rules"

// narrowed is a profile's rules and those that came with one command. A script runs
// if both allow it, and gets what the profile's rules grant.
type narrowed struct {
	Rules
	own *CommandPolicy
}

// Narrow implements sandbox.Narrower. The patterns are those of CommandRule.Commands,
// and allow no more than such a rule does: no file is written, unless the set allows it.
func (r Rules) Narrow(by sandbox.Rules) (sandbox.Policy, error) {
	if len(by.Allow) == 0 && len(by.Deny) == 0 && by.Set == "" {
		return r, nil
	}
	own := CommandRules{Default: Allow}
	if r.Commands != nil {
		own.Shell = r.Commands.rules.Shell
	}
	if err := checkOwn(by); err != nil {
		return nil, err
	}
	for i, command := range by.Deny {
		own.Rules = append(own.Rules, ownRule("deny", command, i, by.Deny, Deny))
	}
	if len(by.Allow) > 0 || by.Set != "" {
		own.Default = Deny
	}
	for i, command := range by.Allow {
		own.Rules = append(own.Rules, ownRule("allow", command, i, by.Allow, Allow))
	}
	if by.Set != "" {
		set, ok := Bundled(by.Set)
		if !ok {
			return nil, sandbox.Invalid("use "+strings.Join(Sets(), ", "), "rules.set: %q is not a bundled set", by.Set)
		}
		own.Writes, own.Env = set.Writes, set.Env
		own.Rules = append(own.Rules, set.Rules...)
	}
	compiled, err := own.Compile()
	if err != nil {
		return nil, &sandbox.Error{Cause: sandbox.CauseInvalid, Message: "reading the command's own rules", Err: err, Hint: `write commands such as "git status"`}
	}
	return narrowed{r, compiled}, nil
}

func checkOwn(by sandbox.Rules) error {
	for name, list := range map[string][]string{"allow": by.Allow, "deny": by.Deny} {
		if len(list) > maxOwnRules {
			return sandbox.Invalid("put them into a profile of sandbox.yaml", "rules.%s: %d rules with one command are more than %d", name, len(list), maxOwnRules)
		}
		for i, command := range list {
			if len(command) > maxOwnRule {
				return sandbox.Invalid(`write commands such as "git status"`, "rules.%s[%d]: longer than %d bytes", name, i, maxOwnRule)
			}
		}
	}
	return nil
}

// ownRule is a rule with a name that no other rule has.
func ownRule(what, command string, i int, all []string, d Decision) CommandRule {
	name := what + " " + strings.Join(strings.Fields(command), " ")
	if slices.Contains(all[:i], command) {
		name = fmt.Sprintf("%s (%d)", name, i+1)
	}
	return CommandRule{Name: name, Commands: []string{command}, Decision: d, Reason: "it is one of this command's own rules"}
}

// JudgeScript implements sandbox.Policy.
func (n narrowed) JudgeScript(script, dir, shell string) Verdict {
	v := n.Rules.JudgeScript(script, dir, shell)
	if v.Decision == Deny {
		return v
	}
	own := n.own.JudgeIn(shell, script, dir)
	if own.Decision == Deny && own.Rule == "" {
		own.Rule, own.Reason = ownRules, strings.TrimSuffix(own.Reason, ", and the default is deny")
	}
	return stricter(v, own)
}

// stricter is the profile's verdict, or the command's own if that is stricter. The
// grant is always the profile's.
func stricter(v, own Verdict) Verdict {
	switch {
	case own.Decision == Deny, own.Decision == Ask && v.Decision == Allow:
		own.Grant, own.Withheld = v.Grant, v.Withheld
		if own.Decision == Deny {
			own.Grant, own.Withheld = Grant{}, nil
		}
		return own
	case own.Decision == Ask: // both ask
		for _, c := range own.Asks() {
			if !slices.Contains(v.Commands, c) {
				v.Commands = append(v.Commands, c)
			}
		}
		for _, u := range own.Unknown {
			if !slices.Contains(v.Unknown, u) {
				v.Unknown = append(v.Unknown, u)
			}
		}
	}
	return v
}

// Hash implements sandbox.Policy.
func (n narrowed) Hash() string {
	hash, _ := hashJSON([]string{n.Rules.Hash(), n.own.hash}) // strings can always be encoded
	return hash
}
