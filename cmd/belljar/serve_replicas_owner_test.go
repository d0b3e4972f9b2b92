package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"belljar/cmd/internal/executions"
	"belljar/cmd/internal/owned"
	"belljar/cmd/internal/replicas"
	"belljar/sandbox"
	"belljar/sandbox/local"

	"golang.org/x/sys/unix"
)

// Once a bug: a replica gave a session that it took over to whom it remembered from an earlier one of that name.
func TestTakeOverSetsTheOwner(t *testing.T) {
	r := &replica{owners: &executions.Owners{Dir: t.TempDir()}, runner: &local.Local{}}
	r.runner.StateDir = t.TempDir()
	for _, remembered := range []string{"ben", ""} {
		if err := r.owners.Set("dev", remembered); err != nil {
			t.Fatal(err)
		}
		for _, k := range []replicas.Kept{{Owner: "ann"}, {Owner: "ann", State: `{"session":"dev"}`}, {State: `{"session":"dev"}`}} {
			if err := r.TakeOver(t.Context(), "dev", k); err != nil || r.Owner("dev") != k.Owner {
				t.Errorf("%v: %q has %+v", err, r.Owner("dev"), k)
			}
		}
	}
}

// recorded are the sessions that a runner has a record of.
type recorded struct{ of *local.Local }

func (r recorded) Sessions(context.Context) (list []sandbox.SessionInfo, err error) {
	names, err := r.of.SessionNames()
	for _, name := range names {
		list = append(list, sandbox.SessionInfo{Name: name})
	}
	return list, err
}

func (r recorded) RemoveSession(context.Context, string) error { return nil }

// Once a bug: a session that was being taken over lost its owner if any other one was removed meanwhile.
func TestTakeOverKeepsTheOwner(t *testing.T) {
	r := &replica{owners: &executions.Owners{Dir: t.TempDir()}, runner: &local.Local{}, book: &executions.Book{}}
	r.runner.StateDir = t.TempDir()
	things := owned.Things{Owners: r.owners, Book: r.book, Sessions: recorded{r.runner}}
	if err := r.TakeOver(t.Context(), "prod", replicas.Kept{Owner: "ben", State: `{"session":"prod"}`}); err != nil {
		t.Fatal(err)
	}
	lock, err := os.OpenFile(filepath.Join(r.runner.StateDir, "sessions", "lock"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.FcntlFlock(lock.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}); err != nil { // all that is recorded
		t.Fatal(err)
	}
	taken := make(chan error)
	go func() {
		taken <- r.TakeOver(t.Context(), "dev", replicas.Kept{Owner: "ann", State: `{"session":"dev"}`})
	}()
	for r.Owner("dev") == "" {
		time.Sleep(time.Millisecond)
	}
	if err := things.ForgetSessions(t.Context()); err != nil {
		t.Error(err)
	}
	lock.Close()
	if err := <-taken; err != nil || r.Owner("dev") != "ann" || r.Owner("prod") != "ben" {
		t.Errorf("%v, owned by %q and %q", err, r.Owner("dev"), r.Owner("prod"))
	}
	if !r.Idle("dev") {
		t.Error("it is in use for ever")
	}
}
