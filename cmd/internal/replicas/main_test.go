package replicas_test

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"belljar/cmd/internal/access"
	"belljar/cmd/internal/problem"
	"belljar/cmd/internal/replicas"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// store is a Store in memory.
type store struct {
	mu   sync.Mutex
	all  map[string]replicas.Entry
	next int
	down error           // what everything fails with
	once bool            // only the next thing does
	dead map[string]bool // whose Leases no renewal revives
}

func (s *store) do(f func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.down; err != nil {
		if s.once {
			s.down = nil
		}
		return err
	}
	return f()
}

func (s *store) put(e replicas.Entry) replicas.Entry {
	s.next++
	e.Version, e.Lives, e.Age, e.Values = fmt.Sprint(s.next), !s.dead[e.Name], 0, maps.Clone(e.Values)
	s.all[e.Name] = e
	return e
}

func (s *store) List(_ context.Context, kind string) (list []replicas.Entry, err error) {
	return list, s.do(func() error {
		for _, e := range s.all {
			if e.Kind == kind {
				list = append(list, e)
			}
		}
		return nil
	})
}

func (s *store) Get(_ context.Context, name string) (e replicas.Entry, err error) {
	return e, s.do(func() (err error) {
		var ok bool
		if e, ok = s.all[name]; !ok {
			err = replicas.ErrNone
		}
		return err
	})
}

func (s *store) Create(_ context.Context, e replicas.Entry) (made replicas.Entry, err error) {
	return made, s.do(func() error {
		if _, there := s.all[e.Name]; there {
			return replicas.ErrTaken
		}
		made = s.put(e)
		return nil
	})
}

func (s *store) Update(_ context.Context, e replicas.Entry) (now replicas.Entry, err error) {
	return now, s.do(func() error {
		old, there := s.all[e.Name]
		switch {
		case !there:
			return replicas.ErrNone
		case old.Version != e.Version:
			return replicas.ErrTaken
		}
		now = s.put(e)
		return nil
	})
}

func (s *store) Delete(_ context.Context, e replicas.Entry) error {
	return s.do(func() error {
		if s.all[e.Name].Version == e.Version {
			delete(s.all, e.Name)
		}
		return nil
	})
}

// change changes entries behind the replicas' backs.
func (s *store) change(change func(all map[string]replicas.Entry)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s.all)
}

// cluster is replicas on addresses of this machine, which share a store.
type cluster struct {
	*store
	t     *testing.T
	port  uint16
	all   []*one
	again netip.Addr // the next one's, if it is not a new one
}

// one is a replica. It answers with its name, and what it was asked.
type one struct {
	*replicas.Replicas
	*httptest.Server
	cluster *cluster
	address netip.Addr
	hits    chan string                                  // requests that it handled itself
	handle  func(w http.ResponseWriter, r *http.Request) // instead; may be nil

	mu   sync.Mutex
	uses map[string]int
	has  map[string]replicas.Kept
	keys map[[2]string]string // with what was asked
	ids  map[string]bool
	asks map[string]bool // questions; may be nil
	runs []string

	busy   string // the session in which a command runs; may be ""
	gaveUp []string
	failed error                           // what giving a session up fails with, once what is known of it is gone; may be nil
	taking func(ctx context.Context) error // before a session is taken over; may be nil
	refuse func() error                    // a command; may be nil
}

func newCluster(t *testing.T, n int) *cluster {
	t.Helper()
	probe, err := net.Listen("tcp", "127.0.7.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := netip.MustParseAddrPort(probe.Addr().String()).Port()
	probe.Close()
	c := &cluster{store: &store{all: map[string]replicas.Entry{}, dead: map[string]bool{}}, t: t, port: port}
	for range n {
		c.add()
	}
	c.meet()
	return c
}

// meet has all know each other.
func (c *cluster) meet() {
	c.t.Helper()
	for _, o := range c.all {
		if err := o.Look(c.t.Context()); err != nil {
			c.t.Fatal(err)
		}
	}
}

func (c *cluster) add(change ...func(*replicas.Config)) *one {
	c.t.Helper()
	o := &one{cluster: c, address: netip.AddrFrom4([4]byte{127, 0, 7, byte(len(c.all) + 1)}), hits: make(chan string, 1000), uses: map[string]int{}, has: map[string]replicas.Kept{}, keys: map[[2]string]string{}, ids: map[string]bool{}}
	if c.again.IsValid() {
		o.address = c.again
	}
	config := replicas.Config{Name: replicas.NewName(), Self: fmt.Sprintf("process %d", len(c.all)), Address: o.address, Port: c.port, Store: c.store, Local: o, Keep: time.Hour, Log: slog.New(slog.DiscardHandler)}
	for _, change := range change {
		change(&config)
	}
	listener, err := net.Listen("tcp", netip.AddrPortFrom(o.address, c.port).String())
	if err != nil {
		c.t.Fatal(err)
	}
	if o.Replicas, err = replicas.Join(c.t.Context(), config); err != nil {
		c.t.Fatal(err)
	}
	api := o.Wrap(http.HandlerFunc(o.serve))
	o.Server = &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := access.Identity{Name: strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), Scopes: []access.Scope{access.Run, access.Approve}}
		switch who.Name {
		case "expired":
			problem.New(problem.Unauthorized, "the token has expired", "").Write(w)
			return
		case "judge":
			who.Scopes = []access.Scope{access.Approve}
		case "reader":
			who.Scopes = []access.Scope{access.Read}
		}
		api.ServeHTTP(w, r.WithContext(access.With(r.Context(), who)))
	})}}
	if config.Secure != nil {
		o.StartTLS()
	} else {
		o.Start()
	}
	c.all = append(c.all, o)
	c.t.Cleanup(func() {
		o.Server.Close()
		o.Replicas.Close()
	})
	return o
}

// die ends a replica as SIGKILL does, and its Lease with it.
func (o *one) die() {
	o.Listener.Close()
	o.CloseClientConnections()
	o.cluster.change(func(all map[string]replicas.Entry) {
		e := all["belljar-replica-"+o.Name]
		e.Lives = false
		all[e.Name] = e
		o.cluster.dead[e.Name] = true
	})
}

// serve is the API behind the replicas.
func (o *one) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if r.Method == http.MethodPost && r.URL.Path == "/v1/executions" {
		o.run(w, r, body)
		return
	}
	o.hits <- r.Method + " " + r.URL.RequestURI()
	if o.handle != nil {
		o.handle(w, r)
		return
	}
	id, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1/executions/"), "/")
	if replicas.OwnerOf(id) == "" && strings.HasPrefix(r.URL.Path, "/v1/executions/") && !o.Knows(r.Context(), id) {
		problem.New(problem.NotFound, "no execution", "").Write(w)
		return
	}
	json.NewEncoder(w).Encode(map[string]any{"by": o.Name, "asked": r.Method + " " + r.URL.RequestURI(), "body": string(body), "as": r.Header.Get("Authorization"), "proto": r.Proto, "header": r.Header})
}

// run is POST /v1/executions. The session is in a header.
func (o *one) run(w http.ResponseWriter, r *http.Request, body []byte) {
	sum := sha256.Sum256(body)
	q := replicas.Request{Owner: access.FromContext(r.Context()).Name, Key: r.Header.Get("Idempotency-Key"), Sum: sum[:], Session: r.Header.Get("Session"), Starts: true}
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(string(body))), nil }
	err := o.Do(w, r, q, func() error {
		if o.refuse != nil {
			if err := o.refuse(); err != nil {
				return err
			}
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		if q.Key != "" && o.keys[[2]string{q.Owner, q.Key}] != "" {
			json.NewEncoder(w).Encode(map[string]any{"by": o.Name})
			return nil
		}
		o.runs = append(o.runs, string(body))
		if q.Key != "" {
			o.keys[[2]string{q.Owner, q.Key}] = string(body)
		}
		if q.Session != "" && o.has[q.Session].Pod == "" {
			pod := "pod of " + o.Name
			o.has[q.Session] = replicas.Kept{Owner: q.Owner, Pod: pod}
			o.mu.Unlock()
			err := o.Record(r.Context(), q.Session, pod)
			o.mu.Lock()
			if err != nil {
				return err
			}
		}
		json.NewEncoder(w).Encode(map[string]any{"by": o.Name, "pod": o.has[q.Session].Pod})
		return nil
	})
	if err != nil {
		replicas.Refuse(w, err)
	}
}

func (o *one) Use(session string) func() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.uses[session]++
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.uses[session]--
	}
}

func (o *one) Idle(session string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.uses[session] == 0
}

// gets is a session that it has from now on.
func (o *one) gets(session string, k replicas.Kept) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.has[session] = k
}

func (o *one) Runs(session string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.busy == session
}

func (o *one) Known() (map[string]bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	known := map[string]bool{}
	for session := range o.has {
		known[session] = true
	}
	return known, nil
}

func (o *one) Owner(session string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.has[session].Owner
}

func (o *one) GiveUp(_ context.Context, session string) (replicas.Kept, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.gaveUp = append(o.gaveUp, session)
	k, there := o.has[session]
	if there {
		k.State = "as " + o.Name + " left it"
	}
	delete(o.has, session)
	return k, o.failed
}

func (o *one) TakeOver(ctx context.Context, session string, k replicas.Kept) error {
	if o.taking != nil {
		if err := o.taking(ctx); err != nil {
			return err
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.has[session] = k
	return nil
}

func (o *one) Knows(_ context.Context, id string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ids[id]
}

func (o *one) Asks(id string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.asks[id]
}

func (o *one) Keys() (all [][2]string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for key := range o.keys {
		all = append(all, key)
	}
	return all
}

func (o *one) KnowsKey(owner, key string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.keys[[2]string{owner, key}] != ""
}

// answer is what came back.
type answer struct {
	Status               int
	By, Asked, Body, As  string
	Pod, Code            string
	Executions, Sessions []map[string]any
	Unanswered           []string
	Proto                string
	Header               http.Header
}

// ask sends a request. Headers are NAME: VALUE.
func (o *one) ask(method, path, body string, headers ...string) (a answer, err error) {
	scheme, client := "http://", &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	if o.TLS != nil {
		scheme = "https://"
	}
	req, err := http.NewRequest(method, scheme+netip.AddrPortFrom(o.address, o.cluster.port).String()+path, strings.NewReader(body))
	if err != nil {
		return a, err
	}
	req.Header.Set("Authorization", "Bearer ann")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	got, err := client.Do(req)
	if err != nil {
		return a, err
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err == nil && len(text) > 0 {
		err = json.Unmarshal(text, &a)
	}
	a.Status = got.StatusCode
	return a, err
}

func (o *one) mustAsk(method, path, body string, headers ...string) answer {
	o.cluster.t.Helper()
	a, err := o.ask(method, path, body, headers...)
	if err != nil {
		o.cluster.t.Errorf("%s %s: %v", method, path, err)
	}
	return a
}
