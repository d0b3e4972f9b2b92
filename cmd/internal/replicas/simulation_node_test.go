package replicas_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"belljar/cmd/internal/access"
	"belljar/cmd/internal/problem"
	"belljar/cmd/internal/replicas"
)

// keepTime is how long executions are known.
const keepTime = 20 * time.Minute

// disk is what a replica has, which may start again with it.
type disk struct {
	mu   sync.Mutex
	has  map[string]*record
	keys map[string]*started
}

// record is what a replica knows of a session.
type record struct {
	pod   string
	made  chan struct{} // closed once the pod is recorded, nil if another replica did
	state int           // how its last use left it, as far as it is known
}

// started is a command that began.
type started struct {
	done chan struct{}
	by   string
}

// node is a replica in a world.
type node struct {
	*replicas.Replicas
	world    *world
	name     string
	address  netip.Addr
	listener *listener
	server   *http.Server
	disk     *disk
	down     time.Time // until then its Store does not answer; world.mu guards it

	mu      sync.Mutex
	frozen  time.Time // until then it stands still
	dead    bool      // it was killed
	closed  bool      // it listens no more
	closing bool      // it starts nothing more
	ending  bool      // it is to end
	over    bool      // its Lease says that it ends, or will
	uses    map[string]int
	gave    map[string]string // the states of sessions that it gave up; world.truthMu guards it
	runs    sync.WaitGroup
}

// awake waits while the replica stands still.
func (n *node) awake() {
	for n != nil {
		n.mu.Lock()
		until, dead := n.frozen, n.dead
		n.mu.Unlock()
		if dead || !time.Now().Before(until) {
			return
		}
		time.Sleep(time.Until(until))
	}
}

// stands is until when it stands still, or did.
func (n *node) stands() time.Time {
	if n == nil {
		return time.Time{}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.frozen
}

func (n *node) isDead() bool {
	if n == nil {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dead
}

func (n *node) isClosed() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.closed
}

func (n *node) isClosing() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.closing
}

// Write has the replica's own log.
func (n *node) Write(line []byte) (int, error) {
	_, said, _ := strings.Cut(strings.TrimSpace(string(line)), "msg=")
	n.world.logf("%s: says %s", n.name, said)
	return len(line), nil
}

// join starts a replica, with the disk of an earlier one or a new one.
func (w *world) join(before *node) (*node, error) {
	n := &node{world: w, name: replicas.NewName(), disk: &disk{has: map[string]*record{}, keys: map[string]*started{}}, uses: map[string]int{}, gave: map[string]string{}, listener: &listener{conns: make(chan net.Conn, 100), done: make(chan struct{})}}
	if before != nil {
		n.name, n.disk = before.name, before.disk
	}
	w.mu.Lock()
	w.joined++
	self := fmt.Sprintf("process %d", w.joined)
	n.address = netip.AddrFrom4([4]byte{10, 0, byte(w.joined / 250), byte(w.joined%250 + 1)})
	w.at[n.address] = n
	w.mu.Unlock()
	var err error
	for range 100 {
		n.Replicas, err = replicas.Join(context.Background(), replicas.Config{Name: n.name, Self: self, Address: n.address, Port: 1, Store: faultyStore{n}, Local: n, Keep: keepTime, Log: slog.New(slog.NewTextHandler(n, nil))})
		if err == nil {
			break
		}
		time.Sleep(time.Second)
	}
	if err != nil {
		return nil, err
	}
	n.DialWith(w.dialer(n))
	api := n.Wrap(http.HandlerFunc(n.api))
	n.server = &http.Server{ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0), Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		ctx := context.WithValue(r.Context(), cameKey{}, time.Now())
		api.ServeHTTP(rw, r.WithContext(access.With(ctx, access.Identity{Name: "ann", Scopes: []access.Scope{access.Run}})))
	})}
	w.logf("%s: joins, as %s", n.name, self)
	w.mu.Lock()
	w.nodes = append(w.nodes, n)
	w.mu.Unlock()
	w.all.Go(func() { _ = n.server.Serve(n.listener) })
	return n, nil
}

// kill ends a replica as SIGKILL does, or with its machine, which no one hears of.
func (n *node) kill() {
	n.mu.Lock()
	n.dead = true
	n.mu.Unlock()
	w := n.world
	w.logf("%s: is killed", n.name)
	var late time.Duration
	if w.chance(0.5) {
		late = 30 * time.Second
	}
	w.breakAll(n, late)
	n.listener.Close()
	w.leave(n)
	w.all.Go(func() { // what is left of it in this process
		n.server.Close()
		_ = n.Close()
	})
}

// end ends a replica as SIGTERM does.
func (n *node) end() {
	w := n.world
	w.logf("%s: drains", n.name)
	n.Drain()
	n.disk.mu.Lock()
	n.mu.Lock()
	n.closing = true
	n.mu.Unlock()
	n.disk.mu.Unlock()
	time.Sleep(w.upTo(30 * time.Second)) // commands take long
	ended := make(chan struct{})
	w.all.Go(func() {
		n.runs.Wait()
		close(ended)
	})
	select {
	case <-ended:
	case <-time.After(w.upTo(time.Minute)):
	}
	ctx, cancel := context.WithTimeout(context.Background(), w.upTo(time.Minute))
	n.Settle(ctx)
	cancel()
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	w.logf("%s: shuts down", n.name)
	ctx, cancel = context.WithTimeout(context.Background(), 2*time.Second)
	if n.server.Shutdown(ctx) != nil {
		n.server.Close()
	}
	cancel()
	w.logf("%s: closes", n.name)
	w.closes(n)
	_ = n.Close()
	w.leave(n)
	w.breakAll(n, 0)
	n.mu.Lock()
	n.dead = true
	n.mu.Unlock()
	w.logf("%s: has ended", n.name)
}

// cameKey is of when a request came: its body may come later.
type cameKey struct{}

// api is what is behind the replicas.
func (n *node) api(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	came := r.Context().Value(cameKey{}).(time.Time)
	session := r.Header.Get("Session")
	switch r.URL.Path {
	case "/v1/executions":
		n.execute(w, r, body, came)
	case "/mcp":
		defer n.Use(session)()
		if err := n.Fetch(r.Context(), session, true); err != nil {
			replicas.Refuse(w, err)
			return
		}
		x, err := n.start(r, replicas.Request{Session: session}, came)
		n.answer(w, r, x, err)
	default:
		n.aboutSession(w, r, strings.TrimPrefix(r.URL.Path, "/v1/sessions/"), came)
	}
}

func (n *node) execute(w http.ResponseWriter, r *http.Request, body []byte, came time.Time) {
	q := replicas.Request{Owner: "ann", Key: r.Header.Get("Idempotency-Key"), Sum: body, Session: r.Header.Get("Session"), Starts: true}
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(string(body))), nil }
	var x *started
	err := n.Do(w, r, q, func() (err error) {
		x, err = n.start(r, q, came)
		return err
	})
	if x != nil || err != nil {
		n.answer(w, r, x, err)
	}
}

// answer waits for a command's end.
func (n *node) answer(w http.ResponseWriter, r *http.Request, x *started, err error) {
	if err != nil {
		replicas.Refuse(w, err)
		return
	}
	if r.Header.Get("Wait") != "0" {
		select {
		case <-x.done:
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"by": x.by})
}

func refusal(code string) error { return problem.New(code, "no", "") }

// start begins a command, or finds that of the key.
func (n *node) start(r *http.Request, q replicas.Request, came time.Time) (*started, error) {
	if n.awake(); n.isDead() {
		panic(http.ErrAbortHandler)
	}
	w := n.world
	if w.chance(w.refusals) {
		return nil, refusal("busy")
	}
	n.disk.mu.Lock()
	defer n.disk.mu.Unlock()
	if x := n.disk.keys[q.Key]; q.Key != "" && x != nil {
		return x, nil
	}
	if n.isClosing() {
		return nil, refusal(problem.Unavailable)
	}
	x := &started{done: make(chan struct{}), by: n.name}
	if q.Key != "" {
		n.disk.keys[q.Key] = x
	}
	w.begins(n, q, r.Header.Get("Attempt"))
	done := n.hold(q.Session)
	long := w.upTo(30 * time.Second)
	n.runs.Go(func() {
		defer close(x.done)
		defer done()
		n.run(q.Session, came, long)
	})
	return x, nil
}

// run is a command.
func (n *node) run(session string, came time.Time, long time.Duration) {
	if session == "" {
		time.Sleep(long)
		return
	}
	if !n.ready(session) {
		return
	}
	n.use(session, came, long)
}

// ready makes the session's pod, if there is none.
func (n *node) ready(session string) bool {
	n.disk.mu.Lock()
	s := n.disk.has[session]
	if s != nil && n.world.isPod(s.pod) {
		n.disk.mu.Unlock()
		if s.made != nil {
			<-s.made
		}
		return true
	}
	pod := n.world.makePod(session, n)
	s = &record{pod: pod, made: make(chan struct{})}
	defer close(s.made)
	n.disk.has[session] = s
	n.disk.mu.Unlock()
	n.awake()
	err := n.Record(context.Background(), session, pod)
	n.awake()
	if err != nil {
		n.world.logf("%s: %s of %s is not recorded: %v", n.name, pod, session, err)
		n.disk.mu.Lock()
		if n.disk.has[session] == s {
			delete(n.disk.has, session)
		}
		n.disk.mu.Unlock()
		n.world.dropPod(pod)
	}
	return err == nil
}

// use uses a session for some time.
func (n *node) use(session string, came time.Time, long time.Duration) {
	if n.awake(); n.isDead() {
		return
	}
	n.disk.mu.Lock()
	s := n.disk.has[session]
	if s == nil {
		n.disk.mu.Unlock()
		return
	}
	s.state = n.world.uses(n, session, *s, came)
	n.disk.mu.Unlock()
	time.Sleep(long)
	n.awake()
	n.world.stillUses(n, session, came)
}

// aboutSession answers to GET and DELETE.
func (n *node) aboutSession(w http.ResponseWriter, r *http.Request, session string, came time.Time) {
	defer n.Use(session)()
	if n.awake(); n.isDead() {
		panic(http.ErrAbortHandler)
	}
	n.disk.mu.Lock()
	is := n.disk.has[session]
	n.disk.mu.Unlock()
	if is != nil && is.made != nil {
		<-is.made
	}
	if is == nil {
		replicas.Refuse(w, refusal(problem.NotFound))
		return
	}
	n.use(session, came, n.world.upTo(2*time.Second))
	if r.Method == http.MethodDelete {
		n.disk.mu.Lock()
		if s := n.disk.has[session]; s != nil {
			n.world.removes(n, session, s.pod, came)
			delete(n.disk.has, session)
		}
		n.disk.mu.Unlock()
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"by": n.name})
}

func (n *node) Use(session string) func() {
	n.awake()
	return n.hold(session)
}

func (n *node) hold(session string) (done func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.uses[session]++
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.uses[session]--
	}
}

func (n *node) Idle(session string) bool {
	n.awake()
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.uses[session] == 0
}

// Runs reports nothing: what uses a session in the simulation runs commands, and watches nothing.
func (n *node) Runs(string) bool { return false }

func (n *node) Known() (map[string]bool, error) {
	n.awake()
	n.disk.mu.Lock()
	defer n.disk.mu.Unlock()
	known := map[string]bool{}
	for session := range n.disk.has {
		known[session] = true
	}
	return known, nil
}

func (n *node) Owner(session string) string {
	n.awake()
	n.disk.mu.Lock()
	defer n.disk.mu.Unlock()
	if n.disk.has[session] == nil {
		return ""
	}
	return "ann"
}

func (n *node) Asks(string) bool { return false }

var errDisk = errors.New("the disk is full")

func (n *node) GiveUp(ctx context.Context, session string) (k replicas.Kept, err error) {
	if n.awake(); !pass(ctx, n.world.upTo(n.world.slowness)) {
		return k, ctx.Err()
	}
	if n.awake(); n.isDead() || n.world.chance(n.world.errors) {
		return k, errDisk
	}
	n.disk.mu.Lock()
	defer n.disk.mu.Unlock()
	if s := n.disk.has[session]; s != nil {
		k = replicas.Kept{Owner: "ann", Pod: s.pod, State: strconv.Itoa(s.state)}
		delete(n.disk.has, session)
	}
	n.world.givesUp(n, session, k)
	return k, nil
}

func (n *node) TakeOver(ctx context.Context, session string, k replicas.Kept) error {
	if n.awake(); !pass(ctx, n.world.upTo(n.world.slowness)) {
		return ctx.Err()
	}
	if n.awake(); n.isDead() || n.world.chance(n.world.errors) {
		n.world.logf("%s: %s is not taken over, as its disk fails", n.name, session)
		return errDisk
	}
	if k.Pod == "" && k.State == "" {
		return nil // nothing was made
	}
	n.disk.mu.Lock()
	defer n.disk.mu.Unlock()
	state, _ := strconv.Atoi(k.State)
	n.disk.has[session] = &record{pod: k.Pod, state: state}
	n.world.takesOver(n, session, k)
	return nil
}

func (n *node) Knows(context.Context, string) bool { return false }

func (n *node) Keys() (all [][2]string) {
	n.disk.mu.Lock()
	defer n.disk.mu.Unlock()
	for key := range n.disk.keys {
		all = append(all, [2]string{"ann", key})
	}
	return all
}

func (n *node) KnowsKey(_, key string) bool {
	n.awake()
	n.disk.mu.Lock()
	defer n.disk.mu.Unlock()
	return n.disk.keys[key] != nil
}
