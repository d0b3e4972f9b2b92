package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"belljar/internal/names"
	"belljar/sandbox"
	"belljar/sandbox/internal/spool"
)

// Local is the Runner that runs commands on an Engine. Its fields are set
// before its first use; see New.
type Local struct {
	Engine    sandbox.Engine
	Images    sandbox.Images
	Profiles  map[string]sandbox.Profile // without a DefaultProfile, that of sandbox.Defaults is used
	Admission sandbox.Admission
	StateDir  string           // where sessions are recorded and outputs kept; "" turns both off
	OwnDir    string           // where sessions are recorded that other processes do not see; "" is in StateDir
	Spool     sandbox.Spooling // bounds those outputs; Total 0 is that of sandbox.Defaults
	Viewer    sandbox.Viewer   // nil: no command may have a view, or a screen
	Approver  sandbox.Approver // nil: what needs an approval is denied
	Auditor   sandbox.Auditor  // nil: nothing is written down
	Log       *slog.Logger     // events other than the commands'; nil logs nothing

	Control      bool // other processes of this user may end and signal the commands: see End
	AuditOnError sandbox.AuditAction

	once      sync.Once
	upkeep    *upkeep
	admission admission
	approvals approvals
	sessions  sessions

	mu    sync.Mutex
	pools map[string]*pool // nil until Warm
}

const (
	// EndTime is how long a command takes at most to end once it is canceled.
	EndTime = sandbox.MaxStopGrace + removeTimeout
	// CloseTime is how long Close takes at most, with an engine that does what it is asked to.
	CloseTime = removeTimeout
)

// Warm keeps containers ready from now on, as the profiles configure: for the default
// profile immediately, for others from their first command on. Close ends that. Further
// calls do nothing.
func (l *Local) Warm() {
	l.open()
	l.mu.Lock()
	already := l.pools != nil
	if !already {
		l.pools = map[string]*pool{}
	}
	l.mu.Unlock()
	if already {
		return
	}
	l.upkeep.all.Go(func() { l.upkeep.images.watch(l.upkeep.ctx) })
	l.pool(sandbox.DefaultProfile)
	l.upkeep.all.Go(l.expireSessions)
	l.upkeep.all.Go(l.sweepLogs)
	l.upkeep.all.Go(func() { l.upkeep.spares.Fill(l.upkeep.ctx) })
}

// Close removes the containers that are kept ready and waits for all background work.
// Sessions stay. Call it after the last command's end.
func (l *Local) Close() {
	l.open()
	l.upkeep.close()
	l.upkeep.all.Wait()
	l.sessions.close()
}

func (l *Local) isWarm() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pools != nil
}

func (l *Local) open() {
	l.once.Do(func() {
		l.upkeep = newUpkeep(l.Engine, l.Images, l.Log)
		l.upkeep.images.onChange = l.imagesChanged
		l.settingDefaults()
		l.upkeep.spares = spool.NewSpares(l.store(), l.Control)
	})
}

// pool is the profile's, nil where it has none.
func (l *Local) pool(name string) *pool {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, _ := l.known(name)
	if l.pools == nil || p.Pool.Max <= 0 {
		return nil
	}
	if l.pools[name] == nil {
		mounts, err := resolveMounts(p.Mounts, p.Policy)
		if err != nil {
			return nil // each command is refused with that error
		}
		resolved := p
		resolved.Mounts = mounts
		l.pools[name] = l.upkeep.startPool(l.upkeep.ctx, name, p, resolved)
	}
	return l.pools[name]
}

func (l *Local) imagesChanged() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, pool := range l.pools {
		pool.imagesChanged()
	}
}

// Pools implements sandbox.Pools.
func (l *Local) Pools(context.Context) ([]sandbox.PoolStatus, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []sandbox.PoolStatus
	for _, name := range slices.Sorted(maps.Keys(l.pools)) {
		list = append(list, l.pools[name].snapshot())
	}
	return list, nil
}

// Expire removes the sessions and outputs that expired. After Warm this happens
// periodically.
func (l *Local) Expire(ctx context.Context) error {
	_, err := l.ExpireSessions(ctx)
	return errors.Join(err, l.SweepLogs(ctx))
}

// Reload changes the profiles for commands that start from now on. Containers
// kept ready for a profile that changed, or is gone, are drained.
func (l *Local) Reload(profiles map[string]sandbox.Profile) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Profiles = profiles
	for name, pool := range l.pools {
		if p, ok := l.known(name); !ok || !sameContainer(p, pool.asked) {
			pool.stop()
			delete(l.pools, name)
		}
	}
}

// CurrentProfiles are the profiles with their defaults.
func (l *Local) CurrentProfiles() map[string]sandbox.Profile {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := map[string]sandbox.Profile{sandbox.DefaultProfile: {}}
	maps.Copy(all, l.Profiles)
	for name, p := range all {
		all[name] = profileDefaults(p)
	}
	return all
}

// Start implements Runner.
func (l *Local) Start(ctx context.Context, c sandbox.Command) (sandbox.Execution, error) {
	p, err := l.prepare(ctx, c)
	if err != nil {
		return nil, err
	}
	return p.Start(ctx)
}

// checkView refuses a view if there is no Viewer that can show it.
func (l *Local) checkView(c sandbox.Command) error {
	if l.Viewer == nil && (c.View.Mode != sandbox.ViewNone || c.Live == sandbox.LiveView) {
		return sandbox.Invalid("ask for none", "this runner has no views")
	}
	return nil
}

func (l *Local) profile(name string) (sandbox.Profile, error) {
	if name == "" {
		name = sandbox.DefaultProfile
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	p, ok := l.known(name)
	if !ok {
		known := strings.Join(slices.Sorted(maps.Keys(l.Profiles)), ", ")
		return p, &sandbox.Error{Cause: sandbox.CauseInvalid, Message: fmt.Sprintf("no profile %q", name), Hint: "use one of: " + known}
	}
	return p, nil
}

// known is the profile of that name with its defaults, if there is one. l.mu is held.
func (l *Local) known(name string) (sandbox.Profile, bool) {
	p, ok := l.Profiles[name]
	if ok || name == sandbox.DefaultProfile {
		return profileDefaults(p), true
	}
	return p, false
}

// commandDefaults fills unset fields of c from its profile.
func commandDefaults(c sandbox.Command, p sandbox.Profile) sandbox.Command {
	setDefault(&c.ID, names.NewID())
	setDefault(&c.Profile, sandbox.DefaultProfile)
	setDefault(&c.Dir, p.Workdir)
	setDefault(&c.Shell, p.Shell)
	setDefault(&c.Image, p.Image)
	setDefault(&c.Pull, p.Pull)
	setDefault(&c.User, p.User)
	setDefault(&c.Network, p.Network)
	if c.Tmpfs == nil {
		c.Tmpfs = p.Tmpfs
	}
	c.Mounts = slices.Concat(p.Mounts, c.Mounts)
	setDefault(&c.Runtime, p.Runtime)
	setDefault(&c.Timeout, p.Timeout)
	setDefault(&c.IdleTimeout, p.IdleTimeout)
	c.Idle = sandbox.Idle{Stdin: c.Idle.Stdin || p.Idle.Stdin, CPU: c.Idle.CPU || p.Idle.CPU, IO: c.Idle.IO || p.Idle.IO}
	setDefault(&c.OnOutputLimit, p.OnOutputLimit)
	setDefault(&c.OnTimeout, p.OnTimeout)
	setDefault(&c.StopGrace, p.StopGrace)
	if c.StopGrace == 0 && c.Session != "" && c.OnTimeout == sandbox.EndCommand {
		c.StopGrace = sessionGrace
	}
	if c.StopGrace == sandbox.NoStopGrace {
		c.StopGrace = 0
	}
	setDefault(&c.View.Mode, p.View.Mode)
	setDefault(&c.View.Bytes, p.View.Bytes)
	setDefault(&c.View.Lines, p.View.Lines)
	setDefault(&c.View.LineChars, p.View.LineChars)
	setDefault(&c.View.Charset, p.View.Charset)
	setDefault(&c.View.Scrollback, p.View.Scrollback)
	setDefault(&c.View.ScrollbackBytes, p.View.ScrollbackBytes)
	setDefault(&c.Live, sandbox.LiveRaw)
	setDefault(&c.Encoding, p.Encoding)
	setDefault(&c.Streams, p.Streams)
	if c.View.Mode == sandbox.ViewNone {
		setDefault(&c.Streams, sandbox.StreamsFull)
	}
	setDefault(&c.Streams, sandbox.StreamsView)
	if c.TTY != nil {
		size := c.TTY.Bounded()
		c.TTY = &size
	}
	c.Limits = limitDefaults(c.Limits, p.Limits)
	c.View.ScrollbackBytes = min(c.View.ScrollbackBytes, c.Limits.Result)
	return c
}

// specOf is the container that c wants, without a deadline.
func specOf(c sandbox.Command, image sandbox.Image) sandbox.Spec {
	return sandbox.Spec{
		Command: c.ID,
		Image:   image,
		User:    c.User,
		Root:    c.User.IsRoot(),
		Workdir: c.Dir,
		Mounts:  c.Mounts,
		Tmpfs:   c.Tmpfs,
		Limits:  c.Limits,
		Network: c.Network,
		Runtime: c.Runtime,
	}
}

// poolSpec is a container for commands that override nothing of their profile.
func poolSpec(p sandbox.Profile, image sandbox.Image) sandbox.Spec {
	return sandbox.Spec{Image: image, User: p.User, Root: p.User.IsRoot(), Workdir: p.Workdir, Mounts: p.Mounts, Tmpfs: p.Tmpfs, Limits: p.Limits, Network: p.Network, Runtime: p.Runtime}
}

// sameContainer reports whether a container that was made for other also suits p.
func sameContainer(p sandbox.Profile, other sandbox.Profile) bool {
	return p.Pool == other.Pool && p.Image == other.Image && p.Pull == other.Pull && p.Workdir == other.Workdir && p.MaxTimeout <= other.MaxTimeout &&
		canServe(poolSpec(p, sandbox.Image{}), poolSpec(other, sandbox.Image{}))
}
