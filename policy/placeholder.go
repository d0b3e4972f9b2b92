package policy

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// placeholder replaces each byte that shells, parsers and people would read
// differently: invalid UTF-8, control characters except line ends and tabs, and
// characters that change the direction of text. In single quotes every shell takes all
// bytes literally, so they are allowed there, and the word counts as
// unknown. Anywhere else they are denied.
const placeholder = '\x01'

// badChar says what is wrong with the text's first character, or "".
func badChar(text string) string {
	r, size := utf8.DecodeRuneInString(text)
	switch {
	case r == utf8.RuneError && size == 1:
		return "the script is not UTF-8"
	case isControl(r) && r != '\n' && r != '\t', unicode.Is(unicode.Bidi_Control, r):
		return fmt.Sprintf("the script contains the control character %U", r)
	}
	return ""
}

// unreadable says why a script within a word is not judged.
func unreadable(text string) string {
	_, what := tooMuch(text)
	for i := range text {
		if what == "" {
			what = badChar(text[i:])
		}
	}
	return what
}

// withPlaceholders returns a text of the same length for the parser, which refuses some
// of these bytes and drops others.
func withPlaceholders(text string) string {
	var b []byte // nil in most cases
	for i := 0; i < len(text); {
		_, size := utf8.DecodeRuneInString(text[i:])
		if badChar(text[i:]) != "" {
			if b == nil {
				b = []byte(text)
			}
			for at := range size {
				b[i+at] = placeholder
			}
		}
		i += size
	}
	if b == nil {
		return text
	}
	return string(b)
}

// unquotedPlaceholder finds a placeholder outside single quotes, or returns -1.
func unquotedPlaceholder(file *syntax.File, text string) int {
	return outsideQuotes(file, text, string(placeholder))
}

// hereDocAfter finds a here-document whose text is outside the substitution
// that redirects it: for dash and busybox `$(cat <<A)` has an empty one, and the next
// lines are commands. The parser has no position for an empty one.
func hereDocAfter(file *syntax.File, text string) int {
	at := -1
	if !strings.Contains(text, "<<") {
		return at
	}
	end := len(text) + 1 // the end of the innermost substitution
	var visit func(n syntax.Node) bool
	visit = func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst, *syntax.ProcSubst:
			if outer := end; outer != int(n.End().Offset()) {
				end = int(n.End().Offset())
				syntax.Walk(n, visit)
				end = outer
				return false
			}
		case *syntax.Redirect:
			if (n.Op == syntax.Hdoc || n.Op == syntax.DashHdoc) && end <= len(text) && (n.Hdoc == nil || int(n.Hdoc.End().Offset()) >= end) {
				at = int(n.OpPos.Offset())
			}
		}
		return at < 0
	}
	syntax.Walk(file, visit)
	return at
}

// joinedDollar finds a dollar sign before a joined line. Shells join lines
// before they look at what follows, so that they run `id` in a quoted `$(id)`
// with a backslash and newline before its bracket. mvdan.cc/sh v3.14.1 does not.
func joinedDollar(file *syntax.File, text string) int {
	return outsideQuotes(file, text, "$\\\n")
}

// outsideQuotes finds a mark outside single quotes, or returns -1.
func outsideQuotes(file *syntax.File, text, mark string) int {
	if !strings.Contains(text, mark) {
		return -1
	}
	left := []byte(text)
	syntax.Walk(file, func(n syntax.Node) bool {
		if q, ok := n.(*syntax.SglQuoted); ok && !q.Dollar {
			clear(left[q.Pos().Offset():q.End().Offset()])
		}
		return true
	})
	return strings.Index(string(left), mark)
}

// isOpaqueText reports whether a text in single quotes is not parsed: readers would
// differ on its bytes, or it is too long for any program.
func isOpaqueText(text string) bool {
	return len(text) > maxScript || strings.IndexByte(text, placeholder) >= 0
}

// wordsOnly reports whether a text consists only of words of plain characters and
// single quotes, as `belljar run -- PROGRAM ARG...` writes it. Such a text is cheap to
// parse at any length.
func wordsOnly(text string) bool {
	const plain = " ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./:,+@%="
	for text != "" {
		text = strings.TrimLeft(text, plain)
		switch {
		case strings.HasPrefix(text, `\'`):
			text = text[2:]
		case strings.HasPrefix(text, "'"):
			_, rest, closed := strings.Cut(text[1:], "'")
			if !closed {
				return false
			}
			text = rest
		case text != "":
			return false
		}
	}
	return true
}
