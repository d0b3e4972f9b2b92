package template

import (
	"belljar/internal/lazyregexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// In a command that sh itself runs, sh may evaluate an argument:
// bash reads the subscript in read 'a[$(rm x)]' as an expression, and runs the
// command in it. So the command must be known, and known not to do that.

// plain is a command's name that every shell reads as it is written.
var plain = lazyregexp.New(`^(\[|:|[A-Za-z0-9_./@+-]+)$`)

// format is the beginning of a word that is no option whatever follows.
var format = lazyregexp.New(`^('[^'-]|"([^"\\$` + "`" + `-]|\\[^\n])|[A-Za-z0-9%])`)

const (
	unplain   = "the program's name here is not plain, so sh may evaluate the arguments: write the name without quotes, backslashes and $"
	evaluates = "sh may evaluate the arguments of NAME: pass them to a program, or to printf '%s\\n' {{args}}"
	uses      = "sh may evaluate the arguments of NAME: write HOW"
)

// builtins are sh's own commands, for dash, busybox and bash, and what one of them reads
// as syntax and another as a program: with how each takes arguments, or "" if it
// does not. Some with "" would not evaluate their words either, but no template
// needs them.
var builtins = func() map[string]string {
	known := map[string]string{
		":": "any", "true": "any", "false": "any", "echo": "any", "cd": "any",
		"printf": "printf '%s\\n' {{args}}",
		"set":    "set -- {{args}}",
		"test":   "test -f {{args}}, or with -n, -z, -e, -d, -r, -w, -x, -s, -L; test X = {{args}}, or with !=",
		"[":      "[ -f {{args}} ], or with -n, -z, -e, -d, -r, -w, -x, -s, -L; [ X = {{args}} ], or with !=",
	}
	for _, name := range strings.Fields(`. alias bg bind break builtin caller chdir command compgen complete
		compopt continue coproc declare dirs disown enable eval exec exit export fc fg getopts hash help history
		jobs kill let local logout mapfile popd pushd pwd read readarray readonly return select shift shopt source
		suspend time times trap type typeset ulimit umask unalias unset wait
		autoload float functions integer nameref print vared whence zparseopts`) {
		known[name] = ""
	}
	return known
}()

// unary are the tests of one word that all shells support.
var unary = strings.Fields("-n -z -e -f -d -r -w -x -s -L -h")

// refuses says why a command cannot have a hole in its word at i, after the
// first; "" if it can.
func refuses(words []string, i int) string {
	name := words[0]
	if !plain.MatchString(name) {
		return unplain
	}
	how, known := builtins[name]
	takes := true
	switch {
	case known && how == "":
		return strings.ReplaceAll(evaluates, "NAME", name)
	case name == "printf":
		takes = i > 1 && format.MatchString(words[1]) // -v NAME evaluates it; nor may arguments be the format
	case name == "set":
		takes = i > 1 && words[1] == "--"
	case name == "test":
		takes = tests(words[1:])
	case name == "[":
		takes = words[len(words)-1] == "]" && tests(words[1:len(words)-1])
	}
	if takes {
		return ""
	}
	return strings.NewReplacer("NAME", name, "HOW", how).Replace(uses)
}

// tests reports whether these are the words of a test that evaluates none,
// whatever the arguments are.
func tests(words []string) bool {
	if len(words) > 0 && words[0] == "!" {
		words = words[1:]
	}
	if len(words) > 3 {
		return false
	}
	for _, w := range words {
		if strings.Contains(strings.ReplaceAll(w, hole, ""), "{") {
			return false // it might be several words
		}
	}
	switch len(words) {
	case 2:
		return slices.Contains(unary, words[0])
	case 3:
		return words[1] == "=" || words[1] == "!="
	}
	return false
}

// sources are words as written in the script.
func sources(script string, list []*syntax.Word) []string {
	words := make([]string, len(list))
	for i, w := range list {
		words[i] = source(script, w)
	}
	return words
}

func source(script string, w *syntax.Word) string {
	start, end := int(w.Pos().Offset()), int(w.End().Offset())
	if start < 0 || end > len(script) || start > end {
		return ""
	}
	return script[start:end]
}
