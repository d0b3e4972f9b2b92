package sandbox

import (
	"fmt"
	"strings"
)

// Invalid is a refusal of an unusable command.
func Invalid(hint, format string, args ...any) error {
	return &Error{Cause: CauseInvalid, Message: fmt.Sprintf(format, args...), Hint: hint}
}

// idChars are what an ID may hold, which becomes part of a container's name and
// of its address in the engine's API.
const idChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"

// CheckID refuses what cannot be a command's ID.
func CheckID(id string) error {
	if len(id) > 64 || strings.Trim(id, idChars) != "" || strings.HasPrefix(id, ".") {
		return Invalid("at most 64 of A-Z a-z 0-9 _ . -, the first no dot, or none: then one is chosen", "command ID %.80q", id)
	}
	return nil
}

// CheckSession refuses what could not be a label's value and a file's name.
func CheckSession(name string) error {
	if name == "" || len(name) > 64 || strings.Trim(name, idChars) != "" || strings.Trim(name[:1], "._-") == "" {
		return Invalid("at most 64 of A-Z a-z 0-9 _ . -, the first a letter or digit", "session name %.80q is not allowed", name)
	}
	return nil
}
