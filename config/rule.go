package config

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"belljar/policy"
	"belljar/sandbox"
)

// commandRule is a rule, and how it was written, for `config show`.
type commandRule struct {
	policy.CommandRule
	node *yaml.Node
}

// MarshalJSON implements json.Marshaler.
func (c commandRule) MarshalJSON() ([]byte, error) { return nodeJSON(c.node) }

// nodeJSON is YAML as JSON, with the keys in order.
func nodeJSON(n *yaml.Node) ([]byte, error) {
	ends := "[]"
	switch n.Kind {
	case yaml.MappingNode:
		ends = "{}"
	case yaml.SequenceNode:
	default:
		var scalar any
		if err := n.Decode(&scalar); err != nil {
			return nil, err
		}
		return sandbox.JSON(scalar)
	}
	text := []byte(ends[:1])
	for i, child := range n.Content {
		part, err := nodeJSON(child)
		if err != nil {
			return nil, err
		}
		if i > 0 && ends == "{}" && i%2 == 1 {
			text = append(text, ':')
		} else if i > 0 {
			text = append(text, ',')
		}
		text = append(text, part...)
	}
	return append(text, ends[1]), nil
}

var commandRules = kind{
	schema: map[string]any{"type": "array", "items": map[string]any{
		"type": "object", "additionalProperties": false, "required": []string{"name", "commands", "decision"},
		"properties": map[string]any{
			"name":          map[string]any{"type": "string", "minLength": 1, "description": "Name of the rule, shown with its decisions."},
			"commands":      someStrings("Programs, or a program and its first words, such as \"git status\"; * stands for a whole word."),
			"args":          stringsOf("Globs for the words that follow. A rule that allows or asks matches if every word matches a glob; a rule that denies, if any word does."),
			"deny":          stringsOf("Options that the rule denies, also abbreviated or combined."),
			"decision":      map[string]any{"type": "string", "enum": decisions},
			"reason":        map[string]any{"type": "string", "description": "Shown to the caller; one line."},
			"allow_unknown": map[string]any{"type": "boolean", "default": false, "description": "Allow words that are known only when the script runs, after those of commands."},
			"allow": map[string]any{"type": "array", "items": map[string]any{"type": "string", "enum": []string{policy.Runs, policy.Writes, policy.Reads}},
				"description": "runs: also programs that cannot be judged, such as hooks; writes: any file; reads: only reading."},
			"writes":  stringsOf("Files that these commands can write. A relative glob is relative to the directory where the script starts."),
			"env":     stringsOf("Variables that the script can set for these commands."),
			"grant":   grantSchema(),
			"secrets": stringsOf("Secrets that a script gets, if the rules of all its commands grant them."),
		},
	}},
	list: func(r *reader, name string, items []*yaml.Node) any {
		list := make([]commandRule, 0, len(items))
		lines := map[string]int{}
		for i, n := range items {
			item := fmt.Sprintf("%s[%d]", name, i)
			rule, ok := r.rule(n, item)
			if first, taken := lines[rule.Name]; ok && taken {
				r.report(item+".name", n, wrong("give each rule a name of its own", "%q is the name of the rule on line %d", rule.Name, first))
			}
			lines[rule.Name] = n.Line
			list = append(list, rule)
		}
		return list
	},
}

var decisions = []string{policy.Allow.String(), policy.Ask.String(), policy.Deny.String()}

func stringsOf(doc string) map[string]any {
	return map[string]any{"type": "array", "items": map[string]any{"type": "string"}, "description": doc}
}

func someStrings(doc string) map[string]any {
	schema := stringsOf(doc)
	schema["minItems"] = 1
	return schema
}

// rule reads one, and reports what is wrong with it.
func (r *reader) rule(n *yaml.Node, name string) (commandRule, bool) {
	rule := commandRule{node: n}
	before, written := len(r.problems), map[string]bool{}
	for _, f := range r.fields(n, name) {
		written[f.name] = true
		r.ruleField(&rule, f)
	}
	if len(r.problems) > before {
		return rule, false
	}
	for _, needed := range []string{"name", "commands", "decision"} {
		if !written[needed] {
			r.report(name, n, wrong("write {name: no-push, commands: [git push], decision: deny}", "the %s is missing", needed))
			return rule, false
		}
	}
	if rule.Name == "" {
		r.report(name+".name", n, wrong("write a name; messages use it", "is empty"))
	}
	for _, err := range rule.Check() {
		field, what, _ := strings.Cut(err.Error(), ": ")
		r.report(name+"."+field, n, wrong("", "%s", what))
	}
	return rule, len(r.problems) == before
}

func (r *reader) ruleField(rule *commandRule, f field) {
	texts := map[string]*string{"name": &rule.Name, "reason": &rule.Reason}
	lists := map[string]*[]string{
		"commands": &rule.Commands, "args": &rule.Args, "deny": &rule.Deny,
		"allow": &rule.Allow, "writes": &rule.Writes, "env": &rule.Env, "secrets": &rule.Grant.Secrets,
	}
	switch text, list := texts[f.name], lists[f.name]; {
	case text != nil:
		if r.isString(f.value, f.path) {
			*text = f.value.Value
		}
	case list != nil:
		*list = r.strings(f.value, f.path)
	case f.name == "allow_unknown":
		rule.AllowUnknown = r.isTrue(f.value, f.path)
	case f.name == "grant":
		secrets := rule.Grant.Secrets // secrets are a field of their own
		rule.Grant = r.grant(f.value, f.path)
		rule.Grant.Secrets = secrets
	case f.name == "decision":
		if r.isString(f.value, f.path) {
			rule.Decision = r.decision(f)
		}
	default:
		r.report(f.path, f.key, misspeltField("a rule", f.name, "name", "commands", "args", "deny", "decision", "reason", "allow_unknown", "allow", "writes", "env", "grant", "secrets"))
	}
}

func (r *reader) decision(f field) (d policy.Decision) {
	if d.UnmarshalText([]byte(f.value.Value)) != nil {
		r.report(f.path, f.value, wrong("write allow, ask or deny", "%s is not a decision", said(f.value.Value)))
	}
	return d
}

func (r *reader) strings(n *yaml.Node, name string) []string {
	if !r.is(n, yaml.SequenceNode, name, "a list") {
		return nil
	}
	list := make([]string, 0, len(n.Content))
	for i, item := range n.Content {
		if r.isString(item, fmt.Sprintf("%s[%d]", name, i)) {
			list = append(list, item.Value)
		}
	}
	return list
}

func (r *reader) isTrue(n *yaml.Node, name string) bool {
	const want = "true or false"
	if !r.is(n, yaml.ScalarNode, name, want) {
		return false
	}
	if n.ShortTag() != "!!bool" {
		r.report(name, n, wrong("write it without quotes", "must be "+want+", not %s", describe(n)))
		return false
	}
	return strings.EqualFold(n.Value, "true")
}
