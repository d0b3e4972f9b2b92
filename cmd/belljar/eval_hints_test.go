package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// A message of belljar eval that proposes a flag names one that some of its commands have.
func TestEvalHintsNameFlags(t *testing.T) {
	var commands []*cobra.Command
	root := rootCmd()
	for _, c := range root.Commands() {
		if c.Name() == "eval" || c.Name() == "images" {
			commands = append(commands, c.Commands()...)
		}
	}
	var files []string
	for _, pattern := range []string{"eval*.go", "../../eval/*.go", "../../eval/*/*.go"} {
		list, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, list...)
	}
	flag, seen := regexp.MustCompile(`--[a-z][a-z-]+`), 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(lit.Value)
			if err != nil || !strings.Contains(text, " ") || strings.Contains(text, "\n") { // help and examples have other programs, too
				return true
			}
			for _, one := range flag.FindAllString(text, -1) {
				seen++
				if !hasFlag(root, commands, one[2:]) {
					t.Errorf("%s: %q is no flag: %q", name, one, text)
				}
			}
			return true
		})
	}
	if seen < 20 {
		t.Errorf("%d flags are named", seen)
	}
}

func hasFlag(root *cobra.Command, commands []*cobra.Command, name string) bool {
	for _, c := range commands {
		if c.Flags().Lookup(name) != nil {
			return true
		}
	}
	return root.PersistentFlags().Lookup(name) != nil
}
