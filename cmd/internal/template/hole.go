package template

import (
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Where a hole stands in a command that sh itself runs, sh may evaluate it:
// bash has the subscript in read 'a[$(rm x)]' for an expression, and runs what
// is in that. So it is known what the command is, and that it does not.

// plain is the name of a command that is that in every shell.
var plain = regexp.MustCompile(`^(\[|:|[A-Za-z0-9_./@+-]+)$`)

// format is the beginning of a word that is no option whatever follows.
var format = regexp.MustCompile(`^('[^'-]|"([^"\\$` + "`" + `-]|\\[^\n])|[A-Za-z0-9%])`)

const (
	unplain   = "the program's name here is not plain, so sh may evaluate the arguments: write the name without quotes, backslashes and $"
	evaluates = "sh may evaluate the arguments of NAME: pass them to a program, or to printf '%s\\n' {{args}}"
	uses      = "sh may evaluate the arguments of NAME: write HOW"
)

// builtins are sh's own, be it dash, busybox or bash, and what one has for
// syntax and another for a program: with how one takes arguments, or "" if it
// does not. Not all of these evaluate their words; those that are used are worth
// a look, and the others are not.
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

// unary are the tests of one word that all shells have.
var unary = strings.Fields("-n -z -e -f -d -r -w -x -s -L -h")

// refuses tells why a command does not take a hole in its word at i, after the
// first; or nothing.
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
		takes = i > 1 && format.MatchString(words[1]) // -v NAME evaluates it; nor is a format made of arguments
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

// tests tells whether these are the words of a test that evaluates none,
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
			return false // it might be more words
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

// sources are words as they are written.
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
