package config

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"belljar/internal/names"
	"belljar/sandbox"
)

// secrets say where values come from; they never contain them.
var secrets = kind{
	schema: map[string]any{"type": "array", "items": map[string]any{
		"type": "object", "additionalProperties": false, "required": []string{"name", "from"},
		"properties": map[string]any{
			"name":     map[string]any{"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$", "description": "Name of the variable that commands get, and the name that rules grant it by."},
			"from":     map[string]any{"type": "string", "enum": secretSources, "description": "env: a variable of belljar's own environment; file: the content of a file; command: what a program on this host prints within 10s."},
			"variable": map[string]any{"type": "string", "description": "With env: the name of the variable, if it differs from the secret's name."},
			"file":     map[string]any{"type": "string", "pattern": "^/", "description": "With file: its absolute path. No command may mount it."},
			"command":  map[string]any{"type": "array", "items": map[string]any{"type": "string"}, "minItems": 1, "description": "With command: the program, by its absolute path or from PATH, and its arguments. It runs in / with PATH, HOME and LANG."},
		},
	}},
	list: func(r *reader, name string, items []*yaml.Node) any {
		list := make([]sandbox.Secret, 0, len(items))
		lines := map[string]int{}
		for i, n := range items {
			item := fmt.Sprintf("%s[%d]", name, i)
			s, ok := r.secret(n, item)
			if first, taken := lines[s.Name]; ok && taken {
				r.report(item+".name", n, wrong("remove one of them", "%q is also the secret on line %d", s.Name, first))
			}
			lines[s.Name] = n.Line
			list = append(list, s)
		}
		return list
	},
}

var secretSources = []string{string(sandbox.SecretEnv), string(sandbox.SecretFile), string(sandbox.SecretCommand)}

// sourceFields are the fields that belong to one source only, by its name.
var sourceFields = map[string]string{"variable": "env", "file": "file", "command": "command"}

// secret reads one, and reports what is wrong with it.
func (r *reader) secret(n *yaml.Node, name string) (sandbox.Secret, bool) {
	var s sandbox.Secret
	before, written := len(r.problems), map[string]field{}
	for _, f := range r.fields(n, name) {
		written[f.name] = f
		r.secretField(&s, f)
	}
	if len(r.problems) > before {
		return s, false
	}
	const hint = "write {name: API_KEY, from: env}, {name: API_KEY, from: file, file: /path} or {name: API_KEY, from: command, command: [PROGRAM, ARG]}"
	needed := []string{"name", "from"}
	if s.From == sandbox.SecretFile || s.From == sandbox.SecretCommand {
		needed = append(needed, string(s.From))
	}
	for _, key := range needed {
		if _, there := written[key]; !there {
			r.report(name, n, wrong(hint, "the %s is missing", key))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(sourceFields)) {
		if f, there := written[key]; there && sourceFields[key] != string(s.From) {
			r.report(f.path, f.key, wrong("remove it", "goes with from: %s", sourceFields[key]))
		}
	}
	return s, len(r.problems) == before
}

func (r *reader) secretField(s *sandbox.Secret, f field) {
	switch f.name {
	case "command":
		if r.is(f.value, yaml.SequenceNode, f.path, "a list") {
			if s.Command = r.program(f.path, f.value.Content); len(f.value.Content) == 0 {
				r.report(f.path, f.value, wrong("write [PROGRAM, ARG]", "is empty"))
			}
		}
	case "name", "from", "variable", "file":
		if r.isString(f.value, f.path) {
			if problem := setSecret(s, f.name, f.value.Value); problem != nil {
				r.report(f.path, f.value, problem)
			}
		}
	default:
		r.report(f.path, f.key, misspeltField("a secret", f.name, "name", "from", "variable", "file", "command"))
	}
}

func setSecret(s *sandbox.Secret, field, text string) *Problem {
	switch field {
	case "name":
		s.Name = text
		var unfit *sandbox.Error
		if errors.As(names.CheckSecret(text), &unfit) {
			return wrong(unfit.Hint, "%s cannot be a secret's name", said(text))
		}
	case "from":
		if s.From = sandbox.SecretSource(text); !slices.Contains(secretSources, text) {
			return wrong("write "+strings.Join(secretSources, ", "), "%s is not a source", said(text))
		}
	case "variable":
		if s.Variable = text; variablePattern.FindString(text+"=") != text+"=" {
			return wrong("write its name alone", "%s is not a variable's name", said(text))
		}
	case "file":
		if s.File = text; !filepath.IsAbs(text) || strings.ContainsRune(text, 0) {
			return wrong("write its whole path", "%s is not absolute", said(text))
		}
	}
	return nil
}

// secretFiles are the files with secrets of any profile: none may be mounted.
func secretFiles(profiles []values) []string {
	files := map[string]bool{}
	for _, v := range profiles {
		for _, s := range v.Secrets {
			if s.File != "" {
				for _, p := range resolved(filepath.Clean(s.File)) {
					files[p] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(files))
}

// checkSecrets finds variables that are set for every command but are secrets, rules
// that grant an unknown secret, and untrusted rules that would grant the operator's.
func (s settings) checkSecrets() Problems {
	var problems Problems
	all := s.value("secrets")
	list, _ := all.data.([]sandbox.Secret)
	report := func(v value, hint, format string, args ...any) {
		p := wrong(hint, format, args...)
		p.Place, p.Line, p.Key = v.place, v.line, v.key
		problems = append(problems, p)
	}
	env := s.value("env.set")
	set, _ := env.data.([]string)
	for _, kv := range set {
		name, _, _ := strings.Cut(kv, "=")
		if slices.ContainsFunc(list, func(s sandbox.Secret) bool { return s.Name == name }) {
			report(env, "remove it there, or give the secret another name", "sets %s for every command, but it is one of %s", name, all.key)
		}
	}
	rules := s.value("policy.rules")
	own, _ := rules.data.([]commandRule)
	for i, rule := range own {
		for _, name := range rule.Grant.Secrets {
			if known := func(s sandbox.Secret) bool { return s.Name == name }; names.CheckSecret(name) == nil && !slices.ContainsFunc(list, known) {
				report(rules, "define it under secrets, or remove it from the rule", "rules[%d] grants secret %q, which does not exist", i, name)
			}
		}
		if rules.untrusted && len(list) > 0 && len(rule.Grant.Secrets) > 0 {
			report(rules, "if you trust this file, name it with --config or BELLJAR_CONFIG", "rules[%d] grants secrets, which a file found in the working directory cannot do", i)
		}
	}
	return problems
}
