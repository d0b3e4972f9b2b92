package docker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"belljar/sandbox"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
)

// Managed is a container with belljar's labels, of any process.
type Managed struct {
	ID       string            `json:"id"`
	Foreign  bool              `json:"foreign"` // another user's, or not made by belljar: the other fields are only what the engine knows
	Command  string            `json:"command_id"`
	Pool     string            `json:"pool,omitempty"`    // the profile that it was kept warm for
	Session  string            `json:"session,omitempty"` // its name
	Image    string            `json:"image"`
	User     string            `json:"user,omitempty"`      // UID:GID, of a session's first command, or, with a pool, of its profile
	UserName string            `json:"user_name,omitempty"` // as requested, if by name
	State    string            `json:"state"`               // as docker ps: created, running, paused, …
	Created  time.Time         `json:"created"`
	Deadline time.Time         `json:"deadline"` // from then on any belljar may sweep it
	Owner    string            `json:"owner"`    // the PID and start time of the belljar that made it
	Orphaned bool              `json:"orphaned"` // that belljar has ended
	Runs     []sandbox.Process `json:"runs"`     // nil where they are unknown
}

// List returns belljar's containers, the oldest last, as docker ps does.
func (e *Engine) List(ctx context.Context) ([]Managed, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	found, err := e.client.ContainerList(ctx, container.ListOptions{All: true, Filters: managed()})
	if err != nil {
		return nil, engineError(err, "listing containers").hint("see: belljar doctor")
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
			Orphaned: (c.Labels[labelSession] == "" || c.State == "created" || strings.HasSuffix(c.Labels[labelOwner], "/"+c.Labels[labelProcess])) && e.owner.gone(c.Labels[labelHost], c.Labels[labelProcess]),
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
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	about, err := e.client.ContainerInspect(ctx, m.ID)
	if err != nil {
		return engineError(err, "inspecting container %q", m.ID).hint("see: belljar doctor")
	}
	if err := e.checkOurs(about); err != nil {
		return engineError(err, "container %q was not made by this user's belljar", m.ID).hint("see what runs in it: docker top " + m.ID)
	}
	b := newBox(e, m.ID, newWatch())
	fmt.Sscanf(about.Config.User, "%d", &b.keeperUID)
	b.chooseInspector(about)
	defer b.inspector.close()
	m.Runs, err = b.Processes(ctx)
	return err
}

// Sweep removes this user's containers without an owner: those past their
// deadline, and those of belljar processes that have ended, which only a crash of the
// engine, or a kill while one is made, leaves behind. It returns how many it removed.
func (e *Engine) Sweep(ctx context.Context) (int, error) {
	e.owner.sweepBinds()
	list, err := e.List(ctx)
	if err != nil {
		return 0, err
	}
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
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return e.client.ContainerInspect(ctx, id)
}
