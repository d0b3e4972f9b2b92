package sandbox

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
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

func (u User) unnamed() User { return User{UID: u.UID, GID: u.GID} }

// same tells whether both are one user of the same image.
func (u User) same(other User) bool {
	return u.unnamed() == other.unnamed() && (u.UID != 0 || u.Name == other.Name)
}

const (
	// rootHint says why there is no root, and what to do without.
	rootHint = "give a UID above 0, such as 65534:65534: root of a container is a step from root of the host; install what is needed into the image, as `belljar images build debian --packages` does"

	userHint = "write UID:GID in numbers, such as 65534:65534, or names that the image has, such as nobody or nobody:staff"

	// maxName is the longest name of an account (useradd(8)).
	maxName = 32
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
		return User{}, invalid(rootHint, "user %.80q is root, which no command runs as", text)
	case okUID && okGID:
		return User{UID: uid, GID: gid}, nil
	case !okUID && !isName(first) || both && !okGID && !isName(second):
		return User{}, invalid(userHint, "user %.80q is neither UID:GID nor names", text)
	}
	return User{Name: text}, nil
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

func isName(text string) bool {
	plain := strings.TrimSuffix(text, "$") // as a machine's account has
	return plain != "" && len(text) <= maxName && strings.Trim(plain, idChars) == "" && !strings.ContainsAny(plain[:1], "0123456789-.")
}

const (
	passwdFile = "/etc/passwd"
	groupFile  = "/etc/group"

	// maxAccounts bounds each of them, and maxAccountLine a line of it.
	maxAccounts    = 1 << 20
	maxAccountLine = 16 << 10

	// maxKnownUsers bounds the users that are remembered.
	maxKnownUsers = 1000
)

// users are those that images gave numbers. What an image's ID means does not
// change.
type users struct {
	mu    sync.Mutex
	known map[[2]string]User // by image and name
}

// user is u with the numbers that its name has in the image.
func (h *house) user(ctx context.Context, image Image, u User) (User, error) {
	if u.Name == "" {
		return u, nil
	}
	at := [2]string{image.ID, u.Name}
	h.users.mu.Lock()
	known, ok := h.users.known[at]
	h.users.mu.Unlock()
	if ok {
		return known, nil
	}
	files, err := h.engine.Files(ctx, image, []string{passwdFile, groupFile}, maxAccounts)
	if err != nil {
		return u, err
	}
	if u, err = u.in(image.Reference, files[0], files[1]); err != nil {
		return u, err
	}
	h.users.mu.Lock()
	defer h.users.mu.Unlock()
	if h.users.known == nil || len(h.users.known) >= maxKnownUsers {
		h.users.known = map[[2]string]User{}
	}
	h.users.known[at] = u
	return u, nil
}

// in reads the image's files, which are hostile: they may give any name any
// number. GID 0 is taken from no name, because it reads what is root's group's in
// a mount, and nobody who wrote the name can see that.
func (u User) in(image string, passwd, group []byte) (User, error) {
	first, second, both := strings.Cut(u.Name, ":")
	uid, number := parseID(first)
	if !number {
		account, err := find(image, passwdFile, passwd, first, 2, 3)
		if err != nil {
			return u, err
		}
		uid, u.GID = account[0], account[1]
	}
	u.UID = uid
	gid, number := parseID(second)
	if both && number {
		u.GID = gid
	} else if both {
		found, err := find(image, groupFile, group, second, 2)
		if err != nil {
			return u, err
		}
		u.GID = found[0]
	}
	switch {
	case u.UID == 0:
		return u, invalid(rootHint, "user %q is root in image %q, which no command runs as", u.Name, image)
	case u.GID == 0 && (!both || !number):
		return u, invalid(fmt.Sprintf("if you mean that group, write it as a number: %s:0", first), "user %q has root's group, 0, in image %q", u.Name, image)
	}
	return u, nil
}

// find is what the first line of a passwd(5) or group(5) file with that name has
// in the given fields.
func find(image, file string, text []byte, name string, fields ...int) ([]int, error) {
	kind := map[string]string{passwdFile: "user", groupFile: "group"}[file]
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, maxAccountLine)
	var names []string
	for lines.Scan() {
		parts := strings.Split(strings.TrimSpace(lines.Text()), ":")
		if parts[0] != name {
			if len(names) <= few && isName(parts[0]) && parts[0] != "root" && !slices.Contains(names, parts[0]) {
				names = append(names, parts[0])
			}
			continue
		}
		var ids []int
		for _, i := range fields {
			id, ok := 0, false
			if i < len(parts) {
				id, ok = parseID(parts[i])
			}
			if !ok {
				return nil, &Error{Cause: CauseImage, Message: fmt.Sprintf("the line of %s %q in %s of image %q has no number where one must be", kind, name, file, image), Hint: "write UID:GID in numbers"}
			}
			ids = append(ids, id)
		}
		return ids, nil
	}
	if err := lines.Err(); err != nil {
		return nil, &Error{Cause: CauseImage, Message: fmt.Sprintf("reading %s of image %q", file, image), Err: err, Hint: "write UID:GID in numbers"}
	}
	return nil, invalid("write UID:GID in numbers, such as 65534:65534"+orOneOf(names), "image %q has no %s %q", image, kind, name)
}

// few are as many names as a refusal tells of.
const few = 5

// orOneOf names a few. They are an image's, and were found to be plain.
func orOneOf(names []string) string {
	switch {
	case len(names) == 0:
		return "; it has no names to give"
	case len(names) > few:
		return "; it has " + strings.Join(names[:few], ", ") + " and others"
	}
	return "; it has " + strings.Join(names, ", ")
}
