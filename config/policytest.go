package config

import (
	"fmt"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"

	"belljar/policy"
)

// PolicyTest is a script, and the expected decision of the command policy.
type PolicyTest struct {
	Line     int // in its file
	Script   string
	Dir      string // where it starts, absolute; "" is the profile's
	Decision policy.Decision
	Rule     *string // the rule that decides; "" is the default, nil is any
}

// ReadPolicyTests reads a table of them; Problems use its name. It
// is as strict as sandbox.yaml: nothing in the table is ignored.
//
//	tests:
//	  - {script: git status, decision: allow}
//	  - {script: git push -f, decision: deny, rule: no-force, dir: /work/sub}
func ReadPolicyTests(name string, data []byte) ([]PolicyTest, error) {
	r := &reader{origin: origin{from: "file", place: name}}
	root, problem := parse(data)
	if problem != nil {
		problem.Place = name
		return nil, Problems{problem}
	}
	if root == nil {
		root = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: 1}
	}
	r.refuseAliases(root)
	var tests []PolicyTest
	written := false
	for _, f := range r.fields(root, "") {
		if f.name != "tests" {
			r.report(f.path, f.key, wrong("the only key of a test table is tests", "unknown key"))
			continue
		}
		written = true
		if !r.is(f.value, yaml.SequenceNode, f.path, "a list") {
			continue
		}
		for i, n := range f.value.Content {
			tests = append(tests, r.policyTest(n, fmt.Sprintf("%s[%d]", f.path, i)))
		}
	}
	if len(tests) == 0 && (len(r.problems) == 0 || !written) {
		r.report("tests", root, wrong("write tests: [{script: git status, decision: allow}]", "there are no tests"))
	}
	if len(r.problems) > 0 {
		return nil, r.problems.tidy()
	}
	return tests, nil
}

func (r *reader) policyTest(n *yaml.Node, name string) PolicyTest {
	test := PolicyTest{Line: n.Line}
	written, before := map[string]bool{}, len(r.problems)
	for _, f := range r.fields(n, name) {
		written[f.name] = true
		r.policyTestField(&test, f)
	}
	for _, needed := range []string{"script", "decision"} {
		if !written[needed] && len(r.problems) == before && n.Kind == yaml.MappingNode {
			r.report(name, n, wrong("write {script: git status, decision: allow}", "the %s is missing", needed))
		}
	}
	return test
}

func (r *reader) policyTestField(test *PolicyTest, f field) {
	texts := map[string]*string{"script": &test.Script, "dir": &test.Dir, "rule": new(string), "decision": new(string)}
	text := texts[f.name]
	if text == nil {
		r.report(f.path, f.key, wrong("a test has script, decision, rule and dir", "unknown key"))
		return
	}
	if !r.isString(f.value, f.path) {
		return
	}
	*text = f.value.Value
	switch f.name {
	case "script":
		if strings.TrimSpace(*text) == "" {
			r.report(f.path, f.value, wrong("write one such as git status", "is empty"))
		}
	case "dir":
		if !path.IsAbs(*text) {
			r.report(f.path, f.value, wrong("write a path in the container, such as /work/sub", "%s is not absolute", said(*text)))
		}
	case "rule":
		test.Rule = text
	case "decision":
		test.Decision = r.decision(f)
	}
}
