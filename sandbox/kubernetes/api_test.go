package kubernetes

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"belljar/internal/boxinit/wire"
	"belljar/sandbox/internal/kube"

	"github.com/coder/websocket"
)

// object is what the API server keeps of pods and leases alike.
type object struct {
	Metadata kube.Meta `json:"metadata"`
	Spec     any       `json:"spec"`
	Status   any       `json:"status,omitempty"`
}

// event is what a watch tells, in the order of the versions.
type event struct {
	Type   string `json:"type"`
	Object object `json:"object"`
	path   string
}

// api is an API server in memory, as far as versions and preconditions go.
type api struct {
	// fault answers a request instead, if it says so; a request may be let through, and its answer be lost: see lose.
	fault func(w http.ResponseWriter, r *http.Request) (answered bool)
	// inits is what a pod's init does with a request that is no hello, nil for nothing: it answers with frames, and may end.
	inits func(r wire.Request) (frames []byte, ends bool)

	mu      sync.Mutex
	all     map[string]object // by their paths
	version int
	events  []event
	grown   chan struct{} // closed with the next event
	asked   []string
}

// withAPI is an engine of one.
func withAPI(t *testing.T, change ...func(*Config)) (*api, *Engine) {
	t.Helper()
	a := &api{all: map[string]object{}, grown: make(chan struct{})}
	return a, behind(t, a.serve, change...)
}

func (a *api) serve(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.asked = append(a.asked, r.Method+" "+r.URL.Path)
	fault := a.fault
	a.mu.Unlock()
	if fault != nil && fault(w, r) {
		return
	}
	a.do(w, r)
}

func refuse(w http.ResponseWriter, code int, reason string) {
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(map[string]string{"kind": "Status", "reason": reason, "message": reason})
}

// do does what a request asks for.
func (a *api) do(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	if strings.HasSuffix(path, "/attach") {
		a.attach(w, r)
		return
	}
	if r.URL.Query().Get("watch") != "" {
		a.watch(w, r)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	there, exists := a.all[path]
	switch r.Method {
	case http.MethodPost:
		var o object
		json.NewDecoder(r.Body).Decode(&o)
		path += "/" + o.Metadata.Name
		if _, exists := a.all[path]; exists {
			refuse(w, 409, reasonExists)
			return
		}
		o.Metadata.UID = fmt.Sprint("uid-", a.version+1)
		json.NewEncoder(w).Encode(a.putLocked("ADDED", path, o))
	case http.MethodPut:
		var o object
		json.NewDecoder(r.Body).Decode(&o)
		if o.Metadata.UID != "" && o.Metadata.UID != there.Metadata.UID || exists && o.Metadata.ResourceVersion != there.Metadata.ResourceVersion {
			refuse(w, 409, "Conflict")
			return
		}
		o.Metadata.UID = there.Metadata.UID
		json.NewEncoder(w).Encode(a.putLocked("MODIFIED", path, o))
	case http.MethodDelete:
		var o struct{ Preconditions kube.Meta }
		json.NewDecoder(r.Body).Decode(&o)
		is := o.Preconditions
		switch {
		case !exists:
			refuse(w, 404, "NotFound")
		case is.UID != "" && is.UID != there.Metadata.UID, is.ResourceVersion != "" && is.ResourceVersion != there.Metadata.ResourceVersion:
			refuse(w, 409, "Conflict")
		default:
			delete(a.all, path)
			a.tellLocked("DELETED", path, there)
		}
	default:
		if list := strings.HasSuffix(path, "/pods") || strings.HasSuffix(path, "/leases"); list {
			items := []object{}
			for _, name := range slices.Sorted(maps.Keys(a.all)) {
				if strings.HasPrefix(name, path+"/") {
					items = append(items, a.all[name])
				}
			}
			json.NewEncoder(w).Encode(map[string]any{"items": items})
			return
		}
		if !exists {
			refuse(w, 404, "NotFound")
			return
		}
		json.NewEncoder(w).Encode(there)
	}
}

func (a *api) putLocked(kind, path string, o object) object {
	o = a.tellLocked(kind, path, o)
	a.all[path] = o
	return o
}

func (a *api) tellLocked(kind, path string, o object) object {
	a.version++
	o.Metadata.ResourceVersion = strconv.Itoa(a.version)
	a.events = append(a.events, event{kind, o, path})
	close(a.grown)
	a.grown = make(chan struct{})
	return o
}

// watch tells what comes after a version.
func (a *api) watch(w http.ResponseWriter, r *http.Request) {
	after, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	_, name, _ := strings.Cut(r.URL.Query().Get("fieldSelector"), "=")
	w.(http.Flusher).Flush()
	for seen := 0; ; {
		a.mu.Lock()
		events, grown := slices.Clone(a.events[seen:]), a.grown
		seen = len(a.events)
		a.mu.Unlock()
		for _, e := range events {
			if version, _ := strconv.Atoi(e.Object.Metadata.ResourceVersion); version > after && e.path == r.URL.Path+"/"+name {
				json.NewEncoder(w).Encode(e)
				w.(http.Flusher).Flush()
			}
		}
		select {
		case <-grown:
		case <-r.Context().Done():
			return
		}
	}
}

// attach connects to an init that answers a hello, and what inits says.
func (a *api) attach(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"v5.channel.k8s.io"}})
	if err != nil {
		return
	}
	defer conn.CloseNow()
	for lines := (wire.Lines{}); ; {
		_, text, err := conn.Read(r.Context())
		if err != nil {
			return
		}
		for request, rest, ok := lines.Feed(text[1:]); ok; request, rest, ok = lines.Feed(rest) {
			answer, ends := []byte("\x01"), false // on stdout
			if request.Kind == wire.Hello {
				answer = append(append(answer, wire.Marker...), request.Body...)
				answer = wire.AppendFrame(answer, wire.Welcome, request.ID, wire.AppendUint32(nil, wire.Version))
			} else if a.inits != nil {
				var frames []byte
				frames, ends = a.inits(request)
				answer = append(answer, frames...)
			}
			if len(answer) > 1 {
				conn.Write(r.Context(), websocket.MessageBinary, answer)
			}
			if ends {
				return
			}
		}
	}
}

// lose lets a request through and breaks the connection instead of answering.
func (a *api) lose(r *http.Request) {
	a.do(discarded{}, r)
	panic(http.ErrAbortHandler)
}

type discarded struct{}

func (discarded) Header() http.Header         { return http.Header{} }
func (discarded) Write(p []byte) (int, error) { return len(p), nil }
func (discarded) WriteHeader(int)             {}

// set is what another program does to an object.
func (a *api) set(path string, change func(o *object)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	o := a.all[path]
	change(&o)
	a.putLocked("MODIFIED", path, o)
}

// end is another program that deletes it.
func (a *api) end(path string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	o := a.all[path]
	delete(a.all, path)
	a.tellLocked("DELETED", path, o)
}

// faulty has requests answered by that from now on.
func (a *api) faulty(fault func(w http.ResponseWriter, r *http.Request) (answered bool)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fault = fault
}

// names are those of what there is of a kind: pods or leases.
func (a *api) names(kind string) (names []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, path := range slices.Sorted(maps.Keys(a.all)) {
		if _, name, is := strings.Cut(path, "/"+kind+"/"); is {
			names = append(names, name)
		}
	}
	return names
}

// lease is the one of that name, and whether there is one.
func (a *api) lease(name string) (l kube.Lease, exists bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	o, exists := a.all[kube.LeasePath("ns", name)]
	text, _ := json.Marshal(o)
	json.Unmarshal(text, &l)
	return l, exists
}

// until waits until something is so.
func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	for range 2000 {
		if so() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("%s: not after 10 s", what)
}
