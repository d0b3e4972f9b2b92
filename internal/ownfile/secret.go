package ownfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"belljar/sandbox"
)

// ReadSecret reads a regular file of at most that many bytes that other users cannot
// read or replace. what names it in messages: "token file". It never blocks: to open a
// FIFO would.
func ReadSecret(what, name string, most int64) ([]byte, error) {
	file, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, secretError(what, name, "cannot be opened", "check its path and who may read it", err)
	}
	defer file.Close()
	about, err := file.Stat()
	if err != nil {
		return nil, secretError(what, name, "cannot be read", "check the disk", err)
	}
	if wrong, hint := exposed(about); wrong != "" {
		return nil, secretError(what, name, wrong, hint, nil)
	}
	text, err := io.ReadAll(io.LimitReader(file, most+1))
	if err != nil {
		return nil, secretError(what, name, "cannot be read", "check the disk", err)
	}
	if int64(len(text)) > most {
		return nil, secretError(what, name, fmt.Sprintf("is larger than %d bytes", most), "check that it is the right file", nil)
	}
	return text, nil
}

// exposed says why a file is no secret, and what to do. A file of root's may be readable
// by a group: that is how systemd, Docker and Kubernetes give a secret to a service.
func exposed(about fs.FileInfo) (wrong, hint string) {
	owner, ok := about.Sys().(*syscall.Stat_t)
	mode := about.Mode()
	switch {
	case !mode.IsRegular():
		return "is not a regular file", "name a file"
	case !ok || int(owner.Uid) != os.Geteuid() && owner.Uid != 0:
		return "belongs to another user", "run chown on it, or copy it"
	case owner.Uid == 0 && mode.Perm()&0o037 == 0, mode.Perm()&0o077 == 0:
		return "", ""
	}
	return fmt.Sprintf("is accessible to other users: its mode is %04o", mode.Perm()), "run chmod 600 on it"
}

func secretError(what, name, wrong, hint string, err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err // the message names the path
	}
	return &sandbox.Error{Cause: sandbox.CauseInvalid, Message: fmt.Sprintf("the %s %q %s", what, name, wrong), Hint: hint, Err: err}
}
