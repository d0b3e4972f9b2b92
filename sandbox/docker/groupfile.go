package docker

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"strings"

	"belljar/sandbox"
)

// checkGroups refuses an image whose /etc/group has a group with a number for a name. The
// engine hands the runtime the command's own group as a further one, and runc before 1.3
// looks that number up as a name first: a line "65534:x:0:" would put every command into
// group 0.
func (b *box) checkGroups(ctx context.Context) error {
	text, err := b.engine.readFile(ctx, b.id, "/etc/group", maxUserFile)
	if err != nil {
		return b.statError(err, "/etc/group")
	}
	if name, err := numberedName(bytes.NewReader(text)); name != "" || err != nil {
		return engineError(err, "image %q has an unsafe /etc/group: the group name %.256q is a number", b.spec.Image.Reference, name).
			As(sandbox.CauseImage).Hint("remove that group from the image")
	}
	return nil
}

// numberedName is the first name in a file of the group(5) form that is a
// number.
func numberedName(file io.Reader) (string, error) {
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, maxUserFile)
	for lines.Scan() {
		name, _, _ := strings.Cut(strings.TrimSpace(lines.Text()), ":")
		if name != "" && strings.Trim(name, "0123456789") == "" {
			return name, nil
		}
	}
	return "", lines.Err()
}
