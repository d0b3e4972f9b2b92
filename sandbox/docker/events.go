package docker

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/client"
)

// eventStream follows what the engine says of our containers. It is a help and
// not relied on: where it breaks, what waits on it asks the engine instead.
type eventStream struct {
	client *client.Client
	stop   context.CancelFunc
	done   chan struct{}
	mu     sync.Mutex
	watch  map[string][]*watch // by container ID: one for each that has it open
}

func newEventStream(c *client.Client) *eventStream {
	return &eventStream{client: c, watch: map[string][]*watch{}}
}

// start subscribes to the events of all of belljar's containers, until close: a
// session's may have been made by another process.
func (s *eventStream) start() {
	ctx, stop := context.WithCancel(context.Background())
	s.stop, s.done = stop, make(chan struct{})
	filter := managed()
	messages, errs := s.client.Events(ctx, events.ListOptions{Filters: filter})
	go func() {
		defer close(s.done)
		for {
			s.follow(messages, errs)
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Second):
			}
			messages, errs = s.client.Events(ctx, events.ListOptions{Filters: filter})
		}
	}()
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
				w.see(m)
			}
		case <-errs:
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, all := range s.watch {
				for _, w := range all {
					w.update(func(seen *seen) { seen.blind = true })
				}
			}
			return
		}
	}
}

func (s *eventStream) add(id string) *watch {
	w := newWatch()
	s.mu.Lock()
	defer s.mu.Unlock()
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

// watch is what was seen of one container.
type watch struct {
	mu      sync.Mutex
	seen    seen
	changed chan struct{} // closed and replaced whenever seen changes
	lost    chan struct{} // closed once the container is of no use, or may be
	useless bool          // it is closed
}

func newWatch() *watch {
	return &watch{changed: make(chan struct{}), lost: make(chan struct{}), seen: seen{exits: map[string]int{}}}
}

type seen struct {
	exits     map[string]int // by exec ID
	died      bool
	status    int // of its init, once it died
	destroyed bool
	oom       int
	paused    bool
	blind     bool // events may have been missed
}

func (w *watch) see(m events.Message) {
	w.update(func(s *seen) {
		switch m.Action {
		case events.ActionExecDie:
			if status, err := strconv.Atoi(m.Actor.Attributes["exitCode"]); err == nil {
				s.exits[m.Actor.Attributes["execID"]] = status
			}
		case events.ActionOOM:
			s.oom++
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

func (w *watch) update(change func(*seen)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.seen)
	if s := w.seen; !w.useless && (s.died || s.destroyed || s.paused || s.blind) {
		w.useless = true
		close(w.lost)
	}
	close(w.changed)
	w.changed = make(chan struct{})
}

// look calls at with what was seen, and returns a channel that is closed at the
// next change.
func (w *watch) look(at func(seen)) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	at(w.seen)
	return w.changed
}

// exit is the status of an exec that was seen to end.
func (w *watch) exit(exec string) (status int, ok bool, changed <-chan struct{}) {
	changed = w.look(func(s seen) { status, ok = s.exits[exec] })
	return status, ok, changed
}

// uncertain tells whether the events no longer suffice to know an exec's end:
// some may be missing, or its container ended.
func (w *watch) uncertain() (yes bool) {
	w.look(func(s seen) { yes = s.blind || s.died || s.destroyed })
	return yes
}
