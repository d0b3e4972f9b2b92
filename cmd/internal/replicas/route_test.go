package replicas_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"belljar/cmd/internal/replicas"
)

func TestIDs(t *testing.T) {
	var alone *replicas.Replicas
	if id := alone.NewID(); len(id) != 26 || replicas.OwnerOf(id) != "" {
		t.Errorf("%q", id)
	}
	c := newCluster(t, 1)
	if id := c.all[0].NewID(); replicas.OwnerOf(id) != c.all[0].Name {
		t.Errorf("%q of %q", id, c.all[0].Name)
	}
	for _, id := range []string{"", "build-abcdef", "01J00000000000000000000000-ABCDEF", "01J00000000000000000000000-abcde", "01J00000000000000000000000-abcdef7", "x01J00000000000000000000000-abcdef"} {
		if replicas.OwnerOf(id) != "" {
			t.Errorf("%q is a replica's", id)
		}
	}
}

// All about an execution is answered by its replica, with what the caller sent.
func TestExecutionsAreFound(t *testing.T) {
	c := newCluster(t, 3)
	a, b := c.all[0], c.all[1]
	id := b.NewID()
	for _, o := range c.all {
		got := o.mustAsk("POST", "/v1/executions/"+id+"/stdin?offset=3&eof=true", "what is typed", "Authorization: Bearer ben")
		got.Proto, got.Header = "", nil
		want := answer{Status: 200, By: b.Name, Asked: "POST /v1/executions/" + id + "/stdin?offset=3&eof=true", Body: "what is typed", As: "Bearer ben"}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%+v, want %+v", got, want)
		}
		if got := o.mustAsk("POST", "/v1/approvals/"+id, "{}"); got.By != b.Name {
			t.Errorf("an approval: %+v", got)
		}
	}
	if own := a.NewID(); a.mustAsk("GET", "/v1/executions/"+own, "").By != a.Name {
		t.Error("its own is sent on")
	}
}

// An ID that a caller chose says nothing: who has it is asked for.
func TestChosenIDs(t *testing.T) {
	c := newCluster(t, 3)
	c.all[2].ids["mine"] = true
	for range 2 {
		if got := c.all[0].mustAsk("DELETE", "/v1/executions/mine", ""); got.By != c.all[2].Name {
			t.Errorf("%+v", got)
		}
	}
	c.all[1].handle = func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(map[string]any{"approvals": []map[string]any{{"id": "asked"}}, "by": c.all[1].Name})
	}
	if got := c.all[0].mustAsk("POST", "/v1/approvals/asked", "{}"); got.By != c.all[1].Name {
		t.Errorf("a question: %+v", got)
	}
	c.all[1].handle = nil
	if got := c.all[0].mustAsk("GET", "/v1/executions/other", ""); got.Status != 404 {
		t.Errorf("%+v", got)
	}
	if got := c.all[0].mustAsk("GET", "/v1/executions/%ff%2e", ""); got.Status != 404 {
		t.Errorf("%+v", got)
	}
}

// A request is sent on once, whoever says that it was.
func TestNoLoops(t *testing.T) {
	c := newCluster(t, 2)
	a, b := c.all[0], c.all[1]
	got := a.mustAsk("GET", "/v1/executions/"+b.NewID(), "", b.Mark())
	if got.By != a.Name || len(b.hits) != 0 {
		t.Errorf("%+v", got)
	}
	for _, path := range []string{"/v1/sessions/dev", "/v1/sessions/dev/files/x"} {
		b.mustAsk("POST", "/v1/executions", "x", "Session: dev")
		if got := a.mustAsk("GET", path, "", b.Mark()); got.Status != 421 {
			t.Errorf("%+v", got)
		}
	}
}

// Once a bug: a caller could say that its request comes from a replica, and its idempotency key was looked for nowhere else.
func TestForgedMark(t *testing.T) {
	c := newCluster(t, 2)
	a, b := c.all[0], c.all[1]
	_, proof, _ := strings.Cut(a.Mark(), a.Name)
	for _, mark := range []string{b.Name, b.Name + " ", b.Name + " x", b.Name + proof, "other " + proof, " " + proof, "x"} {
		for _, path := range []string{"/v1/executions", "/v1/sessions", "/v1/sessions/dev/hand-over"} {
			if got := a.mustAsk("POST", path, "{}", "Belljar-Replica: "+mark, "Idempotency-Key: k"); got.Status != 421 || got.Code != "misdirected" {
				t.Errorf("%q: %+v", mark, got)
			}
		}
	}
	late := c.add() // which the others have not heard of
	if got := a.mustAsk("GET", "/v1/executions", "", late.Mark()); got.By != a.Name {
		t.Errorf("a new replica: %+v", got)
	}
	if len(a.runs) > 0 {
		t.Errorf("it ran %q", a.runs)
	}
}

func TestOwnerGone(t *testing.T) {
	c := newCluster(t, 2)
	a, b := c.all[0], c.all[1]
	id := b.NewID()
	b.die()
	if err := a.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, of := range []string{id, "01J00000000000000000000000-abcdef"} {
		if got := a.mustAsk("GET", "/v1/executions/"+of, ""); got.Status != 410 || got.Code != "gone" {
			t.Errorf("%+v", got)
		}
	}
}

func TestOwnerDoesNotAnswer(t *testing.T) {
	c := newCluster(t, 2)
	a, b := c.all[0], c.all[1]
	b.Listener.Close() // its Lease goes on
	if got := a.mustAsk("GET", "/v1/executions/"+b.NewID(), ""); got.Status != 503 || got.Code != "unavailable" {
		t.Errorf("%+v", got)
	}
	// Without the API server those who were there count, and others are not said to be gone.
	c.change(func(map[string]replicas.Entry) { c.down = errors.New("down") })
	if got := a.mustAsk("GET", "/v1/executions/01J00000000000000000000000-abcdef", ""); got.Status != 503 {
		t.Errorf("%+v", got)
	}
	c.change(func(map[string]replicas.Entry) { c.down = nil })
}

// Who waits for an answer gets one when the replica ends, even if its connection stays.
func TestOwnerEndsWhileItIsAsked(t *testing.T) {
	c := newCluster(t, 2)
	a, b := c.all[0], c.all[1]
	asked, end := make(chan struct{}), make(chan struct{})
	b.handle = func(http.ResponseWriter, *http.Request) { close(asked); <-end }
	answered := make(chan answer)
	go func() { answered <- a.mustAsk("GET", "/v1/executions/"+b.NewID()+"?wait=60", "") }()
	<-asked
	c.change(func(all map[string]replicas.Entry) { delete(all, "belljar-replica-"+b.Name) })
	if err := a.Look(t.Context()); err != nil {
		t.Error(err)
	}
	if got := <-answered; got.Status != 410 {
		t.Errorf("%+v", got)
	}
	close(end)
}

// A connection that breaks after the request went out tells nothing: it is not sent again.
func TestBrokenAnswer(t *testing.T) {
	c := newCluster(t, 2)
	a, b := c.all[0], c.all[1]
	b.handle = func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	for _, method := range []string{"GET", "POST"} {
		if got, err := a.ask(method, "/v1/executions/"+b.NewID(), "x"); err == nil {
			t.Errorf("%+v", got)
		}
	}
	if n := len(b.hits); n != 2 {
		t.Errorf("%d requests", n)
	}
}

// What a Lease says may be anyone's: no request goes elsewhere than to a replica's port.
func TestHostileLeases(t *testing.T) {
	c := newCluster(t, 2)
	a, b := c.all[0], c.all[1]
	for i, address := range []string{
		"", "169.254.169.254", "0.0.0.0", "::", "224.0.0.1", "10.0.0.1", "fe80::1", "127.0.7.2:22", "http://127.0.7.2", "evil.example", "127.0.7.2/x", "::ffff:169.254.169.254", "::1%eth0", a.address.String(),
	} {
		name := fmt.Sprintf("belljar-replica-abcde%c", 'a'+i)
		c.change(func(all map[string]replicas.Entry) {
			all[name] = replicas.Entry{Kind: "replica", Name: name, Holder: "x", Lives: true, Values: map[string]string{"address": address}}
		})
	}
	for _, name := range []string{"belljar-replica-", "belljar-replica-../../x", "x", "belljar-session-abcdef", "belljar-replica-ABCDEF"} {
		c.change(func(all map[string]replicas.Entry) {
			all[name] = replicas.Entry{Kind: "replica", Name: name, Holder: "x", Lives: true, Values: map[string]string{"address": "127.0.7.9"}}
		})
	}
	if err := a.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := a.Peers(), []string{fmt.Sprintf("%s %s:%d", b.Name, b.address, c.port)}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A list is that of all, the newest first, and says who did not answer.
func TestLists(t *testing.T) {
	c := newCluster(t, 3)
	for i, o := range c.all {
		o.handle = func(w http.ResponseWriter, _ *http.Request) {
			json.NewEncoder(w).Encode(map[string]any{"executions": []map[string]any{
				{"id": fmt.Sprint("new", i), "started": fmt.Sprintf("2026-01-02T00:00:0%dZ", i)}, {"id": fmt.Sprint("old", i), "started": fmt.Sprintf("2026-01-01T00:00:0%dZ", i)},
			}})
		}
	}
	ids := func(query string) (ids []string, unanswered []string) {
		got := c.all[1].mustAsk("GET", "/v1/executions"+query, "")
		for _, x := range got.Executions {
			ids = append(ids, x["id"].(string))
		}
		return ids, got.Unanswered
	}
	if got, missing := ids(""); !slices.Equal(got, []string{"new2", "new1", "new0", "old2", "old1", "old0"}) || missing != nil {
		t.Errorf("%q, %q", got, missing)
	}
	if got, _ := ids("?limit=2"); !slices.Equal(got, []string{"new2", "new1"}) {
		t.Errorf("%q", got)
	}
	c.all[0].handle = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }
	c.all[2].Listener.Close()
	want := []string{c.all[0].Name, c.all[2].Name}
	slices.Sort(want)
	if got, missing := ids(""); !slices.Equal(got, []string{"new1", "old1"}) || !slices.Equal(missing, want) {
		t.Errorf("%q, %q", got, missing)
	}
}

// A replica is who has the certificate: a token goes to no other.
func TestOtherCertificate(t *testing.T) {
	c := newCluster(t, 0)
	trusted := x509.NewCertPool()
	secure := func(config *replicas.Config) {
		config.Secure = func() (*tls.Config, error) { return &tls.Config{RootCAs: trusted, ServerName: "example.com"}, nil }
	}
	a, b := c.add(secure), c.add(secure)
	c.meet()
	if got := a.mustAsk("GET", "/v1/executions/"+b.NewID(), ""); got.Status != 503 || len(b.hits) != 0 {
		t.Errorf("%+v", got)
	}
	trusted.AddCert(b.Certificate())
	if got := a.mustAsk("GET", "/v1/executions/"+b.NewID(), ""); got.By != b.Name {
		t.Errorf("%+v", got)
	}
}

// Once a bug: a caller's request for a hand-over was sent on as one of this replica's.
func TestHandOverIsNotForCallers(t *testing.T) {
	c := newCluster(t, 2)
	a, b := c.all[0], c.all[1]
	a.mustAsk("POST", "/v1/executions", "x", "Session: dev")
	b.mustAsk("POST", "/v1/sessions/dev/hand-over", "")
	select {
	case asked := <-b.hits: // whose API does not know it
		if asked != "POST /v1/sessions/dev/hand-over" {
			t.Error(asked)
		}
	default:
		t.Error("it was sent on")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.gaveUp) > 0 {
		t.Errorf("gave up %q", a.gaveUp)
	}
}
