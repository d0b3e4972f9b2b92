package policy

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"belljar/internal/limits"
)

// CommandPolicy judges scripts by compiled rules. It is safe for concurrent
// use. The zero CommandPolicy denies everything.
type CommandPolicy struct {
	rules   CommandRules
	hash    string // computed once, since each command asks for it
	matches []ruleMatch
	worst   Decision // the decision on a command that may be any command
	least   granted  // and the grant that remains for it
	named   map[string]bool
}

// ruleMatch is a rule with its commands split into words.
type ruleMatch struct {
	CommandRule
	patterns [][]string
	byName   map[string][][]string // those whose first word is this name or "*"
	anyName  [][]string            // those whose first word is "*"
	byBase   bool                  // the default allows more, so /usr/bin/x may be the x of the rule
}

// Compile checks the rules. An error names the rule and the field, one line
// for each that is wrong.
func (r CommandRules) Compile() (*CommandPolicy, error) {
	p := &CommandPolicy{rules: r, worst: r.Default, named: map[string]bool{}}
	var wrong []error
	if r.Shell != "" && r.Shell != ShellPOSIX && r.Shell != ShellBash {
		wrong = append(wrong, fmt.Errorf("shell %q: write posix or bash", r.Shell))
	}
	if r.Default > Allow {
		wrong = append(wrong, fmt.Errorf("default %d: write allow, ask or deny", r.Default))
	}
	wrong = append(wrong, checkLists(r.Writes, r.Env)...)
	names := map[string]bool{}
	for i, rule := range r.Rules {
		prefix := fmt.Sprintf("rule %q: ", rule.Name)
		if rule.Name == "" || names[rule.Name] {
			wrong = append(wrong, fmt.Errorf("rules[%d]: name %q: give each rule a name of its own", i, rule.Name))
		}
		names[rule.Name] = true
		m := ruleMatch{CommandRule: rule}
		for _, command := range rule.Commands {
			m.patterns = append(m.patterns, strings.Fields(command))
		}
		for _, err := range rule.Check() {
			wrong = append(wrong, fmt.Errorf("%s%w", prefix, err))
		}
		p.add(m)
	}
	var err error
	if p.hash, err = hashJSON(r); err != nil {
		wrong = append(wrong, err) // an invalid number
	}
	if err := errors.Join(wrong...); err != nil {
		return nil, fmt.Errorf("compiling command rules: %w", err)
	}
	return p, nil
}

func (p *CommandPolicy) add(m ruleMatch) {
	p.worst = min(p.worst, m.Decision)
	p.least.narrow(m.Grant)
	m.byBase = p.rules.Default > Deny && m.narrows()
	m.byName = map[string][][]string{}
	for _, words := range m.patterns {
		if len(words) > 0 && words[0] == "*" {
			m.anyName = append(m.anyName, words)
		}
	}
	for _, words := range m.patterns {
		if len(words) > 0 && words[0] != "*" {
			name := words[0]
			if p.named[name] = true; m.byName[name] == nil {
				m.byName[name] = slices.Clone(m.anyName)
			}
			m.byName[name] = append(m.byName[name], words)
		}
	}
	p.matches = append(p.matches, m)
}

// Check returns everything that is wrong with the rule by itself. Each error names the
// field and what to write.
func (r CommandRule) Check() (wrong []error) {
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	if len(r.Commands) == 0 {
		bad("commands: name at least one")
	}
	for _, command := range r.Commands {
		words := strings.Fields(command)
		if len(words) == 0 {
			bad("commands: %q has no program", command)
		}
		for _, word := range words {
			if strings.Contains(word, "*") && word != "*" {
				bad("commands: %q: * stands for a whole word", command)
			}
			if strings.ContainsAny(word, "'\"`$\\;&|<>") {
				bad("commands: %q: write words without quotes", command)
			}
		}
	}
	for _, flag := range r.Deny {
		if len(flag) < 2 || flag[0] != '-' || flag == "--" {
			bad("deny: %q: write an option such as -o or --output", flag)
		}
	}
	for _, use := range r.Allow {
		if use != Runs && use != Writes && use != Reads {
			bad("allow: %q: write runs, writes or reads", use)
		}
	}
	if r.Decision > Allow {
		bad("decision %d: write allow, ask or deny", r.Decision)
	}
	if strings.ContainsFunc(r.Reason, isControl) {
		bad("reason: write one line")
	}
	for _, err := range limits.CheckGrant(r.Grant) {
		bad("grant.%w", err)
	}
	for i, name := range r.Grant.Secrets {
		if !isName(name) {
			bad("secrets: %q: write a variable's name, such as API_KEY", name)
		} else if slices.Contains(r.Grant.Secrets[:i], name) {
			bad("secrets: %q is listed twice", name)
		}
	}
	return append(wrong, checkLists(r.Writes, r.Env)...)
}

func checkLists(writes, env []string) (wrong []error) {
	for _, glob := range writes {
		if _, err := path.Match(glob, ""); err != nil || glob == "" || slices.Contains(strings.Split(glob, "/"), "..") {
			wrong = append(wrong, fmt.Errorf("writes: %q: write a path without .., such as /work/**", glob))
		}
	}
	for _, name := range env {
		if !isName(strings.ReplaceAll(name, "*", "_")) {
			wrong = append(wrong, fmt.Errorf("env: %q: write a variable's name, or a glob such as LC_*", name))
		}
	}
	return wrong
}
