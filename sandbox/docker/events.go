package docker

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/client"
)

// eventStream follows the engine's events about our containers. Nothing depends on it:
// if it breaks, the engine is asked instead.
type eventStream struct {
	client *client.Client
	begin  sync.Once
	stop   context.CancelFunc
	done   chan struct{}
	first  chan struct{} // closed once the engine answered, whatever the answer
	mu     sync.Mutex
	up     bool                // events are received
	watch  map[string][]*watch // by container ID: one for each that has it open
}

func newEventStream(c *client.Client) *eventStream {
	return &eventStream{client: c, first: make(chan struct{}), watch: map[string][]*watch{}}
}

// start subscribes, once, to the events of all of belljar's containers, until
// close: a session's may have been made by another process. It waits for the
// engine's answer as long as any call may take. If there is none, containers
// are watched without events.
func (s *eventStream) start(ctx context.Context) {
	s.begin.Do(func() {
		life, stop := context.WithCancel(context.Background())
		s.stop, s.done = stop, make(chan struct{})
		go s.run(life)
	})
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	select {
	case <-s.first:
	case <-ctx.Done():
	}
}

func (s *eventStream) run(ctx context.Context) {
	defer close(s.done)
	answered := sync.OnceFunc(func() { close(s.first) })
	for ctx.Err() == nil {
		messages, errs := s.client.Events(ctx, events.ListOptions{Filters: managed()})
		s.mu.Lock()
		s.up = true // otherwise errs has the reason
		s.mu.Unlock()
		answered()
		s.follow(messages, errs)
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

func (s *eventStream) close() {
	if s.stop != nil {
		s.stop()
		<-s.done
	}
}

// follow passes events on until the stream breaks.
func (s *eventStream) follow(messages <-chan events.Message, errs <-chan error) {
	for {
		select {
		case m := <-messages:
			s.mu.Lock()
			all := slices.Clone(s.watch[m.Actor.ID])
			s.mu.Unlock()
			for _, w := range all {
				w.apply(m)
			}
		case <-errs:
			s.mu.Lock()
			defer s.mu.Unlock()
			s.up = false
			for _, all := range s.watch {
				for _, w := range all {
					w.markMissed()
				}
			}
			return
		}
	}
}

// add watches a container.
func (s *eventStream) add(id string) *watch {
	w := newWatch()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.up {
		w.markMissed()
	}
	s.watch[id] = append(s.watch[id], w)
	return w
}

func (s *eventStream) remove(id string, w *watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watch[id] = slices.DeleteFunc(s.watch[id], func(other *watch) bool { return other == w })
	if len(s.watch[id]) == 0 {
		delete(s.watch, id)
	}
}

// watch follows the events of one container.
type watch struct {
	mu      sync.Mutex
	state   state
	changed chan struct{} // closed and replaced whenever state changes
	lost    chan struct{} // closed once the container is of no use, or may be
	isLost  bool          // lost is closed
}

func newWatch() *watch {
	return &watch{changed: make(chan struct{}), lost: make(chan struct{}), state: state{exits: map[string]exit{}}}
}

// exit is the end of an exec.
type exit struct {
	status int
	when   time.Time // on the engine's clock
}

// state is what events have reported about a container.
type state struct {
	exits     map[string]exit // by exec ID
	died      bool
	status    int  // of its init, once it ended
	stopped   bool // the engine was asked to end it
	destroyed bool
	oom       int
	paused    bool
	missed    bool // events may have been missed
}

func (w *watch) apply(m events.Message) {
	w.update(func(s *state) {
		switch m.Action {
		case events.ActionExecDie:
			if status, err := strconv.Atoi(m.Actor.Attributes["exitCode"]); err == nil {
				s.exits[m.Actor.Attributes["execID"]] = exit{status, time.Unix(0, m.TimeNano)}
			}
		case events.ActionOOM:
			s.oom++
		case events.ActionKill:
			s.stopped = true
		case events.ActionDie:
			s.died = true
			s.status, _ = strconv.Atoi(m.Actor.Attributes["exitCode"])
		case events.ActionDestroy:
			s.destroyed = true
		case events.ActionPause:
			s.paused = true
		}
	})
}

// markMissed records that events may have been missed.
func (w *watch) markMissed() { w.update(func(s *state) { s.missed = true }) }

func (w *watch) update(change func(*state)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.state)
	if s := w.state; !w.isLost && (s.died || s.destroyed || s.paused || s.missed) {
		w.isLost = true
		close(w.lost)
	}
	close(w.changed)
	w.changed = make(chan struct{})
}

// now returns the state so far, and a channel that is closed at the next change.
func (w *watch) now() (s state, changed <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s = w.state
	s.exits = maps.Clone(s.exits)
	return s, w.changed
}

// until waits until the condition is true, or ctx ends, and returns the state then.
func (w *watch) until(ctx context.Context, is func(state) bool) state {
	for {
		now, changed := w.now()
		if is(now) {
			return now
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return now
		}
	}
}

// exit is the exit status of an exec, ok once it has ended.
func (w *watch) exit(exec string) (end exit, ok bool, changed <-chan struct{}) {
	now, changed := w.now()
	end, ok = now.exits[exec]
	return end, ok, changed
}

// uncertain reports whether an exec may have ended without an event: some may have been
// missed, or its container ended.
func (w *watch) uncertain() bool {
	now, _ := w.now()
	return now.missed || now.died || now.destroyed
}
