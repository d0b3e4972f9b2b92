package owned

import (
	"context"
	"testing"

	"belljar/cmd/internal/access"
	"belljar/cmd/internal/executions"
	"belljar/sandbox"
)

// changing are sessions that change owners while they are listed.
type changing struct {
	list []sandbox.SessionInfo
	then func()
}

func (c *changing) Sessions(context.Context) ([]sandbox.SessionInfo, error) {
	if c.then != nil {
		c.then()
	}
	return c.list, nil
}

func (c *changing) RemoveSession(context.Context, string) error { return nil }

// Once a bug: sessions and their owners were read one after the other, so that a name which was
// given away meanwhile showed the last owner's session to the next one.
func TestListIsOneMoment(t *testing.T) {
	owners := &executions.Owners{Dir: t.TempDir()}
	claim := func(owner string) {
		idle, err := owners.Idle(func(string) bool { return false })
		if err == nil {
			err = owners.Forget(idle, func(string) bool { return false })
		}
		if err == nil {
			_, err = owners.Claim("dev", owner)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	claim("ann")
	sessions := &changing{list: []sandbox.SessionInfo{{Name: "dev", Container: "ann's"}}}
	things := Things{Owners: owners, Sessions: sessions}
	as := func(name string) context.Context {
		return access.With(t.Context(), access.Identity{Name: name, Scopes: []access.Scope{access.Run}})
	}
	sessions.then = func() {
		sessions.then = func() { sessions.list = []sandbox.SessionInfo{{Name: "dev", Container: "ben's"}} }
		claim("ben")
	}
	list, err := things.List(as("ben"), access.Read)
	if err != nil || len(list) != 1 || list[0].Container != "ben's" {
		t.Errorf("%+v, %v", list, err)
	}
	turn := 0
	sessions.then = func() { turn++; claim([]string{"ben", "ann"}[turn%2]) }
	if list, err := things.List(as("ben"), access.Read); err != nil || len(list) != 0 {
		t.Errorf("a session that never comes to rest: %+v, %v", list, err)
	}
}
