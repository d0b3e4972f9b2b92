package kubernetes

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"belljar/internal/boxinit/wire"
	"belljar/sandbox"
	"belljar/sandbox/internal/boxlink"
	"belljar/sandbox/internal/kube"
)

// runningPod is a status of a pod whose init runs.
var runningPod = map[string]any{"phase": "Running", "containerStatuses": []any{map[string]any{"name": mainContainer, "state": map[string]any{"running": map[string]any{}}}}}

// makePod makes the pod of wantSpec.
func makePod(t *testing.T, e *Engine) *kube.Pod {
	t.Helper()
	pod, err := e.make(t.Context(), e.pod(wantSpec(), "lease"), wantSpec())
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

var podPath = kube.PodPath("ns", podName(wantSpec()))

// Whatever becomes of a watch, the pod's start, or its end, is seen; also an end of which no watch tells.
func TestWatchThatBreaks(t *testing.T) {
	const lost, ran = "another program deleted the pod", ""
	for name, c := range map[string]struct {
		fault func(a *api, w http.ResponseWriter, nth int) (answered bool)
		want  string
	}{
		"it runs before the watch":       {func(a *api, _ http.ResponseWriter, nth int) bool { a.run(nth == 1); return false }, ran},
		"it is deleted before the watch": {func(a *api, _ http.ResponseWriter, nth int) bool { a.endOnce(nth == 1); return false }, lost},
		"overload": {func(a *api, w http.ResponseWriter, nth int) bool {
			if nth < 3 {
				refuse(w, []int{0, 429, 503}[nth], "later")
				return true
			}
			a.run(nth == 3)
			return false
		}, ran},
		"it breaks, and it is deleted meanwhile": {func(a *api, _ http.ResponseWriter, nth int) bool {
			a.endOnce(nth == 2)
			if nth == 1 {
				panic(http.ErrAbortHandler)
			}
			return false
		}, lost},
		"too old, and it was deleted": {func(a *api, w http.ResponseWriter, nth int) bool {
			a.endOnce(nth == 1)
			io.WriteString(w, `{"type":"ERROR","object":{"kind":"Status","code":410}}`)
			return true
		}, lost},
		"too old, and it runs": {func(a *api, w http.ResponseWriter, nth int) bool {
			a.run(nth == 1)
			refuse(w, 410, "Expired")
			return true
		}, ran},
		"too old, and another has the name": {func(a *api, w http.ResponseWriter, _ int) bool {
			a.set(podPath, func(o *object) { o.Metadata.UID, o.Status = "another", runningPod })
			refuse(w, 410, "Expired")
			return true
		}, lost},
		"its node pulls too many images for a while": {func(a *api, _ http.ResponseWriter, _ int) bool {
			a.set(podPath, func(o *object) {
				json.Unmarshal([]byte(`{"containerStatuses":[{"name":"sandbox","state":{"waiting":{"reason":"ErrImagePull","message":"pull QPS exceeded"}}}]}`), &o.Status)
			})
			a.run(true)
			return false
		}, ran},
		"the API server restarts, and knows no one at first": {func(a *api, w http.ResponseWriter, nth int) bool {
			if nth < 3 {
				refuse(w, []int{0, 503, 403}[nth], "Forbidden")
				return true
			}
			a.run(true)
			return false
		}, ran},
		"refused": {func(_ *api, w http.ResponseWriter, _ int) bool { refuse(w, 403, "Forbidden"); return true }, "Forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, e := withAPI(t)
			pod := makePod(t, e)
			var nth atomic.Int64
			a.faulty(func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Query().Get("watch") == "" {
					return false
				}
				return c.fault(a, w, int(nth.Add(1)))
			})
			began := time.Now()
			_, err := e.awaitRunning(t.Context(), pod, wantSpec())
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Error(err)
			}
			if time.Since(began) > startTimeout/2 {
				t.Error("it waited for the time limit")
			}
		})
	}
}

func (a *api) run(really bool) {
	if really {
		a.set(podPath, func(o *object) { o.Status = runningPod })
	}
}

func (a *api) endOnce(really bool) {
	if really {
		a.end(podPath)
	}
}

// Refusals that do not pass in half a minute, and those of who never got another answer, stay.
func TestDenials(t *testing.T) {
	denied, other := &kube.StatusError{Code: 403}, &kube.StatusError{Code: 503}
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			before, then error
			after        time.Duration
			want         bool
		}{
			"from the first request on": {denied, denied, 0, false},
			"after another answer":      {nil, denied, 0, true},
			"after none":                {other, &kube.StatusError{Code: 401}, 0, true},
			"for long":                  {nil, denied, startingTime, false},
			"another answer":            {nil, other, 0, false},
		} {
			var d denials
			d.pass(c.before)
			d.pass(c.then)
			time.Sleep(c.after)
			if got := d.pass(c.then); got != c.want {
				t.Errorf("%s: it passes: %t", name, got)
			}
		}
		var d denials
		d.pass(nil)
		d.pass(denied)
		time.Sleep(startingTime)
		d.pass(other)
		if !d.pass(denied) {
			t.Error("one outage after another")
		}
	})
}

// What says when to try again is asked then, and not before; what it will never do is not asked again at once.
func TestOverloadedDelete(t *testing.T) {
	a, e := withAPI(t)
	pod := makePod(t, e)
	var at []time.Time
	a.faulty(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodDelete || len(at) == 2 {
			return false
		}
		at = append(at, time.Now())
		if len(at) == 1 {
			w.Header().Set("Retry-After", "1")
			refuse(w, 429, "TooManyRequests")
			return true
		}
		return false
	})
	if err := e.deleteOrDoom(t.Context(), pod.Metadata.Name, pod.Metadata.UID, 0); err != nil || len(at) != 2 || at[1].Sub(at[0]) < time.Second {
		t.Errorf("asked at %v, error %v", at, err)
	}
	asked := 0
	a.faulty(func(w http.ResponseWriter, _ *http.Request) bool {
		asked++
		refuse(w, 403, `User "u" cannot delete resource "pods"`)
		return true
	})
	if err := e.deleteOrDoom(t.Context(), "p", "u", 0); err == nil || asked != 1 || !strings.Contains(err.Error(), "docs/kubernetes.md has the rights") {
		t.Errorf("asked %d times, error %v", asked, err)
	}
	a.faulty(nil)
}

// broken is a link that is at its end.
func broken(t *testing.T) *link {
	t.Helper()
	ours, theirs := net.Pipe()
	theirs.Close()
	l := &link{Link: boxlink.Frames(ours)}
	l.Link.Close()
	return l
}

// How a session's pod ended is found out for what runs in it, also once the handle is closed that started that; and what was not
// known once is asked again for another connection.
func TestFateOfAClosedHandle(t *testing.T) {
	a, e := withAPI(t)
	b := newBox(e, e.record(wantSession(), makePod(t, e)))
	b.spec = wantSession()
	a.run(true)
	one, two := broken(t), broken(t)
	asked := make(chan struct{}, 1000)
	a.faulty(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet {
			asked <- struct{}{}
		}
		return false
	})
	found := make(chan error, 1)
	go func() {
		_, err := b.statusWithoutInit(one)
		found <- err
	}()
	<-asked
	b.Close()
	var evicted any
	json.Unmarshal([]byte(`{"phase":"Failed","reason":"Evicted","message":"low","containerStatuses":[{"name":"sandbox","state":{"terminated":{"exitCode":137}}}]}`), &evicted)
	a.set(podPath, func(o *object) { o.Status = evicted })
	if err := <-found; sandbox.CauseOf(err) != sandbox.CauseEngineLost || !strings.Contains(err.Error(), "Evicted: low") {
		t.Error(err)
	}
	other := newBox(e, b.record)
	other.ended, other.endedOf = &fate{}, one
	if _, err := other.statusWithoutInit(one); err == nil || strings.Contains(err.Error(), "Evicted") {
		t.Errorf("the same connection: %v", err)
	}
	if _, err := other.statusWithoutInit(two); err == nil || !strings.Contains(err.Error(), "Evicted") {
		t.Errorf("another connection: %v", err)
	}
	removed := newBox(e, b.record)
	a.run(true)
	go func() {
		status, err := removed.statusWithoutInit(one)
		if status != killed {
			t.Errorf("status %d, error %v", status, err)
		}
		found <- err
	}()
	<-asked
	removed.ending.Store(true)
	removed.remove()
	if err := <-found; err != nil {
		t.Error(err)
	}
}

// Once a bug: an API server that had too much to do was asked again at once how a pod ended.
func TestFateIsAskedLater(t *testing.T) {
	a, e := withAPI(t)
	b := newBox(e, e.record(wantSpec(), makePod(t, e)))
	defer b.Close()
	a.set(podPath, func(o *object) {
		json.Unmarshal([]byte(`{"containerStatuses":[{"name":"sandbox","state":{"terminated":{"exitCode":137,"reason":"OOMKilled"}}}]}`), &o.Status)
	})
	asked := make(chan time.Time, 100)
	a.faulty(func(w http.ResponseWriter, _ *http.Request) bool {
		first := len(asked) == 0
		asked <- time.Now()
		if first {
			w.Header().Set("Retry-After", "1")
			refuse(w, 429, "TooManyRequests")
		}
		return first
	})
	if f := b.askFate(); !f.oom || len(asked) != 2 || -(<-asked).Sub(<-asked) < time.Second {
		t.Errorf("%+v, asked %d times", f, len(asked))
	}
}

// Once a bug: a pod that ran was given up where its kubelet, or the API server, was restarting just as it was attached to.
func TestAttachingIsRefusedForAWhile(t *testing.T) {
	for name, c := range map[string]struct {
		refusals []int
		fault    func(a *api) // with the first refusal
		tries    int
		want     int
	}{
		"its kubelet restarts":      {[]int{502, 500}, func(*api) {}, 3, 0},
		"it is refused for good":    {[]int{403, 403}, func(*api) {}, 1, 403},
		"it ended meanwhile":        {[]int{500, 500}, func(a *api) { a.set(podPath, func(o *object) { o.Status = nil }) }, 1, 500},
		"it was deleted meanwhile":  {[]int{500, 500}, func(a *api) { a.end(podPath) }, 1, 500},
		"another has its name":      {[]int{500, 500}, func(a *api) { a.set(podPath, func(o *object) { o.Metadata.UID = "another" }) }, 1, 500},
		"its connection is cut off": {[]int{0, 0}, func(*api) {}, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			a, e := withAPI(t)
			pod := makePod(t, e)
			a.run(true)
			var tries atomic.Int32
			a.faulty(func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.HasSuffix(r.URL.Path, "/attach") {
					return false
				}
				nth := int(tries.Add(1))
				if nth > len(c.refusals) {
					return false
				}
				if c.fault(a); c.refusals[nth-1] == 0 {
					panic(http.ErrAbortHandler) // it may have been made
				}
				refuse(w, c.refusals[nth-1], "error dialing backend")
				return true
			})
			l, err := e.attach(t.Context(), pod.Metadata.Name, pod.Metadata.UID)
			if (err == nil) != (c.tries == 3) || kube.CodeOf(err) != c.want || int(tries.Load()) != c.tries {
				t.Errorf("%d tries, error %v", tries.Load(), err)
			}
			if err == nil {
				l.Release()
			}
		})
	}
	down := httptest.NewServer(http.NotFoundHandler())
	down.Close()
	answer, err := http.Get(down.URL)
	if err == nil {
		answer.Body.Close()
	}
	if !undialed(err) {
		t.Errorf("there was a connection: %v", err)
	}
}

// Once a bug: where a pod's node lost its power, a command seemed to run on, and then its connection just broke. A session's pod
// stays, and Kubernetes' own reason comes first.
func TestInitThatStopsAnswering(t *testing.T) {
	a, e := withAPI(t)
	e.askEach = 20 * time.Millisecond
	b := newBox(e, e.record(wantSession(), makePod(t, e)))
	defer b.Close()
	a.run(true)
	l, err := e.attach(t.Context(), b.record.Name, b.record.UID) // whose init answers no more than a hello
	if err != nil {
		t.Fatal(err)
	}
	b.use(l)
	select {
	case <-b.Lost():
	case <-time.After(10 * time.Second):
		t.Fatal("no one asks whether the init is there")
	}
	for want, known := range map[string]fate{
		"the pod's init stopped answering: the exit status is unknown (its node may be lost: kubectl get nodes": {},
		"the pod's node does not answer: the exit status is unknown (its node may be lost":                      {noNode: true},
		"as where memory ran out (partial output kept; run it again; raise limits.memory if it ends so again)":  {known: true, memory: true, reason: "Error, as where memory ran out"},
		"the pod ended while the command ran: Evicted: low":                                                     {known: true, reason: "Evicted: low"},
	} {
		b.ended, b.endedOf = &known, l
		if _, err := b.statusWithoutInit(l); sandbox.CauseOf(err) != sandbox.CauseEngineLost || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if len(a.names("pods")) != 1 {
		t.Error("the session's pod is gone")
	}
}

// Once a bug: of a pod that was evicted before a command began in it, belljar said that another program may have deleted it.
func TestEvictedBeforeTheCommand(t *testing.T) {
	a, e := withAPI(t)
	for status, want := range map[string]string{
		`{"phase":"Failed","reason":"Evicted","message":"low","containerStatuses":[{"name":"sandbox","state":{"terminated":{"exitCode":137}}}]}`: "the pod ended before the command started: Evicted: low (run the command again)",
		`{"phase":"Failed","containerStatuses":[{"name":"sandbox","state":{"terminated":{"exitCode":137,"reason":"OOMKilled"}}}]}`:               "started: its memory ran out, or its node's (run the command again, or raise",
		"": "the pod ended before the command started (another program may have deleted it",
	} {
		b := newBox(e, e.record(wantSpec(), makePod(t, e)))
		var evicted any
		if json.Unmarshal([]byte(status), &evicted) != nil {
			a.end(podPath)
		} else {
			a.set(podPath, func(o *object) { o.Status = evicted })
		}
		_, err := b.Exec(t.Context(), sandbox.Exec{Script: "true", Dir: "/", User: wantSpec().User})
		if sandbox.CauseOf(err) != sandbox.CauseEngineLost || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		b.Close()
		if len(a.names("pods")) > 0 {
			a.end(podPath)
		}
	}
}

// Once a bug: of a pod that ended just as a command started, belljar said only that the connection to its init broke.
func TestPodEndsAsTheCommandStarts(t *testing.T) {
	for status, want := range map[string]string{
		`{"phase":"Failed","containerStatuses":[{"name":"sandbox","state":{"terminated":{"exitCode":137,"reason":"OOMKilled"}}}]}`:               "its memory ran out, or its node's: it is unknown whether the command started (run the command again, or raise limits.memory)",
		`{"phase":"Failed","reason":"Evicted","message":"low","containerStatuses":[{"name":"sandbox","state":{"terminated":{"exitCode":137}}}]}`: "Evicted: low: it is unknown whether the command started (run the command again)",
	} {
		a, e := withAPI(t)
		a.inits = func(r wire.Request) (frames []byte, ends bool) {
			if r.Kind == wire.Start {
				a.set(podPath, func(o *object) { json.Unmarshal([]byte(status), &o.Status) })
			}
			return nil, r.Kind == wire.Start
		}
		b := newBox(e, e.record(wantSpec(), makePod(t, e)))
		a.run(true)
		l, err := e.attach(t.Context(), b.record.Name, b.record.UID)
		if err != nil {
			t.Fatal(err)
		}
		b.use(l)
		_, err = b.Exec(t.Context(), sandbox.Exec{Script: "true", Dir: "/", User: wantSpec().User})
		if sandbox.CauseOf(err) != sandbox.CauseEngineLost || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		b.Close()
	}
}
