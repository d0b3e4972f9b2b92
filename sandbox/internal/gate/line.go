package gate

import (
	"cmp"
	"strings"
	"unicode/utf8"

	"belljar/internal/names"
	"belljar/internal/shellargs"
	"belljar/sandbox"
)

const (
	// MaxShort bounds the line of a gate, in bytes, where an exec can start
	// the command, too: a gate reads them one by one, and an exec is quicker with
	// more.
	MaxShort = 128 << 10

	// MaxLine bounds it where no exec can.
	MaxLine = 8 << 20
)

// Required reports whether only a gate can start the command. The engine shows
// what an exec is given, and its API carries nothing but UTF-8.
func Required(c sandbox.Command, secrets []string) bool {
	return len(secrets) > 0 || !utf8.ValidString(c.Script)
}

// Line is what a gate reads so that it becomes exactly the command that
// an exec would start: in that directory, with those variables, and with none of
// its own. It is one line. The gate says a word before the command runs. False
// means that no gate can read this command.
func Line(c sandbox.Command, most int) (string, bool) {
	var b strings.Builder
	b.WriteString("c ")
	quoteWord(&b, c.Dir)
	for i, kv := range c.Env {
		name, value, _ := strings.Cut(kv, "=")
		if !names.Exportable(name) {
			return "", false
		}
		if i == 0 {
			b.WriteString(";export")
		}
		b.WriteString(" " + name + "=")
		quoteWord(&b, value)
	}
	if len(c.Env) > 0 {
		b.WriteString(" 2>&3")
	}
	become := "xi"
	if c.Shell == sandbox.ShellBash {
		become = "yj"
	}
	b.WriteByte(';')
	if c.Stdin == nil {
		b.WriteByte(become[0])
	} else {
		b.WriteByte(become[1])
	}
	b.WriteByte(' ')
	for i, arg := range shellargs.Of(cmp.Or(c.Shell, sandbox.ShellSh), c.Script) {
		if i > 0 {
			b.WriteByte(' ')
		}
		quoteWord(&b, arg)
	}
	b.WriteByte('\n')
	return b.String(), b.Len() <= most
}

// quoteWord writes one word for a POSIX shell whose $1 is a newline.
func quoteWord(b *strings.Builder, word string) {
	b.WriteByte('\'')
	for word != "" {
		i := strings.IndexAny(word, "'\n")
		if i < 0 {
			b.WriteString(word)
			break
		}
		b.WriteString(word[:i])
		if word[i] == '\'' {
			b.WriteString(`'\''`)
		} else {
			b.WriteString(`'"$1"'`)
		}
		word = word[i+1:]
	}
	b.WriteByte('\'')
}
