package policy

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// veil stands for each byte that shells, parsers and people would not all see
// the same way: of what is not UTF-8, of control characters but line ends and tabs, and
// of those that turn text around. In single quotes every shell takes all bytes as
// they are, so there they may stand; the word is then one that only the run
// reveals. Anywhere else they are denied.
const veil = '\x01'

// odd says what is wrong with the text's first character, if something is.
func odd(text string) string {
	r, size := utf8.DecodeRuneInString(text)
	switch {
	case r == utf8.RuneError && size == 1:
		return "the script is not UTF-8"
	case isControl(r) && r != '\n' && r != '\t', unicode.Is(unicode.Bidi_Control, r):
		return fmt.Sprintf("the script contains the control character %U", r)
	}
	return ""
}

// unreadable says why a script that came out of another one's word is not judged.
func unreadable(text string) string {
	_, what := tooMuch(text)
	for i := range text {
		if what == "" {
			what = odd(text[i:])
		}
	}
	return what
}

// veiled is a text of the same length for the parser, which refuses some odd
// bytes and drops others.
func veiled(text string) string {
	var b []byte // nil, mostly
	for i := 0; i < len(text); {
		_, size := utf8.DecodeRuneInString(text[i:])
		if odd(text[i:]) != "" {
			if b == nil {
				b = []byte(text)
			}
			for at := range size {
				b[i+at] = veil
			}
		}
		i += size
	}
	if b == nil {
		return text
	}
	return string(b)
}

// unveiled finds a veil outside single quotes, -1 if there is none.
func unveiled(file *syntax.File, text string) int {
	return outsideQuotes(file, text, string(veil))
}

// hereDocAfter finds a here-document whose text is not within the substitution
// that asks for it: to dash and busybox `$(cat <<A)` has an empty one, and what
// follows are commands. Of an empty one the parser does not tell where it is.
func hereDocAfter(file *syntax.File, text string) int {
	at := -1
	if !strings.Contains(text, "<<") {
		return at
	}
	end := len(text) + 1 // of the innermost substitution
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

// joinedDollar finds a dollar sign before a line that is joined. Shells join
// lines before they look what follows, so that they run `id` in a quoted `$(id)`
// with such an end of line before its bracket. mvdan.cc/sh v3.14.1 does not.
func joinedDollar(file *syntax.File, text string) int {
	return outsideQuotes(file, text, "$\\\n")
}

// outsideQuotes finds a mark that does not stand in single quotes, -1 if there
// is none.
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

// unread reports whether a text in single quotes is not looked into: it holds what
// readers would take differently, or no program could be given it.
func unread(text string) bool {
	return len(text) > maxScript || strings.IndexByte(text, veil) >= 0
}

// wordsOnly reports whether a text is nothing but words of plain characters and
// single quotes, as `belljar run -- PROGRAM ARG...` makes it: such a one is cheap to
// parse, however long it is.
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
