package config

import (
	"belljar/internal/lazyregexp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"belljar/internal/target"
	"belljar/policy"
	"belljar/sandbox"

	"go.yaml.in/yaml/v3"
)

var (
	variablePattern = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*=`)
	globPattern     = lazyregexp.New(`^[A-Za-z_*][A-Za-z0-9_*]*$`)
)

// variables is a list of NAME=value. It is not a mapping, as viper lower-cases
// a mapping's keys.
var variables = stringList(variablePattern, "NAME=value", "write NAME=value, where NAME is letters, digits and _")

var variableGlobs = stringList(globPattern, "a variable's name", `write a name such as CI, or a glob such as "LC_*"`)

// stringList is a list of strings that match.
func stringList(re *lazyregexp.Regexp, what, hint string) kind {
	return kind{
		schema: map[string]any{"type": "array", "items": map[string]any{"type": "string", "pattern": re.String()}},
		list: func(r *reader, name string, items []*yaml.Node) any {
			list := make([]string, 0, len(items))
			for i, n := range items {
				item := fmt.Sprintf("%s[%d]", name, i)
				if !r.isString(n, item) {
					continue
				}
				if !re.MatchString(n.Value) || strings.ContainsRune(n.Value, 0) {
					r.report(item, n, wrong(hint, "%s is not %s", said(n.Value), what))
					continue
				}
				list = append(list, n.Value)
			}
			return list
		},
	}
}

// tmpfs is a list of directories in the container.
var tmpfs = kind{
	schema: map[string]any{"type": "array", "items": map[string]any{"type": "string", "pattern": "^/"}},
	list: func(r *reader, name string, items []*yaml.Node) any {
		list := make([]string, 0, len(items))
		for i, n := range items {
			item := fmt.Sprintf("%s[%d]", name, i)
			if !r.isString(n, item) {
				continue
			}
			if err, ok := errors.AsType[*sandbox.Error](target.CheckTmpfs(n.Value)); ok {
				r.report(item, n, wrong(err.Hint, "%s cannot be a tmpfs", said(n.Value)))
				continue
			}
			list = append(list, n.Value)
		}
		return list
	},
}

// mountRule is a rule and its source, if it has one, before links were resolved.
type mountRule struct {
	policy.MountRule
	written string
}

var mounts = kind{
	schema: map[string]any{"type": "array", "items": map[string]any{
		"type": "object", "additionalProperties": false,
		"oneOf": []any{map[string]any{"required": []string{"source"}}, map[string]any{"required": []string{"volume"}}},
		"properties": map[string]any{
			"source": map[string]any{"type": "string", "description": "Directory or file on the host; everything below it can be mounted, too."},
			"volume": map[string]any{"type": "string", "pattern": namePattern.String(), "description": "Name of a PersistentVolumeClaim in engine.kubernetes.namespace. Other engines have no volumes."},
			"target": map[string]any{"type": "string", "description": "Path in the container, or any path below it. Empty: anywhere."},
			"mode":   map[string]any{"type": "string", "enum": []string{policy.ReadOnly, policy.ReadWrite}, "default": policy.ReadOnly},
		},
	}},
	list: func(r *reader, name string, items []*yaml.Node) any {
		list := make([]mountRule, 0, len(items))
		for i, n := range items {
			if rule, ok := r.mount(n, fmt.Sprintf("%s[%d]", name, i)); ok {
				list = append(list, rule)
			}
		}
		return list
	},
}

func (r *reader) mount(n *yaml.Node, name string) (mountRule, bool) {
	rule := mountRule{MountRule: policy.MountRule{Mode: policy.ReadOnly}}
	before := len(r.problems)
	for _, f := range r.fields(n, name) {
		if !slices.Contains([]string{"source", "volume", "target", "mode"}, f.name) {
			r.report(f.path, f.key, misspeltField("a mount", f.name, "source", "volume", "target", "mode"))
		} else if r.isString(f.value, f.path) {
			if problem := rule.set(f.name, f.value.Value, r.dir); problem != nil {
				r.report(f.path, f.value, problem)
			}
		}
	}
	switch {
	case len(r.problems) > before:
	case rule.Source == "" && rule.Volume == "":
		r.report(name, n, wrong("write {source: ./, target: /work, mode: ro}, or {volume: NAME, target: /data, mode: ro}", "the source is missing"))
	case rule.Source != "" && rule.Volume != "":
		r.report(name, n, wrong("write a rule for each", "a rule has either a source or a volume"))
	}
	if rule.Source == "/" && r.from != "default" {
		r.report(name, n, wrong("name the directories that commands need", "the source / allows the whole host"))
	}
	// The default, ./, allows nothing if that is the root directory.
	return rule, len(r.problems) == before && rule.Source != "/"
}

func (m *mountRule) set(field, text, dir string) *Problem {
	switch field {
	case "source":
		source, problem := hostPath(text, dir)
		if problem != nil {
			return problem
		}
		m.written, m.Source = source, resolve(source)
	case "volume":
		if !target.Volume(text) {
			return wrong("write the whole name of a PersistentVolumeClaim, such as cache", "%s is not the name of a volume", said(text))
		}
		m.Volume = text
	case "target":
		if text != "" && (!path.IsAbs(text) || strings.ContainsAny(text, "\x00:")) {
			return wrong("write a path in the container, such as /work", "%s is not absolute", said(text))
		}
		m.Target = text
	case "mode":
		if text != policy.ReadOnly && text != policy.ReadWrite {
			return wrong("write ro or rw", "%s is not a mode", said(text))
		}
		m.Mode = text
	}
	return nil
}
