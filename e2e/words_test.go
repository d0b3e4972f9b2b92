package e2e

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// oddWords are old-fashioned, clever or ambiguous. Each has a plain word that people
// use, and search for.
var oddWords = regexp.MustCompile(`(?i)\b(` + strings.Join([]string{
	`nobody`,                         // no one
	`whoever`,                        // anyone who
	`whichever`,                      // any
	`whom`,                           // who, or "the user that"
	`vouch(es)?`,                     // untrusted
	`mend(s|ed|ing)?`,                // fix
	`heeds?`,                         // follow
	`alike`,                          // the same
	`likewise`,                       // say it again
	`anew`,                           // again
	`for want of`,                    // without, out of
	`of itself`,                      // by itself
	`beside`,                         // next to, compared with, in addition to
	`tells? of`, `(is|are|was) told`, // report
	`as (it|they) (is|are|was|were)`, // unchanged
	`(is|was|are) (not )?here`,       // present
	`is there to`,                    // available
	`makes of`,                       // reads as, decides about
	`of the engine's`,                // of the engine
	`lacks`,                          // does not have
	`goes astray`, `to be had`, `be had`, `in vain`, `ought`, `hence`, `thereof`, `lest`,
}, "|") + `)\b`)

// oddComments are the clearest of them, in the comments of Go files that are no tests.
var oddComments = regexp.MustCompile(`(?i)\b(tells whether|vouch(es)?|anew|lets go of|sees to it|ends? of itself|nobody|whoever)\b`)

// accounts are names of users that a message gives as examples.
var accounts = regexp.MustCompile("such as nobody or nobody:staff|has nobody|nobody:0|`nobody`")

// TestWords looks for odd words in everything that a person reads: messages, help,
// sandbox.yaml and the documentation.
func TestWords(t *testing.T) {
	needPlain(t)
	t.Parallel()
	root := os.DirFS("..")
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "testdata" || strings.HasPrefix(entry.Name(), ".") && name != "."):
			return fs.SkipDir
		case strings.HasPrefix(name, "sandbox/sandboxtest/"): // a test reads these
		case strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go"):
			checkLiterals(t, name)
		case name == "README.md", name == "sandbox.yaml", strings.HasPrefix(name, "docs/"):
			text, err := fs.ReadFile(root, name)
			if err != nil {
				return err
			}
			for i, line := range strings.Split(string(text), "\n") {
				checkWords(t, name, i+1, line)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// checkLiterals checks the comments of a Go file, and its strings. A string without a
// blank is no message.
func checkLiterals(t *testing.T, name string) {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, filepath.Join("..", filepath.FromSlash(name)), nil, parser.SkipObjectResolution|parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range file.Comments {
		for _, c := range group.List {
			if found := oddComments.FindString(c.Text); found != "" {
				t.Errorf("%s:%d: %q in a comment: %s", name, files.Position(c.Pos()).Line, found, c.Text)
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		literal, ok := n.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING || !strings.Contains(literal.Value, " ") {
			return true
		}
		text, err := strconv.Unquote(literal.Value)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(text, "\n") {
			checkWords(t, name, files.Position(literal.Pos()).Line+i, line)
		}
		return true
	})
}

func checkWords(t *testing.T, name string, line int, text string) {
	t.Helper()
	if found := oddWords.FindString(accounts.ReplaceAllString(text, "")); found != "" {
		t.Errorf("%s:%d: %q: %s", name, line, found, strings.TrimSpace(text))
	}
}
