package eval

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"belljar/eval/suite"
	"belljar/sandbox"
)

// failing is the name of the control whose tests fail, or what the names of those begin with that are for one language.
const failing = "failing"

func hasPython(g suite.Grader) bool {
	return slices.ContainsFunc(g.Tests, func(f sandbox.File) bool { return path.Ext(f.Path) == ".py" })
}

// failing are the controls with tests that fail. Those in different languages are changed one after the other: a program in one
// that runs the tests in another, and fails in any case, would hide that those pass. But a control of files that no one
// runs says nothing, which only the task's own solution shows: without one, all are changed together.
func (t *trial) failing() (list []control) {
	g := t.task.Grader
	if hasPython(g) {
		list = append(list, control{name: failing + " .py", python: failing})
	}
	for _, tests := range suite.FailingTests(g) {
		list = append(list, control{name: failing + " " + path.Ext(tests[0].Path), tests: tests})
	}
	if changes, ok := suite.FailingScript(g); ok {
		list = append(list, control{name: failing + " script", script: changes.Script, tests: changes.Tests})
	}
	if t.task.Solution.Exists() && len(list) > 1 || len(list) == 0 {
		return list
	}
	all := control{name: failing}
	for _, c := range list {
		all.script, all.tests, all.python = cmp.Or(all.script, c.script), append(all.tests, c.tests...), cmp.Or(all.python, c.python)
	}
	return []control{all}
}

// isUnsure reports whether the control can pass with a solution that does not cheat: also one for files that no one runs.
func (c control) isUnsure(g suite.Grader) bool {
	return strings.HasPrefix(c.name, failing+" ") || c.name == failing && suite.IsUnsure(g)
}
