package sandbox

import (
	"strings"
	"unicode/utf8"
)

const (
	// maxDelivery bounds what a gate is told, in bytes, where an exec can start
	// the command, too: a gate reads them one by one, and an exec is quicker with
	// more.
	maxDelivery = 128 << 10

	// mostDelivery bounds it where no exec can.
	mostDelivery = 8 << 20
)

// onlyByGate tells whether an exec cannot start the command. The engine shows what
// it is told of one, and its API carries nothing but UTF-8.
func (c Command) onlyByGate(secrets []string) bool {
	return len(secrets) > 0 || !utf8.ValidString(c.Script)
}

// delivery is what a gate is told so that it becomes exactly the command that
// an exec would start: in that directory, with those variables, and with none of
// its own. It is one line. The gate says a word before the command runs. False
// means that no gate can be told this command.
func delivery(c Command, most int) (string, bool) {
	var b strings.Builder
	b.WriteString("c ")
	quoteWord(&b, c.Dir)
	for i, kv := range c.Env {
		name, value, _ := strings.Cut(kv, "=")
		if !exportable(name) {
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
	if c.Stdin == nil {
		b.WriteString(";x ")
	} else {
		b.WriteString(";i ")
	}
	for i, arg := range ShellArgs(c.Script) {
		if i > 0 {
			b.WriteByte(' ')
		}
		quoteWord(&b, arg)
	}
	b.WriteByte('\n')
	return b.String(), b.Len() <= most
}

// exportable tells whether a shell can set a variable of that name, and sets it
// as it is: not one that is no name to it, and none that is its own.
func exportable(name string) bool {
	for i, r := range name {
		letter := r == '_' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != "" && !shellsOwn[name] && !strings.HasPrefix(name, "BASH")
}

// shellsOwn are variables that dash, busybox or bash set, keep from being set,
// or act on when they are.
var shellsOwn = map[string]bool{
	"_": true, "UID": true, "EUID": true, "PPID": true, "GROUPS": true, "SHELLOPTS": true, "SHLVL": true, "FUNCNAME": true, "FUNCNEST": true,
	"DIRSTACK": true, "HISTCMD": true, "LINENO": true, "OPTIND": true, "RANDOM": true, "SRANDOM": true, "SECONDS": true,
	"EPOCHSECONDS": true, "EPOCHREALTIME": true, "COMP_WORDBREAKS": true, "EXECIGNORE": true, "PIPESTATUS": true, "POSIXLY_CORRECT": true,
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
