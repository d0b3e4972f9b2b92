package oci

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"belljar/internal/ownfile"
	"belljar/sandbox/internal/cgroup"

	"golang.org/x/sys/unix"
)

// makeGroup makes a container's control group with its record, and returns the group's directories. Without
// root the record is first: what is not recorded is not found.
func (b *box) makeGroup() (dirs []string, err error) {
	u := b.engine.user
	if u != nil {
		b.record.Group = b.name
		if err := b.note(); err != nil {
			return nil, err
		}
	}
	if b.record.Limits != "" {
		b.group = &cgroup.Group{Instead: "not known yet"}
		return nil, nil
	}
	if dirs, err = cgroup.Make(b.name); err != nil {
		return nil, err
	}
	if b.group = cgroup.Own(b.name); b.group == nil {
		return nil, errors.New("the control groups memory and pids are not there")
	}
	if u == nil {
		return dirs, b.note()
	}
	return dirs, nil
}

// groupHint is what to do where no control group can be made.
func groupHint(err error) string {
	switch {
	case errors.Is(err, unix.EROFS):
		return "have the control groups mounted so that belljar may write to them: mount -o remount,rw, for each directory below " + cgroup.Root
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EAGAIN): // EAGAIN: cgroup.max.descendants
		return "the kernel takes no more control groups: remove some, or raise cgroup.max.descendants of those above"
	}
	return "see: belljar doctor"
}

// note writes a container's record.
func (b *box) note() error {
	text, err := json.Marshal(b.record)
	if err != nil {
		return fmt.Errorf("encoding the container's record: %w", err)
	}
	if u := b.engine.user; u != nil {
		return ownfile.Overwrite(u.noteOf(b.name), text)
	}
	return b.group.Note(text)
}

// removeGroup kills what is in a container's control group, and removes it with its record.
func (e *Engine) removeGroup(name string) error {
	if err := cgroup.Remove(name); err != nil || e.user == nil {
		return err
	}
	if err := os.Remove(e.user.noteOf(name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// containers are all containers on this host, of all processes and users; without root, the user's.
func (e *Engine) containers() (list []found) {
	names := cgroup.Names(groupPrefix)
	if e.user != nil {
		names = e.user.names()
	}
	for _, name := range names {
		f := found{name: name}
		var ok bool
		if f.host, f.process, f.id, ok = made(e.owner, name); !ok {
			continue
		}
		if e.user == nil {
			if f.group = cgroup.Own(name); f.group != nil {
				text, err := f.group.ReadNote()
				f.noted = err == nil && json.Unmarshal(text, &f.record) == nil
			}
		} else {
			text, err := os.ReadFile(e.user.noteOf(name))
			f.noted = err == nil && json.Unmarshal(text, &f.record) == nil
			f.name = path.Join(path.Dir(f.record.Group), name)
			if f.record.PIDs != "" {
				f.group = &cgroup.Group{Instead: f.record.PIDs}
			} else if f.record.Limits == "" {
				f.group = cgroup.Own(f.name)
			}
		}
		list = append(list, f)
	}
	return list
}

// noteOf is the file of a container's record.
func (u *rootless) noteOf(name string) string { return filepath.Join(u.notes, path.Base(name)) }

// names are those of the containers that have a record.
func (u *rootless) names() (names []string) {
	entries, _ := os.ReadDir(u.notes)
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), groupPrefix) {
			names = append(names, entry.Name())
		}
	}
	return names
}
