package docker

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// maxGroupFile bounds what is read of an image's /etc/group.
const maxGroupFile = 1 << 20

// forgedGroup is a group in the image's /etc/group whose name is a number, ""
// if there is none. The engine hands the runtime the command's own group as a
// further one, and runc before 1.3 looks that number up as a name first: a line
// "65534:x:0:" would put every command into group 0.
//
// The file can be looked at only where the container's processes are this
// host's; links in it lead into the container's root, never out of it.
func (b *box) forgedGroup() (string, error) {
	if b.group == nil {
		return "", nil
	}
	root, err := os.Open(fmt.Sprintf("/proc/%d/root", b.init))
	if err != nil {
		return "", nil // not ours to look at, as for a user other than root
	}
	defer root.Close()
	fd, err := unix.Openat2(int(root.Fd()), "etc/group", &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS})
	if err != nil {
		return "", nil // no such file, no such group
	}
	file := os.NewFile(uintptr(fd), "etc/group")
	defer file.Close()
	return numberedName(io.LimitReader(file, maxGroupFile))
}

// numberedName is the first name in a file of the group(5) form that is a
// number.
func numberedName(file io.Reader) (string, error) {
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, maxGroupFile)
	for lines.Scan() {
		name, _, _ := strings.Cut(strings.TrimSpace(lines.Text()), ":")
		if name != "" && strings.Trim(name, "0123456789") == "" {
			return name, nil
		}
	}
	return "", lines.Err()
}
