package docker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"belljar/sandbox/internal/bindmount"
	"belljar/sandbox/listing"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
)

// Managed is a container with belljar's labels, of any process.
type Managed = listing.Container

// List returns belljar's containers, the oldest last, as docker ps does.
func (e *Engine) List(ctx context.Context) ([]Managed, error) {
	ctx, cancel := context.WithTimeout(ctx, e.callTime())
	defer cancel()
	found, err := e.client.ContainerList(ctx, container.ListOptions{All: true, Filters: managed()})
	if err != nil {
		return nil, engineError(err, "listing containers").Hint("see: belljar doctor")
	}
	list := make([]Managed, 0, len(found))
	for _, c := range found {
		if !e.seals().verify(nameOf(c), c.Labels) {
			list = append(list, Managed{ID: c.ID, Foreign: true, Image: c.Image, State: c.State, Created: time.Unix(c.Created, 0)})
			continue
		}
		deadline, _ := time.Parse(time.RFC3339, c.Labels[labelDeadline])
		user := labelledUser(c.Labels[labelUser])
		list = append(list, Managed{
			User: user.Numbers(), UserName: user.Name,
			ID: c.ID, Command: c.Labels[labelCommand], Pool: c.Labels[labelPool], Session: c.Labels[labelSession], Image: c.Labels[labelImage], State: c.State,
			Created: time.Unix(c.Created, 0), Deadline: deadline, Owner: c.Labels[labelProcess],
			// A session outlives the process that made it, once it runs, unless only that one sees it.
			Orphaned: (c.State == "created" || endsWithMaker(c.Labels)) && e.owner.Gone(c.Labels[labelHost], c.Labels[labelProcess]),
		})
	}
	return list, nil
}

// nameOf is the container's own name: a name with a second slash is that of a link to it.
func nameOf(c container.Summary) string {
	for _, name := range c.Names {
		if !strings.Contains(strings.TrimPrefix(name, "/"), "/") {
			return name
		}
	}
	return ""
}

// FillProcesses fills in what runs in a container, as far as that can be known. It does
// not inspect a foreign one: that may take running something in it.
func (e *Engine) FillProcesses(ctx context.Context, m *Managed) error {
	ctx, cancel := context.WithTimeout(ctx, e.callTime())
	defer cancel()
	about, err := e.client.ContainerInspect(ctx, m.ID)
	if err != nil {
		return engineError(err, "inspecting container %q", m.ID).Hint("see: belljar doctor")
	}
	if err := e.checkOurs(about); err != nil {
		return engineError(err, "container %q was not made by this user's belljar", m.ID).Hint("see what runs in it: docker top " + m.ID)
	}
	b := newBox(e, m.ID, newWatch())
	b.recall(about)
	defer b.inspector.close()
	if _, inside := b.inspector.(*insideInspector); inside && b.byInitOnly() {
		return engineError(nil, "only the init of container %q tells what runs in it", m.ID).Hint("of a session it is in: belljar session ls")
	}
	m.Runs, err = b.Processes(ctx)
	return err
}

// Sweep removes this user's containers without an owner: those past their
// deadline, and those of belljar processes that have ended, which only a crash of the
// engine, or a kill while one is made, leaves behind. It returns how many it removed.
func (e *Engine) Sweep(ctx context.Context) (int, error) {
	bindmount.Sweep(e.owner)
	list, err := e.List(ctx)
	if err != nil {
		return 0, err
	}
	e.sweepLocks(func(id string) bool {
		return slices.ContainsFunc(list, func(m Managed) bool { return m.ID == id })
	})
	removed, errs := 0, []error(nil)
	for _, m := range list {
		late := !m.Deadline.IsZero() && time.Now().After(m.Deadline)
		if !m.Orphaned && !late {
			continue
		}
		about, err := e.inspect(ctx, m.ID)
		if errdefs.IsNotFound(err) || err == nil && e.checkOurs(about) != nil {
			continue
		}
		if err == nil && !m.Orphaned && m.Session == "" && e.owner.Runs(about.Config.Labels[labelHost], m.Owner) {
			continue // its maker ends it: what that measures time by stands still while the host is suspended
		}
		if err == nil {
			err = e.forceRemove(ctx, m.ID)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("sweeping: %w", err))
			continue
		}
		removed++
	}
	return removed, errors.Join(errs...)
}

// inspect does not wait for a container that the engine has locked.
func (e *Engine) inspect(ctx context.Context, id string) (container.InspectResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, e.callTime())
	defer cancel()
	return e.client.ContainerInspect(ctx, id)
}
