package executions

import (
	"os"
	"testing"
)

// A session's owner is forgotten once the session is gone, but not while a request is about
// it, or if one was since someone looked.
func TestOwnersAreKept(t *testing.T) {
	unused := func(string) bool { return false }
	for name, c := range map[string]struct {
		before, since func(o *Owners)
		kept          bool
	}{
		"gone":       {},
		"in use":     {before: func(o *Owners) { o.Use("dev") }, kept: true},
		"used since": {since: func(o *Owners) { o.Use("dev")() }, kept: true},
		"use begins": {since: func(o *Owners) { o.Use("dev") }, kept: true},
		"was used":   {before: func(o *Owners) { o.Use("dev")() }},
	} {
		o := &Owners{Dir: t.TempDir()}
		if owner, err := o.Claim("dev", "ann"); owner != "ann" || err != nil {
			t.Fatal(owner, err)
		}
		if c.before != nil {
			c.before(o)
		}
		idle, err := o.Idle(unused)
		if err != nil {
			t.Fatal(err)
		}
		if c.since != nil {
			c.since(o)
		}
		if err := o.Forget(idle, unused); err != nil {
			t.Fatal(err)
		}
		if owner, err := (&Owners{Dir: o.Dir}).Of("dev"); err != nil || (owner == "ann") != c.kept {
			t.Errorf("%s: %q, %v", name, owner, err)
		}
	}
	o := &Owners{Dir: t.TempDir()}
	for range 3 {
		o.Use("invented")()
	}
	if len(o.using)+len(o.used) != 0 {
		t.Errorf("%v, %v", o.using, o.used)
	}
}

// Once a bug: who a session was of here before stayed its owner when another server gave it.
func TestOwnerIsSet(t *testing.T) {
	o := &Owners{Dir: t.TempDir()}
	if _, err := o.Claim("dev", "ben"); err != nil {
		t.Fatal(err)
	}
	for _, owner := range []string{"ann", "", "ann"} {
		if err := o.Set("dev", owner); err != nil {
			t.Fatal(err)
		}
		for _, of := range []*Owners{o, {Dir: o.Dir}} {
			if is, err := of.Of("dev"); is != owner || err != nil {
				t.Errorf("%q, %v, want %q", is, err, owner)
			}
		}
	}
	if o.Set("../x", "ann") == nil {
		t.Error("a name that no session has")
	}
}

// Once a bug: an owner that could not be recorded was one until the restart, and none after it.
func TestOwnersAreAsRecorded(t *testing.T) {
	o := &Owners{Dir: t.TempDir()}
	if _, err := o.Claim("old", "ann"); err != nil {
		t.Fatal(err)
	}
	idle, err := o.Idle(func(string) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(o.file()+".new", 0o700); err != nil { // as a full disk, also for root
		t.Fatal(err)
	}
	for name, change := range map[string]func() error{
		"claim":  func() error { _, err := o.Claim("dev", "ann"); return err },
		"set":    func() error { return o.Set("old", "ben") },
		"forget": func() error { return o.Forget(idle, func(string) bool { return false }) },
	} {
		if change() == nil {
			t.Errorf("%s: it is recorded", name)
		}
		for _, of := range []*Owners{o, {Dir: o.Dir}} {
			if all, err := of.All(); len(all) != 1 || all["old"] != "ann" || err != nil {
				t.Errorf("%s: %v, %v", name, all, err)
			}
		}
	}
}
