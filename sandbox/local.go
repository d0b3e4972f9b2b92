package sandbox

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Local is the Runner that runs commands on an Engine.
type Local struct {
	Engine   Engine
	Images   Images
	Profiles map[string]Profile
}

// Start implements Runner.
func (l *Local) Start(ctx context.Context, c Command) (Execution, error) {
	p, err := l.profile(c.Profile)
	if err != nil {
		return nil, err
	}
	c = c.withDefaults(p)
	if err := c.validate(p); err != nil {
		return nil, err
	}
	if c.Env, err = environ(c, p); err != nil {
		return nil, err
	}
	if c.Mounts, err = resolveMounts(c.Mounts, p.Policy); err != nil {
		return nil, err
	}
	return start(ctx, c, l.Engine, l.Images), nil
}

func (l *Local) profile(name string) (Profile, error) {
	if name == "" {
		name = DefaultProfile
	}
	p, ok := l.Profiles[name]
	if !ok {
		known := strings.Join(slices.Sorted(maps.Keys(l.Profiles)), ", ")
		return p, &Error{Cause: CauseInvalid, Message: fmt.Sprintf("no profile %q", name), Hint: "known: " + known}
	}
	return p, nil
}

// withDefaults fills what c leaves open from its profile.
func (c Command) withDefaults(p Profile) Command {
	setDefault(&c.ID, newID())
	setDefault(&c.Profile, DefaultProfile)
	setDefault(&c.Dir, p.Workdir)
	setDefault(&c.Image, p.Image)
	setDefault(&c.Pull, p.Pull)
	setDefault(&c.User, p.User)
	setDefault(&c.Network, p.Network)
	setDefault(&c.Runtime, p.Runtime)
	setDefault(&c.Timeout, p.Timeout)
	setDefault(&c.IdleTimeout, p.IdleTimeout)
	setDefault(&c.OnOutputLimit, p.OnOutputLimit)
	setDefault(&c.Limits.Memory, p.Limits.Memory)
	setDefault(&c.Limits.CPUs, p.Limits.CPUs)
	setDefault(&c.Limits.Pids, p.Limits.Pids)
	setDefault(&c.Limits.Output, p.Limits.Output)
	setDefault(&c.Limits.Tmp, p.Limits.Tmp)
	setDefault(&c.Limits.Files, p.Limits.Files)
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// spec is the container that c wants. The deadline leaves time to make the
// image and the container, and to end them.
func (c Command) spec(image Image) Spec {
	return Spec{
		Command:  c.ID,
		Image:    image,
		User:     c.User,
		Workdir:  c.Dir,
		Mounts:   c.Mounts,
		Limits:   c.Limits,
		Network:  c.Network,
		Runtime:  c.Runtime,
		Deadline: time.Now().Add(c.Timeout + removeTimeout + createTimeout),
	}
}
