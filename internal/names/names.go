// Package names checks the names of commands, sessions, variables and secrets.
package names

import (
	"strconv"
	"strings"

	"belljar/sandbox"
)

// idChars are the characters of an ID, which becomes part of a container's name and
// of its address in the engine's API.
const idChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"

// CheckID refuses an invalid command ID.
func CheckID(id string) error {
	if len(id) > 64 || strings.Trim(id, idChars) != "" || strings.HasPrefix(id, ".") {
		return sandbox.Invalid("use at most 64 of A-Z a-z 0-9 _ . -, not beginning with a dot; or leave it empty to get one", "command ID %.80q is not allowed", id)
	}
	return nil
}

// CheckSession refuses a name that could not be a label's value and a file name.
func CheckSession(name string) error {
	if name == "" || len(name) > 64 || strings.Trim(name, idChars) != "" || strings.Trim(name[:1], "._-") == "" {
		return sandbox.Invalid("use at most 64 of A-Z a-z 0-9 _ . -, beginning with a letter or digit", "session name %.80q is not allowed", name)
	}
	return nil
}

// Exportable reports whether a shell can set a variable of that name and keeps its
// value: not an invalid name, and none that the shell uses itself.
func Exportable(name string) bool {
	for i, r := range name {
		letter := r == '_' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != "" && !shellsOwn[name] && !strings.HasPrefix(name, "BASH")
}

// shellsOwn are variables that dash, busybox or bash set, protect,
// or act on.
var shellsOwn = map[string]bool{
	"_": true, "UID": true, "EUID": true, "PPID": true, "GROUPS": true, "SHELLOPTS": true, "SHLVL": true, "FUNCNAME": true, "FUNCNEST": true,
	"DIRSTACK": true, "HISTCMD": true, "LINENO": true, "OPTIND": true, "RANDOM": true, "SRANDOM": true, "SECONDS": true,
	"EPOCHSECONDS": true, "EPOCHREALTIME": true, "COMP_WORDBREAKS": true, "EXECIGNORE": true, "PIPESTATUS": true, "POSIXLY_CORRECT": true,
}

// CheckSecret refuses a name that no secret can have for a command: a shell in
// its container sets the variable.
func CheckSecret(name string) error {
	if !Exportable(name) {
		return sandbox.Invalid("use letters, digits and _, but not a name that shells set or use themselves, such as UID or BASH_ENV", "%s cannot be a secret's name", strconv.QuoteToASCII(name))
	}
	return nil
}
