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
		b.group = &cgroup.Group{Instead: noNamespace}
		return nil, nil
	}
	if dirs, err = cgroup.Make(b.name); err != nil {
		return nil, err
	}
	if b.group, err = cgroup.Own(b.name); err != nil {
		return nil, err
	}
	if b.group == nil {
		return nil, errors.New("the control groups memory and pids are not there")
	}
	if u == nil {
		return dirs, b.note()
	}
	return dirs, nil
}

// noNamespace is no number of a namespace.
const noNamespace = "none"

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
		return u.note(b.name, text)
	}
	return b.group.Note(text)
}

// note writes a record, of which a killed writer leaves none, the old or the new one: it only grows.
func (u *rootless) note(name string, text []byte) error {
	file := u.noteOf(name)
	if len(text) <= ownfile.Page {
		return ownfile.Overwrite(file, text)
	}
	fresh := freshOf(file)
	if err := os.WriteFile(fresh, text, 0o600); err != nil {
		return err
	}
	return os.Rename(fresh, file)
}

// freshOf is where a long record is written before it is one: names passes over it.
func freshOf(file string) string {
	return filepath.Join(filepath.Dir(file), "new-"+filepath.Base(file))
}

// removeGroup kills what is in a container's control group, and removes it with its record.
func (e *Engine) removeGroup(name string) (err error) {
	defer func() {
		if err != nil {
			e.left.Store(name, true)
		} else {
			e.left.Delete(name)
		}
	}()
	if err := cgroup.Remove(name); err != nil || e.user == nil {
		return err
	}
	os.Remove(freshOf(e.user.noteOf(name)))
	if err := os.Remove(e.user.noteOf(name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// containers are all containers on this host, of all processes and users; without root, the user's. With an error
// some are missing, which may run.
func (e *Engine) containers() (list []found, err error) {
	names, err := cgroup.Names(groupPrefix)
	if e.user != nil {
		names, err = e.user.names()
	}
	errs := []error{err}
	for _, name := range names {
		f := found{name: name}
		var ok bool
		if f.host, f.process, f.id, ok = made(e.owner, name); !ok {
			continue
		}
		if e.user == nil {
			err = f.read()
		} else {
			err = e.user.read(&f)
		}
		if errs = append(errs, err); err == nil {
			list = append(list, f)
		}
	}
	return list, joined(errs...)
}

// read reads what is known of a container.
func (f *found) read() (err error) {
	if f.group, err = cgroup.Own(f.name); err != nil || f.group == nil {
		return err
	}
	text, err := f.group.ReadNote()
	f.noted = err == nil && json.Unmarshal(text, &f.record) == nil
	return err
}

// read is that of a user who is not root.
func (u *rootless) read(f *found) error {
	text, err := os.ReadFile(u.noteOf(f.name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f.noted = err == nil && json.Unmarshal(text, &f.record) == nil
	f.name, err = path.Join(path.Dir(f.record.Group), f.name), nil
	if f.record.PIDs != "" {
		f.group = &cgroup.Group{Instead: f.record.PIDs}
		if f.record.First.ended() { // all in it have, and the number of the namespace may be another's
			f.group.Instead = noNamespace
		}
	} else if f.record.Limits == "" {
		f.group, err = cgroup.Own(f.name)
	}
	return err
}

// noteOf is the file of a container's record.
func (u *rootless) noteOf(name string) string { return filepath.Join(u.notes, path.Base(name)) }

// names are those of the containers that have a record.
func (u *rootless) names() (names []string, err error) {
	entries, err := os.ReadDir(u.notes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), groupPrefix) {
			names = append(names, entry.Name())
		}
	}
	return names, err
}

// holdNamespace keeps the namespace of a container without a control group open, by whose number its processes are found:
// the kernel gives that to the next one once no one has it.
func (b *box) holdNamespace() (err error) {
	if b.group.Instead == "" {
		return nil
	}
	if b.namespace, err = os.Open(fmt.Sprintf("/proc/%d/ns/pid", b.record.First.PID)); err == nil {
		b.group.Instead, err = os.Readlink(fdPath(b.namespace))
	}
	return err
}
