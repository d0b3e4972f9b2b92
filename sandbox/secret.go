package sandbox

import (
	"strconv"
	"strings"
)

// Exportable tells whether a shell can set a variable of that name, and sets it
// as it is: not one that is no name to it, and none that is its own.
func Exportable(name string) bool {
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

// Secret says where a value comes from that commands get as the variable Name:
// those to which a rule of their policy grants it, and no others. It is fetched
// for each of them, and taken out of all that they write.
type Secret struct {
	Name     string       `json:"name"`
	From     SecretSource `json:"from"`
	Variable string       `json:"variable,omitempty"` // of belljar's own environment; "" is Name
	File     string       `json:"file,omitempty"`     // on belljar's host, absolute
	Command  []string     `json:"command,omitempty"`  // a program on belljar's host, as Summarize.Command, which writes it to stdout
}

// SecretSource is where a secret's value comes from.
type SecretSource string

// The sources. The empty source is none.
const (
	SecretEnv     SecretSource = "env"
	SecretFile    SecretSource = "file"
	SecretCommand SecretSource = "command"
)

// Check refuses a name that no command could be given a secret by: a shell in its
// container sets it.
func (s Secret) Check() error {
	if !Exportable(s.Name) {
		return Invalid("use letters, digits and _, and none that shells set or act on themselves, such as UID or BASH_ENV", "%s cannot be a secret's name", strconv.QuoteToASCII(s.Name))
	}
	return nil
}
