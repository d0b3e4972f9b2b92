package kubernetes

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"belljar/sandbox/internal/kube"
)

// newWaiting is a container of a pool.
func newWaiting(e *Engine) *box {
	b := newBox(e, record{})
	b.spec.Pool = "default"
	return b
}

// What waits for a command leaves a node once that is cordoned, and does not wait on one that is; also where the watch of nodes breaks, or
// what it tells was before.
func TestCordons(t *testing.T) {
	a, e := withAPI(t)
	events, asked := make(chan string), make(chan string, 10)
	a.faulty(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/api/v1/nodes" {
			return false
		}
		asked <- r.URL.Query().Get("fieldSelector") + " " + r.URL.Query().Get("resourceVersion")
		w.(http.Flusher).Flush()
		for {
			select {
			case text := <-events:
				if text == "" {
					return true // as each watch ends
				}
				fmt.Fprintln(w, text)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return true
			}
		}
	})
	tell := func(kind, node string) {
		events <- fmt.Sprintf(`{"type":%q,"object":{"metadata":{"name":%q}}}`, kind, node)
	}
	wait := func(node string) *box {
		b := newWaiting(e)
		b.node = node
		t.Cleanup(func() { b.Close() })
		e.waits(b)
		return b
	}
	is := func(node string) bool {
		e.cordons.mu.Lock()
		defer e.cordons.mu.Unlock()
		return e.cordons.nodes[node]
	}
	one, two := wait("one"), wait("two")
	if got := <-asked; got != "spec.unschedulable=true 0" {
		t.Errorf("asked for %q", got)
	}
	tell("ADDED", "one")
	<-one.Unwanted()
	if late := wait("one"); !isClosed(late.Unwanted()) {
		t.Error("it waits on a node that is cordoned")
	}
	tell("MODIFIED", "one")
	tell("DELETED", "one")
	until(t, "it is cordoned no more", func() bool { return !is("one") })
	if again := wait("one"); isClosed(again.Unwanted()) || isClosed(two.Unwanted()) {
		t.Error("no node is cordoned any more")
	}

	tell("ADDED", "three")
	until(t, "it is cordoned", func() bool { return is("three") })
	events <- "" // and it is let go before the next watch
	if got := <-asked; got != "spec.unschedulable=true 0" {
		t.Errorf("asked for %q", got)
	}
	if is("three") {
		t.Error("it is still cordoned")
	}
	tell("ADDED", "two")
	<-two.Unwanted()

	closed := wait("four")
	closed.Close()
	until(t, "what is closed waits no more", func() bool {
		e.cordons.mu.Lock()
		defer e.cordons.mu.Unlock()
		return !e.cordons.waiting[closed]
	})
}

// Pods that come to nodes that are cordoned stay there: the next one could come to the same node.
func TestCordonsAreTolerated(t *testing.T) {
	for toleration, stays := range map[Toleration]bool{
		{Operator: "Exists"}: true, {Key: "node.kubernetes.io/unschedulable", Operator: "Exists", Effect: "NoSchedule"}: true,
		{Operator: "Exists", Effect: "NoExecute"}: false, {Key: "gpu", Operator: "Exists"}: false,
	} {
		a, e := withAPI(t, func(c *Config) { c.Pods.Tolerations = []Toleration{toleration} })
		a.faulty(func(w http.ResponseWriter, _ *http.Request) bool {
			fmt.Fprintln(w, `{"type":"ADDED","object":{"metadata":{"name":"one"}}}`)
			w.(http.Flusher).Flush()
			time.Sleep(watchPause)
			return true
		})
		b := newWaiting(e)
		b.node = "one"
		e.waits(b)
		select {
		case <-b.Unwanted():
			if stays {
				t.Errorf("%+v: it leaves", toleration)
			}
		case <-time.After(5 * watchPause):
			if !stays {
				t.Errorf("%+v: it stays", toleration)
			}
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Once a bug: one refusal, as of an API server that has just started, kept this process from seeing cordons for five minutes.
func TestCordonsAfterARestart(t *testing.T) {
	denied := &kube.StatusError{Code: 403}
	if a, b, c := cordonPauseAfter(nil, 0), cordonPauseAfter(denied, 1), cordonPauseAfter(denied, maxDenials); a != watchPause || b != cordonPause || c != cordonPauseLong {
		t.Errorf("%v, %v, %v", a, b, c)
	}
}

// Who may not watch nodes does not ask all the time.
func TestCordonsAreNotShown(t *testing.T) {
	a, e := withAPI(t)
	asked := make(chan struct{}, 100)
	a.faulty(func(w http.ResponseWriter, _ *http.Request) bool {
		asked <- struct{}{}
		refuse(w, 403, "Forbidden")
		return true
	})
	b := newWaiting(e)
	e.waits(b)
	<-asked
	time.Sleep(5 * watchPause)
	if len(asked) > 0 || isClosed(b.Unwanted()) {
		t.Errorf("asked %d times more", len(asked))
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}
