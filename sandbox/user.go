package sandbox

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// User is who a command runs as: UID and GID, or a Name that the image gives
// them by. UID 0 is refused, whatever names it. A zero User is the profile's.
type User struct {
	UID, GID int
	Name     string `json:",omitempty"` // NAME, NAME:GROUP, UID:GROUP or NAME:GID; with it the numbers are 0 until the image is known
}

// String is the user as it was asked for.
func (u User) String() string { return cmp.Or(u.Name, fmt.Sprintf("%d:%d", u.UID, u.GID)) }

// Numbers are UID:GID, or "" while they are not known.
func (u User) Numbers() string {
	if u.UID == 0 {
		return ""
	}
	return fmt.Sprintf("%d:%d", u.UID, u.GID)
}

// Unnamed is the user by numbers alone.
func (u User) Unnamed() User { return User{UID: u.UID, GID: u.GID} }

// same tells whether both are one user of the same image.
func (u User) same(other User) bool {
	return u.Unnamed() == other.Unnamed() && (u.UID != 0 || u.Name == other.Name)
}

const (
	rootHint = "use a UID above 0, such as 65534:65534, because root in a container can more easily become root on the host; if you need root to install packages, build an image: belljar images build debian --packages"

	userHint = "write UID:GID in numbers, such as 65534:65534, or names of the image, such as nobody or nobody:staff"

	// maxName is the longest name of an account (useradd(8)).
	maxName   = 32
	nameChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
)

// ParseUser reads what `-u` and the key user take. UID alone has that GID; NAME
// alone has its account's. What is all digits is a number, never a name.
func ParseUser(text string) (User, error) {
	first, second, both := strings.Cut(text, ":")
	if !both && isNumber(first) {
		second, both = first, true
	}
	uid, okUID := parseID(first)
	gid, okGID := parseID(second)
	switch {
	case IsRoot(text):
		return User{}, Invalid(rootHint, "user %.80q is root, and commands never run as root", text)
	case okUID && okGID:
		return User{UID: uid, GID: gid}, nil
	case !okUID && !isName(first) || both && !okGID && !isName(second):
		return User{}, Invalid(userHint, "user %.80q is neither UID:GID nor names", text)
	}
	return User{Name: text}, nil
}

// Check refuses root, as far as that is known before the image is, and what is no
// user anywhere.
func (u User) Check() error {
	switch {
	case u.Name != "":
		_, err := ParseUser(u.Name)
		return err
	case u.UID == 0:
		return Invalid(rootHint, "user %d:%d is root, and commands never run as root", u.UID, u.GID)
	case u.UID < 0 || u.GID < 0:
		return Invalid("give UID:GID with a UID above 0, such as 65534:65534", "user %d:%d is not allowed", u.UID, u.GID)
	}
	return nil
}

// IsRoot tells whether it is root that is meant, in any image.
func IsRoot(text string) bool {
	first, _, _ := strings.Cut(text, ":")
	uid, ok := parseID(first)
	return first == "root" || ok && uid == 0
}

// parseID reads 31 bits, which are what engines take; more would be negative to
// some.
func parseID(text string) (int, bool) {
	n, err := strconv.ParseUint(text, 10, 31)
	return int(n), err == nil && isNumber(text)
}

func isNumber(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }

// isName tells whether an account or a group can be called that.
func isName(text string) bool {
	plain := strings.TrimSuffix(text, "$") // as a machine's account has
	return plain != "" && len(text) <= maxName && strings.Trim(plain, nameChars) == "" && !strings.ContainsAny(plain[:1], "0123456789-.")
}
