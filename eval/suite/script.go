package suite

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"belljar/eval/run"
	"belljar/sandbox"

	"mvdan.cc/sh/v3/syntax"
)

// Variant is a grader's script, or tests, in place of its own.
type Variant struct {
	Script string
	Tests  []sandbox.File
}

// TestScript is the path of what a grader by reward runs.
const TestScript = TestsDir + "/test.sh"

// script is what grades, as a text.
func (g Grader) script() string {
	if g.By == run.ByCheck {
		return g.Script
	}
	for _, f := range g.Tests {
		if f.Path == TestScript {
			return string(f.Content)
		}
	}
	return ""
}

// variant is the grader with another script.
func (g Grader) variant(text string) Variant {
	if g.By == run.ByCheck {
		return Variant{Script: text}
	}
	return Variant{Tests: []sandbox.File{{Path: TestScript, Content: []byte(text), Mode: 0o755}}}
}

// change is a span of a script that is replaced.
type change struct {
	from, to uint
	text     string
}

func changed(text string, changes []change) string {
	slices.SortFunc(changes, func(a, b change) int { return int(b.from) - int(a.from) })
	for _, c := range changes {
		text = text[:c.from] + c.text + text[c.to:]
	}
	return text
}

// parse reads a script as Bash, or is nil: see Unreadable.
func parse(text string) *syntax.File {
	f, err := parsed(text)
	if err != nil {
		return nil
	}
	return f
}

func parsed(text string) (*syntax.File, error) {
	return syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
}

// Unreadable is why the grader's script cannot be read, and so not be changed, or nil. Another shell than Bash may run it.
func Unreadable(g Grader) error {
	_, err := parsed(g.script())
	return err
}

// noTests are programs that test nothing by themselves.
var noTests = []string{"", "echo", "printf", "exit", "cd", "mkdir", "export", "set", "true", "false", "[", "[[", "test", ":", "cat", "cp", "mv", "rm", "chmod", "source", ".", "return", "touch", "tee", "read", "local"}

// falses are tests by some programs that are false. Code of a solution that the script reads could have functions
// of those names, which false does not find out.
var falses = map[string]string{"[": "[ 1 = 2 ]", "test": "test 1 = 2", "[[": "[[ 1 = 2 ]]", "grep": "grep -q x /dev/null", "diff": "diff /dev/null /etc/passwd", "cmp": "cmp -s /dev/null /etc/passwd"}

// FalseScript is the grader with its last test replaced by one that is false. It is not ok where no command
// looks like a test.
func FalseScript(g Grader) (Variant, bool) {
	text := g.script()
	f := parse(text)
	if f == nil {
		return Variant{}, false
	}
	// A program rather than a condition, of which many only look at what a program wrote; and a
	// function at last, of which many only say how it went.
	functions := g.functions()
	var program, condition, function syntax.Node
	syntax.Walk(f, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.FuncDecl, *syntax.CmdSubst, *syntax.ProcSubst:
			return false
		case *syntax.TestClause:
			condition = n
		case *syntax.CallExpr:
			if len(n.Args) == 0 {
				return true
			}
			switch name := path.Base(n.Args[0].Lit()); {
			case name == "[" || name == "test":
				condition = n
			case slices.Contains(functions, name):
				function = n
			case !slices.Contains(noTests, name):
				program = n
			}
		}
		return true
	})
	last := program
	for _, other := range []syntax.Node{condition, function} {
		if last == nil {
			last = other
		}
	}
	if last == nil {
		return Variant{}, false
	}
	name := ""
	switch n := last.(type) {
	case *syntax.TestClause:
		name = "[["
	case *syntax.CallExpr:
		name = n.Args[0].Lit()
	}
	return g.variant(changed(text, []change{{last.Pos().Offset(), last.End().Offset(), cmp.Or(falses[name], "false")}})), true
}

// functions are the names of those that the tests' shell scripts have.
func (g Grader) functions() (names []string) {
	texts := []string{g.script()}
	for _, f := range g.Tests {
		if path.Ext(f.Path) == ".sh" && f.Path != TestScript {
			texts = append(texts, string(f.Content))
		}
	}
	for _, text := range texts {
		if f := parse(text); f != nil {
			syntax.Walk(f, func(n syntax.Node) bool {
				if decl, ok := n.(*syntax.FuncDecl); ok {
					names = append(names, decl.Name.Value)
				}
				return true
			})
		}
	}
	return names
}
