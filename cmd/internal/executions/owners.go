package executions

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"

	"belljar/internal/names"
)

// Owners says whose sessions are. It outlives the server, as sessions do.
type Owners struct {
	Dir string

	mu    sync.Mutex
	names map[string]string // by session
	using map[string]int    // how many requests are about a session now
	used  map[string]int    // and how many were, since it has its owner
}

// Use keeps a session's owner, if it has one, until done: what was found to be the caller's
// stays so, also if another request ends it meanwhile.
func (o *Owners) Use(session string) (done func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.using == nil {
		o.using, o.used = map[string]int{}, map[string]int{}
	}
	o.using[session]++
	o.used[session]++
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.using[session]--
		if o.using[session] == 0 {
			delete(o.using, session)
		}
		if o.names[session] == "" {
			delete(o.used, session) // the names that callers invent are endless
		}
	}
}

func (o *Owners) file() string { return filepath.Join(o.Dir, "owners.json") }

// load is called with mu held.
func (o *Owners) load() error {
	if o.names != nil {
		return nil
	}
	text, err := os.ReadFile(o.file())
	if errors.Is(err, fs.ErrNotExist) {
		o.names = map[string]string{}
		return nil
	}
	if err == nil {
		err = json.Unmarshal(text, &o.names)
	}
	if err != nil {
		o.names = nil
		return fmt.Errorf("reading the owners of sessions: %w", err)
	}
	return nil
}

// All are the owners by session, as they are now.
func (o *Owners) All() (map[string]string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	err := o.load()
	return maps.Clone(o.names), err
}

// Of is a session's owner, "" if no server made it.
func (o *Owners) Of(session string) (string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	err := o.load()
	return o.names[session], err
}

// Claim makes owner that of a session, if it has none. It returns whose it is.
func (o *Owners) Claim(session, owner string) (string, error) {
	if err := names.CheckSession(session); err != nil {
		return "", err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.load(); err != nil {
		return "", err
	}
	if has := o.names[session]; has != "" {
		return has, nil
	}
	before := maps.Clone(o.names)
	o.names[session] = owner
	if err := o.save(before); err != nil {
		return "", err
	}
	return owner, nil
}

// InUse reports whether a request is about the session now.
func (o *Owners) InUse(session string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.using[session] > 0
}

// Set makes owner that of a session, also if it has another one here: another server had it, or has it now. "" is no one.
func (o *Owners) Set(session, owner string) error {
	if err := names.CheckSession(session); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.load(); err != nil || o.names[session] == owner {
		return err
	}
	before := maps.Clone(o.names)
	if o.names[session] = owner; owner == "" {
		delete(o.names, session)
		delete(o.used, session)
	}
	return o.save(before)
}

// Count is how many sessions have one.
func (o *Owners) Count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.names)
}

// Idle are the sessions that no one uses, for Forget.
func (o *Owners) Idle(uses func(session string) bool) (map[string]int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	idle := map[string]int{}
	err := o.load()
	for session := range o.names {
		if o.using[session] == 0 && !uses(session) {
			idle[session] = o.used[session]
		}
	}
	return idle, err
}

// Forget forgets those of the idle sessions that are not there, unless one was used
// since: it may have been made after exists looked.
func (o *Owners) Forget(idle map[string]int, exists func(session string) bool) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := maps.Clone(o.names)
	for session, used := range idle {
		if o.using[session] == 0 && o.used[session] == used && !exists(session) {
			delete(o.names, session)
			delete(o.used, session)
		}
	}
	if len(o.names) == len(before) {
		return nil
	}
	return o.save(before)
}

// save replaces the file: a crash leaves the old one or the new one. Where that fails, it is as
// before here too: what no file has would be another's after a restart. mu is held.
func (o *Owners) save(before map[string]string) error {
	text, err := json.Marshal(o.names)
	if err == nil {
		err = os.WriteFile(o.file()+".new", text, 0o600)
	}
	if err == nil {
		err = os.Rename(o.file()+".new", o.file())
	}
	if err != nil {
		o.names = before
		return fmt.Errorf("recording the owners of sessions: %w", err)
	}
	return nil
}
