package sandbox

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// killTimeout is how long a command's processes may take to be gone, with
	// EndCommand; a container that is ended is gone for sure.
	killTimeout = 5 * time.Second

	// expirePause is how often sessions are looked through for idle ones.
	expirePause = 5 * time.Second
)

// sessions are those that this process has to do with.
type sessions struct {
	mu   sync.Mutex
	live map[string]*session
}

// session is one as this process knows it. What other processes must know, too,
// is in its record.
type session struct {
	name  string
	turns chan struct{} // holds the turn of a command that is not parallel
	use   chan struct{} // holds the right to use what follows, and the record

	box    Container // nil where this process has none open
	print  string    // of what box was made as
	spare  *gate     // waits for the next command
	active map[string]bool
}

func (s *sessions) get(name string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live == nil {
		s.live = map[string]*session{}
	}
	if s.live[name] == nil {
		s.live[name] = &session{name: name, turns: make(chan struct{}, 1), use: make(chan struct{}, 1), active: map[string]bool{}}
	}
	return s.live[name]
}

// all are the sessions known here.
func (s *sessions) all() []*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*session
	for _, session := range s.live {
		list = append(list, session)
	}
	return list
}

// lock waits for its place in a channel of one.
func lock(ctx context.Context, c chan struct{}) error {
	select {
	case c <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sessionTurn is a command's turn in a session: alone, or beside other parallel
// ones, also of other processes.
type sessionTurn struct {
	x       *execution
	session *session
	store   recordStore
	lock    *os.File
	gate    *gate
	told    string // what it is told
	lost    bool   // the session is, and that was told
	why     string // it is, by us
}

// turn waits for the command's turn.
func (s *sessions) turn(ctx context.Context, x *execution) (*sessionTurn, error) {
	t := &sessionTurn{x: x, session: s.get(x.command.Session), store: recordStore{x.local.StateDir, x.command.Session}}
	err := t.wait(ctx)
	if err != nil && ctx.Err() != nil {
		err = x.local.admission.waited(ctx, x.local.Admission)
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

func (t *sessionTurn) wait(ctx context.Context) error {
	parallel := t.x.command.Parallel
	if !parallel {
		if err := lock(ctx, t.session.turns); err != nil {
			return err
		}
	}
	var err error
	if t.lock, err = t.store.lockTurn(ctx, !parallel); err != nil && !parallel {
		<-t.session.turns
	}
	return err
}

// end passes the turn on.
func (t *sessionTurn) end() {
	t.lock.Close()
	if !t.x.command.Parallel {
		<-t.session.turns
	}
}

// change reads and writes the session and its record, alone.
func (t *sessionTurn) change(ctx context.Context, change func(r *record) error) error {
	if err := lock(ctx, t.session.use); err != nil {
		return err
	}
	defer func() { <-t.session.use }()
	return t.store.change(ctx, change)
}

// place is the session's container, with a gate in it.
func (t *sessionTurn) place(ctx context.Context, image Image) (*place, error) {
	ctx, cancel := context.WithTimeout(ctx, createTimeout)
	defer cancel()
	p := &place{keeps: true}
	err := t.change(ctx, func(r *record) (err error) {
		if p.reused, err = t.open(ctx, r, image); err != nil {
			return err
		}
		before := make(chan Counters, 1)
		go func(box Container) { // beside the gate's answer
			c, _ := box.Counters(ctx)
			before <- c
		}(t.session.box)
		err = t.openGate(ctx)
		p.before = <-before
		if err != nil {
			return err
		}
		p.box, p.gate, p.told = t.session.box, t.gate, t.told
		if t.gate != nil {
			r.Started.lead(t.gate.pid, t.x.command.ID)
		} else {
			r.Started.join(t.x.command.ID)
		}
		t.session.active[t.x.command.ID] = true
		r.LastUsed = time.Now()
		return nil
	})
	if err != nil {
		t.undo()
		return nil, late(ctx, err, "opening the session's container")
	}
	p.list, p.end, p.leave = t.list(p), t.finish(p), t.leave(p)
	return p, nil
}

// undo takes back what place did before it failed.
func (t *sessionTurn) undo() {
	t.session.use <- struct{}{}
	defer func() { <-t.session.use }()
	delete(t.session.active, t.x.command.ID)
	if t.gate != nil {
		t.gate.close()
	}
	if len(t.session.active) == 0 {
		t.session.drop(nil)
	}
}

// open sees to it that the session has a container, and tells whether it had.
func (t *sessionTurn) open(ctx context.Context, r *record, image Image) (reused bool, err error) {
	s, spec := t.session, t.x.command.spec(image)
	spec.Session, spec.Command = s.name, newID()
	if err := t.find(ctx, r); err != nil {
		return false, err
	}
	if s.box != nil {
		if s.print != spec.Print() {
			return false, invalid("ask for the same, take another name, or remove it: belljar session rm "+s.name,
				"session %q was made with another image, user, limits, mounts, network or runtime", s.name)
		}
		return true, nil
	}
	if r.Container != "" {
		t.x.result.SessionLost = r.gone(time.Now())
		t.x.output.emit(Event{Type: EventNotice, Data: fmt.Appendf(nil, "session %q was lost, with its files and processes: %s; a new container is made", s.name, t.x.result.SessionLost)})
	}
	life := t.x.profile.Session
	spec.Deadline = time.Now().Add(life.Max)
	if s.box, err = t.x.local.Engine.Create(ctx, spec); err != nil {
		return false, err
	}
	s.print = spec.Print()
	*r = record{Session: s.name, Container: s.box.Info().ID, Image: image.Reference, Created: time.Now(), Deadline: spec.Deadline, Idle: life.Idle}
	return false, nil
}

// find opens the container that the session has, if it has one still.
func (t *sessionTurn) find(ctx context.Context, r *record) error {
	s := t.session
	if s.box != nil && (isClosed(s.box.Lost()) || s.box.Info().ID != r.Container || r.Lost != "") {
		t.session.drop(nil)
	}
	if s.box != nil {
		return nil
	}
	kept, err := t.x.local.Engine.Sessions(ctx, s.name)
	if err != nil {
		return err
	}
	for _, k := range kept {
		box, err := t.x.local.Engine.Adopt(ctx, k)
		if CauseOf(err) == CauseEngineLost && err != nil {
			continue // it went just now
		}
		if err != nil {
			return err
		}
		if r.Container == k.ID && r.Lost != "" { // its end failed, or its belljar's came first
			err := box.Remove(ctx)
			box.Close()
			if err != nil {
				return err
			}
			continue
		}
		s.box, s.print = box, k.Print
		if r.Container != k.ID { // made by a process that did not live to write it down
			*r = record{Session: s.name, Container: k.ID, Image: k.Image, Created: k.Created, Deadline: k.Deadline, Idle: t.x.profile.Session.Idle}
		}
		return nil
	}
	return nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// openGate takes the gate that waits, or opens one. A command that no gate can
// be told has none.
func (t *sessionTurn) openGate(ctx context.Context) error {
	s := t.session
	told, ok := delivery(t.x.command)
	if !ok {
		return nil
	}
	t.told = told
	if g := s.spare; g != nil {
		s.spare = nil
		if g.answers(ctx) {
			t.gate = g
			return nil
		}
		g.close()
	}
	var err error
	t.gate, err = openGate(ctx, s.box, t.x.command.User)
	return err
}

// drop lets go of the container, which the session no longer has or which is
// gone.
func (s *session) drop(box Container) {
	if s.box == nil || box != nil && s.box != box {
		return
	}
	if s.spare != nil {
		s.spare.close()
		s.spare = nil
	}
	s.box.Close()
	s.box = nil
}

// list is what runs, without gates that wait, and whose it is.
func (t *sessionTurn) list(p *place) func(ctx context.Context) ([]Process, error) {
	return func(ctx context.Context) (list []Process, err error) {
		err = t.change(ctx, func(r *record) error {
			list, err = t.attributed(ctx, p.box, r)
			return err
		})
		return list, err
	}
}

func (t *sessionTurn) attributed(ctx context.Context, box Container, r *record) ([]Process, error) {
	list, err := box.Processes(ctx)
	if r.Container == box.Info().ID { // else the record is another container's by now
		list = r.Started.commands(list)
		r.Started.attribute(list, t.session.active)
	}
	return list, err
}

// finish ends the command: with its container, or alone if that can be proved.
func (t *sessionTurn) finish(p *place) func(ctx context.Context) {
	return func(ctx context.Context) {
		if p.ended {
			return
		}
		p.ended = true
		why := strings.TrimSuffix(t.x.result.Message, "; partial output kept")
		if t.x.command.OnTimeout == EndCommand {
			err := t.killCommand(ctx, p)
			if err == nil {
				t.x.notice("%d of the command's processes were killed, and are gone; session %q goes on", len(t.x.result.Evidence.Killed), t.session.name)
				return
			}
			why = fmt.Sprintf("%s; that its processes are gone could not be proved: %v", why, err)
		}
		t.x.result.Evidence.Killed = nil // alone
		t.why = why
		t.lose(ctx, p.box, why)
		t.x.remove(ctx, p.box)
	}
}

// lose writes down that the session has no container any more, and why, before
// that is so. Without a reason, it was not belljar that ended it.
func (t *sessionTurn) lose(ctx context.Context, box Container, why string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), listTimeout)
	defer cancel()
	err := t.change(ctx, func(r *record) error {
		switch {
		case r.Container != box.Info().ID:
			t.x.result.SessionLost = "it was removed"
		case r.Lost == "":
			if why == "" {
				why = t.outside(r)
			}
			r.Lost = fmt.Sprintf("command %s: %s", t.x.command.ID, why)
			fallthrough
		default:
			t.x.result.SessionLost = r.Lost
		}
		return nil
	})
	if err != nil {
		t.x.local.house.log.Warn("a session's record cannot be written", "session", t.session.name, "error", err)
	}
	if !t.lost {
		t.lost = true
		t.x.notice("session %q is lost, with its files and processes", t.session.name)
	}
}

// outside says why the container ended under the command.
func (t *sessionTurn) outside(r *record) string {
	if now := time.Now(); r.over(now) {
		return r.gone(now)
	}
	why := "its container ended, not by belljar"
	if t.x.result.Message != "" {
		why += ": " + t.x.result.Message
	}
	return why
}

// killCommand kills the command's processes until none is left in two lists, one
// after the other, that lack none.
func (t *sessionTurn) killCommand(ctx context.Context, p *place) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTimeout)
	defer cancel()
	for quiet := 0; quiet < 2; {
		list, err := p.list(ctx)
		if err != nil && isClosed(p.box.Lost()) {
			return err
		}
		own, unknown := t.own(list)
		if unknown != nil {
			return unknown
		}
		if len(own) > 0 {
			if err := p.box.Kill(ctx, own); err != nil && ctx.Err() == nil {
				return err
			}
			t.x.result.Evidence.killed(own)
		}
		if quiet++; err != nil || len(own) > 0 {
			quiet = 0
		}
		if ctx.Err() != nil {
			return fmt.Errorf("some were left, or new ones had come, after %v", killTimeout)
		}
		if err == nil {
			t.x.result.Lingering, t.x.result.Evidence.ListError = list, ""
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
		}
	}
	return nil
}

// own are the command's processes. Where it may have more, that is an error. It
// names none of them: it is remembered, and they may hold secrets.
func (t *sessionTurn) own(list []Process) (own []Process, err error) {
	for _, process := range list {
		switch process.CommandID {
		case t.x.command.ID:
			own = append(own, process)
		case "":
			return nil, fmt.Errorf("which command started process %d is not known", process.PID)
		}
	}
	return own, nil
}

// leave writes down how the session goes on.
func (t *sessionTurn) leave(p *place) func(ctx context.Context) {
	return func(ctx context.Context) {
		if p.ended {
			t.x.recount(ctx, p)
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), createTimeout)
		defer cancel()
		// A fate that is not known yet will not be: the engine may tell of the
		// container's end only later.
		useless := isClosed(p.box.Lost()) || t.x.result.Cause == ""
		gone := useless && t.gone(ctx, p.box.Info().ID)
		if gone {
			t.lose(ctx, p.box, t.why)
		}
		err := t.change(ctx, func(r *record) error {
			t.settle(ctx, p.box, r)
			delete(t.session.active, t.x.command.ID)
			if r.Container == p.box.Info().ID {
				r.Started.part(t.x.command.ID)
				r.LastUsed = time.Now()
			}
			if useless || !t.x.local.isWarm() && len(t.session.active) == 0 {
				t.session.drop(p.box)
			}
			return nil
		})
		if err != nil {
			t.x.local.house.log.Warn("a session's record cannot be written", "session", t.session.name, "error", err)
		}
		if t.x.local.isWarm() && !useless {
			t.x.local.house.all.Go(func() { t.prepare(p.box) })
		}
	}
}

// settle lists once more where something was left: it may have started others
// since, and gone, and whose they are could not be told later.
func (t *sessionTurn) settle(ctx context.Context, box Container, r *record) {
	if len(t.x.result.Lingering) == 0 || isClosed(box.Lost()) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	if list, err := t.attributed(ctx, box, r); err == nil {
		t.x.result.Lingering = list
	}
}

// gone asks whether the container is there no more. One that was lost sight of
// may be: that is the next command's to find out.
func (t *sessionTurn) gone(ctx context.Context, id string) bool {
	kept, err := t.x.local.Engine.Sessions(ctx, t.session.name)
	return err == nil && !slices.ContainsFunc(kept, func(k Kept) bool { return k.ID == id })
}

// prepare opens a gate for the next command, and writes it down: it is no
// command's.
func (t *sessionTurn) prepare(box Container) {
	ctx, cancel := context.WithTimeout(t.x.local.house.ctx, createTimeout)
	defer cancel()
	// The next command opens one itself where this fails.
	t.change(ctx, func(r *record) error {
		s := t.session
		if s.box != box || s.spare != nil {
			return nil
		}
		g, err := openGate(ctx, box, t.x.command.User)
		if err != nil {
			return err
		}
		s.spare = g
		r.Started.wait(g.pid)
		return nil
	})
}
