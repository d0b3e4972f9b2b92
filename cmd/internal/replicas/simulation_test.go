package replicas_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"belljar/cmd/internal/replicas"
)

const (
	// simulations is how many worlds TestSimulation tries. BELLJAR_SIMULATIONS is another number of them, from a random one on, or +SEED
	// for one with its log. Goroutines take turns as they like, so that one seed is not one course of events.
	simulations = 300
	// simulationTime bounds them, where no number is asked for.
	simulationTime = 5 * time.Second
)

// Whatever fails, stands still, is slow or is killed, and whoever asks again: a key's command begins once, a session is
// used by one replica at a time and goes on as it was left, and all get an answer, which is true.
func TestSimulation(t *testing.T) {
	first, n, until := uint64(1), uint64(simulations), time.Now().Add(simulationTime)
	if asked := os.Getenv("BELLJAR_SIMULATIONS"); asked != "" {
		number, err := strconv.ParseUint(strings.TrimPrefix(asked, "+"), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		first, n, until = rand.Uint64N(1<<40), number, time.Now().Add(24*time.Hour)
		if strings.HasPrefix(asked, "+") {
			first, n = number, 1
		}
	}
	var failed atomic.Bool
	for part := range uint64(2) {
		t.Run(fmt.Sprint("from seed ", first+part), func(t *testing.T) {
			t.Parallel()
			for seed := first + part; seed < first+n && !failed.Load() && time.Now().Before(until); seed += 2 {
				if !simulate(t, seed, n == 1) {
					failed.Store(true)
				}
			}
		})
	}
}

func simulate(t *testing.T, seed uint64, log bool) (ok bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(seed)
		w.run()
		for _, what := range w.wrong {
			t.Errorf("seed %d: %s", seed, what)
		}
		if ok = len(w.wrong) == 0; !ok || log {
			t.Log(strings.Join(w.log, "\n"))
		}
	})
	return ok
}

// world is replicas, what is between them, their callers, and what is to be true.
type world struct {
	all   sync.WaitGroup
	start time.Time

	faults

	mu      sync.Mutex
	random  *rand.Rand
	at      map[any]*node
	nodes   []*node // that have not left
	conns   map[*conn]bool
	links   map[pair]link
	down    time.Time // until then no Store answers
	calm    bool
	joined  int
	asked   int            // attempts
	began   map[string]int // attempts
	refused map[string]string
	keys    map[string]*key
	wrong   []string

	course
	stored
	told
}

// course is what happened.
type course struct {
	logMu sync.Mutex
	log   []string
}

// stored is what the Store has.
type stored struct {
	storeMu sync.Mutex
	entries map[string]kept
	version int
	homes   map[string]has       // of sessions
	lapsed  map[string]time.Time // replicas' entries, when they counted as dead the last time
}

// told is what is true of sessions.
type told struct {
	truthMu sync.Mutex
	truths  map[string]*truth
	pods    map[string]bool
	made    int // pods
	used    int // sessions, how often
}

// faults are how much goes wrong: chances, and the longest time that a session takes to move.
type faults struct {
	errors, refusals float64
	fetches          int // of 10 requests
	slowness         time.Duration
}

// key is an idempotency key.
type key struct {
	session string
	began   []*node
}

func newWorld(seed uint64) *world {
	w := &world{
		start: time.Now(), random: rand.New(rand.NewPCG(seed, 0)), at: map[any]*node{}, conns: map[*conn]bool{}, links: map[pair]link{}, began: map[string]int{}, refused: map[string]string{}, keys: map[string]*key{},
		stored: stored{entries: map[string]kept{}, lapsed: map[string]time.Time{}, homes: map[string]has{}},
		told:   told{truths: map[string]*truth{}, pods: map[string]bool{}},
	}
	w.errors = []float64{0, 0.01, 0.05}[w.random.IntN(3)]
	w.refusals = []float64{0, 0.05, 0.3}[w.random.IntN(3)]
	w.fetches = 1 + w.random.IntN(4)
	w.slowness = []time.Duration{1, time.Second, 20 * time.Second}[w.random.IntN(3)]
	return w
}

func (w *world) logf(format string, args ...any) {
	line := fmt.Sprintf("%8.3f "+format, append([]any{time.Since(w.start).Seconds()}, args...)...)
	w.logMu.Lock()
	defer w.logMu.Unlock()
	w.log = append(w.log, line)
}

// chance is for locked and unlocked callers each.
func (w *world) chance(of float64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.faulty(of)
}

func (w *world) faulty(of float64) bool { return !w.calm && w.random.Float64() < of }

func (w *world) upTo(most time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Duration(w.random.Int64N(int64(most) + 1))
}

func (w *world) intN(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.random.IntN(n)
}

// latency is of half a call of the Store. w.mu is held.
func (w *world) latency() time.Duration {
	most := 20 * time.Millisecond
	if w.faulty(w.errors) {
		most = 12 * time.Second
	}
	return time.Duration(w.random.Int64N(int64(most)))
}

// any is a replica, or nil.
func (w *world) any() *node {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.nodes) == 0 {
		return nil
	}
	return w.nodes[w.random.IntN(len(w.nodes))]
}

func (w *world) leave(n *node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes = slices.DeleteFunc(w.nodes, func(other *node) bool { return other == n })
}

// size is how many replicas there are.
const size = 3

func (w *world) run() {
	for range size {
		if _, err := w.join(nil); err != nil {
			w.fail("%v", err)
			return
		}
	}
	over, end := context.WithCancel(context.Background())
	var callers, faults sync.WaitGroup
	for range 4 {
		callers.Go(func() { w.call(over) })
	}
	faults.Go(func() { w.disturb(over) })
	faults.Go(func() { w.sweep(over) })
	time.Sleep(2*time.Minute + w.upTo(5*time.Minute))
	end()
	faults.Wait()
	w.mu.Lock()
	w.calm = true
	w.mu.Unlock()
	callers.Wait()
	time.Sleep(2 * time.Minute) // what was late, and what stood still
	w.logf("the world is calm")
	w.check()
	w.mu.Lock()
	nodes := slices.Clone(w.nodes)
	w.mu.Unlock()
	var ending sync.WaitGroup
	for _, n := range nodes {
		ending.Go(n.end)
	}
	ending.Wait()
	w.all.Wait()
}

// sweep is what replicas do from time to time.
func (w *world) sweep(ctx context.Context) {
	for pass(ctx, w.upTo(time.Minute)) {
		if n := w.any(); n != nil {
			_ = n.SweepKeys(ctx)
		}
	}
}

// disturb has things go wrong, until ctx ends.
func (w *world) disturb(ctx context.Context) {
	often := []time.Duration{5 * time.Second, 20 * time.Second, time.Minute}[w.intN(3)]
	var moves sync.WaitGroup
	defer moves.Wait()
	for pass(ctx, w.upTo(often)) {
		n, other := w.any(), w.any()
		if n == nil {
			continue
		}
		if other == n || w.intN(5) == 0 {
			other = nil // callers
		}
		switch w.intN(9) {
		case 0:
			long := w.upTo(90 * time.Second)
			w.logf("%s: stands still for %v", n.name, long)
			n.mu.Lock()
			n.frozen = time.Now().Add(long)
			n.mu.Unlock()
		case 1:
			long := w.upTo(90 * time.Second)
			w.logf("nothing arrives from %s at %s for %v", other.String(), n.name, long)
			w.mu.Lock()
			w.links[pair{other, n}] = link{frozen: time.Now().Add(long)}
			if w.random.IntN(2) == 0 {
				w.links[pair{n, other}] = link{frozen: time.Now().Add(long)}
			}
			w.mu.Unlock()
		case 2:
			slow := w.upTo([]time.Duration{5 * time.Second, 80 * time.Second}[w.intN(2)])
			w.logf("what arrives from %s at %s takes up to %v", other.String(), n.name, slow)
			w.mu.Lock()
			w.links[pair{other, n}] = link{slow: slow}
			w.mu.Unlock()
		case 3:
			w.logf("connections of %s break", n.name)
			w.breakAll(n, 0)
		case 4:
			long := w.upTo(time.Minute)
			w.logf("no Store answers for %v", long)
			w.mu.Lock()
			w.down = time.Now().Add(long)
			w.mu.Unlock()
		case 5:
			long := w.upTo(time.Minute)
			w.logf("the Store does not answer %s for %v", n.name, long)
			w.mu.Lock()
			n.down = time.Now().Add(long)
			w.mu.Unlock()
		case 6:
			w.mu.Lock()
			few := len(w.nodes) < size-1
			w.mu.Unlock()
			if few || n.isEnding() {
				continue
			}
			n.kill()
			switch w.intN(3) {
			case 0:
				moves.Go(func() { w.replace(n) })
			default:
				moves.Go(func() { w.replace(nil) })
			}
		case 7, 8:
			w.mu.Lock()
			few := len(w.nodes) < size
			w.mu.Unlock()
			if few || n.isEnding() {
				continue
			}
			n.mu.Lock()
			n.ending = true
			n.mu.Unlock()
			moves.Go(n.end)
			moves.Go(func() { w.replace(nil) })
		}
	}
}

func (w *world) replace(before *node) {
	time.Sleep(w.upTo(time.Minute))
	if _, err := w.join(before); err != nil {
		w.fail("%v", err)
	}
}

func (n *node) isEnding() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ending
}

func (n *node) String() string {
	if n == nil {
		return "callers"
	}
	return n.name
}

// sessions are what callers use.
var sessions = []string{"s1", "s2", "s3"}

// call is a caller, until ctx ends.
func (w *world) call(ctx context.Context) {
	for pass(ctx, w.upTo(20*time.Second)) {
		session := sessions[w.intN(len(sessions))]
		switch i := w.intN(10); {
		case i < w.fetches:
			w.ask(http.MethodPost, "/mcp", "", session)
		case i == 5:
			w.ask(http.MethodGet, "/v1/sessions/"+session, "", "")
		case i == 6 && w.intN(5) == 0:
			w.ask(http.MethodDelete, "/v1/sessions/"+session, "", "")
		case i == 7:
			w.ask(http.MethodPost, "/v1/executions", "", session)
		default:
			if w.intN(3) == 0 {
				session = ""
			}
			w.repeat(ctx, session)
		}
	}
}

// repeat sends a request with a key until it is answered, and perhaps once more.
func (w *world) repeat(ctx context.Context, session string) {
	w.mu.Lock()
	name := fmt.Sprintf("k%d", len(w.keys))
	w.keys[name] = &key{session: session}
	w.mu.Unlock()
	pause := []time.Duration{time.Second, 30 * time.Second, 2 * time.Minute}[w.intN(3)]
	for range 2 + w.intN(4) {
		var both sync.WaitGroup
		if w.intN(2) == 0 {
			both.Go(func() { w.ask(http.MethodPost, "/v1/executions", name, session) })
		}
		status := w.ask(http.MethodPost, "/v1/executions", name, session)
		both.Wait()
		if status == http.StatusOK && w.intN(2) == 0 || !pass(ctx, w.upTo(pause)) {
			return
		}
	}
}

// longest is how long an answer may take: all that takes long may come together.
const longest = 15 * time.Minute

// ask asks any replica. 0 is no answer.
func (w *world) ask(method, path, key, session string) int {
	n := w.any()
	if n == nil {
		return 0
	}
	long := longest
	if w.intN(2) == 0 {
		long = w.upTo(2 * time.Minute)
	}
	status, _, _ := w.askOne(n, long, method, path, key, session)
	return status
}

func (w *world) askOne(n *node, long time.Duration, method, path, key, session string) (status int, code, by string) {
	w.mu.Lock()
	w.asked++
	attempt := fmt.Sprintf("a%d", w.asked)
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), long)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+n.address.String()+":1"+path, strings.NewReader("body of "+key))
	if err != nil {
		w.fail("%v", err)
		return 0, "", ""
	}
	for name, value := range map[string]string{"Authorization": "Bearer ann", "Attempt": attempt, "Idempotency-Key": key, "Session": session} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	if w.intN(3) == 0 {
		req.Header.Set("Wait", "0")
	}
	w.logf("%s: %s %s %s %s to %s", attempt, method, path, key, session, n.name)
	client := &http.Client{Transport: &http.Transport{DialContext: w.dialer(nil), DisableKeepAlives: true}}
	answer, err := client.Do(req)
	if err == nil {
		defer answer.Body.Close()
		var a struct{ Code, By string }
		var text []byte
		if text, err = io.ReadAll(answer.Body); err == nil {
			err = json.Unmarshal(text, &a)
		}
		status, code, by = answer.StatusCode, a.Code, a.By
	}
	if err != nil {
		w.logf("%s: %v", attempt, err)
		if ctx.Err() != nil && long == longest {
			w.fail("%s waits for ever: %s %s %s %s to %s", attempt, method, path, key, session, n.name)
		}
		return 0, "", ""
	}
	w.logf("%s: %d %s by %s", attempt, status, code, by)
	if status >= 400 && status != http.StatusGone {
		w.mu.Lock()
		w.refused[attempt] = fmt.Sprintf("%d %s", status, code)
		w.mu.Unlock()
	}
	return status, code, by
}

// check is what is to be true once all is well again.
func (w *world) check() {
	w.mu.Lock()
	nodes, keys := slices.Clone(w.nodes), map[string]string{}
	for name, k := range w.keys {
		keys[name] = k.session
	}
	w.mu.Unlock()
	if len(nodes) != size {
		w.fail("%d replicas", len(nodes))
	}
	for _, n := range nodes {
		if len(n.Peers()) != size-1 {
			w.fail("%s sees %v", n.name, n.Peers())
		}
	}
	for _, session := range sessions {
		w.checkSession(nodes, session)
	}
	time.Sleep(5 * time.Minute) // until then, a replica that started again once may do so once more
	var all sync.WaitGroup
	for name, session := range keys {
		n := nodes[w.intN(len(nodes))]
		all.Go(func() { w.checkKey(n, name, session) })
	}
	all.Wait()
	w.checkEntries(nodes)
	w.mu.Lock()
	defer w.mu.Unlock()
	for attempt, how := range w.refused {
		if w.began[attempt] > 0 {
			w.wrong = append(w.wrong, fmt.Sprintf("%s was refused, %s, and began", attempt, how))
		}
	}
}

// checkKey is that a key can be used, or its replica has ended.
func (w *world) checkKey(n *node, name, session string) {
	status, code, _ := w.askOne(n, longest, http.MethodPost, "/v1/executions", name, session)
	if status != 200 && status != 410 {
		w.fail("%s at %s, at last: %d %s", name, n.name, status, code)
	}
}

func (w *world) checkSession(nodes []*node, session string) {
	var home string
	for _, n := range nodes {
		status, code, by := w.askOne(n, longest, http.MethodPost, "/v1/executions", "", session)
		if status != 200 || home != "" && by != home {
			w.fail("%s at %s, at last: %d %s by %s, and before by %s", session, n.name, status, code, by, home)
		}
		home = by
	}
}

// checkEntries is that nothing is left in the Store once it is forgotten.
func (w *world) checkEntries(nodes []*node) {
	if w.intN(8) > 0 {
		return // for the time that it takes
	}
	for _, session := range sessions {
		w.askOne(nodes[0], longest, http.MethodDelete, "/v1/sessions/"+session, "", "")
	}
	for _, n := range nodes {
		n.disk.mu.Lock()
		clear(n.disk.keys)
		n.disk.mu.Unlock()
	}
	w.mu.Lock()
	clear(w.keys)
	w.mu.Unlock()
	time.Sleep(keepTime + 2*time.Minute)
	for range 2 {
		for _, n := range nodes {
			if err := n.SweepKeys(context.Background()); err != nil {
				w.fail("%v", err)
			}
		}
	}
	w.storeMu.Lock()
	defer w.storeMu.Unlock()
	for name, k := range w.entries {
		if k.Kind != "replica" || k.Holder == "" {
			w.fail("%s is left, of %q", name, k.Holder)
		}
	}
	if len(w.entries) != len(nodes) {
		w.fail("%d entries are left", len(w.entries))
	}
}

// begins notes that a command begins.
func (w *world) begins(n *node, q replicas.Request, attempt string) {
	w.logf("%s: %s of %q in %q begins", n.name, attempt, q.Key, q.Session)
	w.mu.Lock()
	w.began[attempt]++
	again := w.began[attempt] > 1
	if k := w.keys[q.Key]; k != nil {
		k.began = append(k.began, n)
		again = again || len(k.began) > 1
	}
	w.mu.Unlock()
	if again {
		w.fail("%s of %q begins again, at %s", attempt, q.Key, n.name)
	}
}

func (w *world) fail(format string, args ...any) {
	w.logf("WRONG: "+format, args...)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}
