package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/kube"
)

func TestOutage(t *testing.T) {
	down, taken := &kube.StatusError{Code: 503}, &kube.StatusError{Code: 409}
	type write struct {
		after time.Duration
		err   error
	}
	for name, c := range map[string]struct {
		writes []write
		is     bool
		over   time.Duration // 0 for at once
	}{
		"none":                       {},
		"all is well":                {[]write{{time.Hour, nil}, {time.Hour, nil}}, false, 0},
		"it fails once":              {[]write{{0, nil}, {10 * time.Second, down}, {10 * time.Second, nil}}, false, 0},
		"it goes on":                 {[]write{{0, nil}, {10 * time.Second, down}, {25 * time.Second, down}}, true, time.Hour},
		"it is over":                 {[]write{{0, nil}, {10 * time.Second, down}, {10 * time.Second, errors.New("refused")}, {10 * time.Second, nil}}, true, 20 * time.Second},
		"a refusal is an answer":     {[]write{{0, down}, {10 * time.Second, taken}, {10 * time.Second, down}, {10 * time.Second, nil}}, false, 0},
		"it is over by a refusal":    {[]write{{0, down}, {30 * time.Second, taken}}, true, 20 * time.Second},
		"it fails again soon":        {[]write{{0, down}, {30 * time.Second, nil}, {5 * time.Second, down}}, true, time.Hour},
		"the next one after a while": {[]write{{0, down}, {30 * time.Second, nil}, {30 * time.Second, nil}}, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var o outage
				for _, w := range c.writes {
					time.Sleep(w.after)
					o.note(time.Now(), w.err)
				}
				if o.is() != c.is {
					t.Fatalf("it is one: %t", !c.is)
				}
				if c.over != 0 && c.over < time.Hour {
					time.Sleep(c.over - time.Second)
					if !o.is() {
						t.Error("it is over too early")
					}
					time.Sleep(time.Second)
					if o.is() {
						t.Error("it does not end")
					}
				}
			})
		})
	}
}

// ended makes a lease, or a pod, that of a process elsewhere which did not renew its lease for an hour.
func ended(o *object) {
	o.Metadata.Annotations = map[string]string{noteMaker: "another"}
	if _, lease := o.Spec.(map[string]any)["leaseDurationSeconds"]; lease {
		o.Spec = kube.LeaseSpec{HolderIdentity: "elsewhere 1 x", LeaseDurationSeconds: 40, RenewTime: kube.MicroTime(time.Now().Add(-time.Hour))}
	}
}

// Once a bug: after the API server's store was away, who renewed its lease first took all others for ended, and deleted their pods.
func TestOutageSparesPods(t *testing.T) {
	a, e := withAPI(t)
	held := mustTake(t, e, "u")
	if err := e.client.Create(t.Context(), kube.PodsPath("ns"), kube.Pod{Metadata: kube.Meta{Name: "p", Labels: map[string]string{labelOwner: held.name}, Annotations: map[string]string{noteMaker: "another"}}}, nil); err != nil {
		t.Fatal(err)
	}
	a.set(held.path(), ended)
	e.outage.since = time.Now().Add(-outageLeast)                                                // all writes of leases failed for that long
	if _, err := e.Shared("").Update(t.Context(), Entry{Kind: "key", Name: "key"}); err != nil { // now it answers again
		t.Fatal(err)
	}
	if n, err := e.Sweep(t.Context()); n != 0 || err != nil || !slices.Equal(a.names("pods"), []string{"p"}) || len(a.names("leases")) != 2 {
		t.Errorf("swept %d, error %v; left %v, %v", n, err, a.names("pods"), a.names("leases"))
	}
	e.outage.mu.Lock()
	e.outage.until = time.Now()
	e.outage.mu.Unlock()
	if n, err := e.Sweep(t.Context()); n != 0 || err != nil || len(a.names("leases")) != 2 { // a process that began a moment ago knows of none
		t.Errorf("swept %d, error %v; left %v, %v", n, err, a.names("pods"), a.names("leases"))
	}
	e.opened = time.Now().Add(-outageGrace)
	if n, err := e.Sweep(t.Context()); n != 1 || err != nil || len(a.names("pods")) != 0 || !slices.Equal(a.names("leases"), []string{"key"}) {
		t.Errorf("swept %d, error %v; left %v, %v", n, err, a.names("pods"), a.names("leases"))
	}
}

// Once a bug: after such an outage, a process that had just started took a session from one that was attached to it still.
func TestOutageSparesSessions(t *testing.T) {
	made := time.Now().Add(-outageGrace - time.Second)
	for name, c := range map[string]struct {
		before func(e *Engine, a *api)
		taken  bool
	}{
		"nothing is known": {func(*Engine, *api) {}, false},
		"it began before":  {func(e *Engine, _ *api) { e.opened = time.Now().Add(-outageGrace) }, true},
		"its holder has ended here": {func(e *Engine, a *api) {
			a.set(kube.LeasePath("ns", holdPrefix+"u"), func(o *object) {
				o.Spec = kube.LeaseSpec{HolderIdentity: e.owner.Host + " 1@0 x", LeaseDurationSeconds: 40, RenewTime: kube.MicroTime(time.Now())}
			})
		}, true},
		"another was made since": {func(_ *Engine, a *api) {
			a.set(kube.LeasePath("ns", "other"), func(o *object) {
				other(o)
				o.Metadata.Labels, o.Metadata.CreationTimestamp = map[string]string{labelManaged: managedBy}, &made
			})
		}, true},
		"another was renewed just now": {func(_ *Engine, a *api) {
			a.set(kube.LeasePath("ns", "other"), func(o *object) {
				other(o)
				o.Metadata.Labels = map[string]string{labelManaged: managedBy}
			})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			a, e := withAPI(t)
			a.set(kube.PodPath("ns", "p"), func(o *object) { o.Metadata.UID, o.Status = "u", runningPod })
			kept := record{UID: "u", Name: "p", Session: "s", Server: e.Host(), Namespace: "ns"}
			if err := e.records.add(e, kept); err != nil {
				t.Fatal(err)
			}
			mustTake(t, e, "u")
			a.set(kube.LeasePath("ns", holdPrefix+"u"), ended)
			c.before(e, a)
			limit := 50 * time.Millisecond
			if c.taken {
				limit = 10 * time.Second
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			if e.leases.awaitFree(ctx, "u"); (ctx.Err() == nil) != c.taken {
				t.Errorf("it is waited for: %t", c.taken)
			}
			box, err := e.Adopt(ctx, kept.kept())
			if c.taken && err != nil || !c.taken && sandbox.CauseOf(err) != sandbox.CauseBusy {
				t.Error(err)
			}
			if err == nil {
				box.Close()
				return
			}
			soon, cancel := context.WithTimeout(t.Context(), outageGrace/2)
			defer cancel()
			if _, err := e.Adopt(soon, kept.kept()); sandbox.CauseOf(err) != sandbox.CauseBusy || soon.Err() != nil {
				t.Errorf("it is waited for in vain: %v", err)
			}
			time.AfterFunc(uncertainPause/2, func() { a.set(kube.LeasePath("ns", holdPrefix+"u"), other) }) // it lives
			if _, err := e.Adopt(t.Context(), kept.kept()); sandbox.CauseOf(err) != sandbox.CauseBusy {
				t.Errorf("it is taken from who uses it: %v", err)
			}
			a.set(kube.LeasePath("ns", holdPrefix+"u"), func(o *object) { // it does not
				o.Spec = kube.LeaseSpec{HolderIdentity: "elsewhere 1 x", LeaseDurationSeconds: 40, RenewTime: kube.MicroTime(time.Now().Add(-time.Hour))}
			})
			e.opened = time.Now().Add(uncertainPause/2 - outageGrace)
			box, err = e.Adopt(t.Context(), kept.kept())
			if err != nil {
				t.Fatal(err)
			}
			box.Close()
		})
	}
}

// Once a bug: after such an outage, a replica that had just started took all others for ended.
func TestOutageSparesReplicas(t *testing.T) {
	a, e := withAPI(t)
	shared := e.Shared("")
	if _, err := shared.Create(t.Context(), Entry{Kind: "replica", Name: "r", Holder: "elsewhere 1 x", For: leaseFor}); err != nil {
		t.Fatal(err)
	}
	a.set(kube.LeasePath("ns", "r"), func(o *object) {
		o.Spec = kube.LeaseSpec{HolderIdentity: "elsewhere 1 x", LeaseDurationSeconds: 40, RenewTime: kube.MicroTime(time.Now().Add(-time.Hour))}
	})
	for _, want := range []bool{true, false} {
		list, err := shared.List(t.Context(), "replica")
		if err != nil || len(list) != 1 || list[0].Lives != want {
			t.Errorf("%+v, error %v; it lives: %t", list, err, want)
		}
		e.opened = time.Now().Add(-outageGrace)
	}
}

// Once a bug: where this machine's clock was set, or was wrong and the API server's not known yet, a lease seemed to have ended until it was
// renewed again, or to live on for long.
func TestLeasesHaveTheServersTime(t *testing.T) {
	a, e := withAPI(t)
	var ahead atomic.Int64
	a.faulty(func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Date", time.Now().Add(time.Duration(ahead.Load())).UTC().Format(http.TimeFormat))
		return false
	})
	right := func(what, name string) {
		t.Helper()
		l, _ := a.lease(name)
		renewed, err := l.Spec.Renewed()
		if wrong := time.Until(renewed) - time.Duration(ahead.Load()); err != nil || wrong.Abs() > time.Minute {
			t.Errorf("%s: wrong by %v, error %v", what, wrong, err)
		}
	}
	shared := e.Shared("")
	ahead.Store(int64(-time.Hour))
	made, err := shared.Create(t.Context(), Entry{Kind: "replica", Name: "replica", For: leaseFor})
	right("an entry that is made", "replica")
	if err != nil || !made.Lives {
		t.Errorf("%+v, error %v", made, err)
	}
	ahead.Store(int64(time.Hour))
	now, err := shared.Update(t.Context(), made)
	right("an entry that is renewed", "replica")
	if err != nil || !now.Lives {
		t.Errorf("%+v, error %v", now, err)
	}
	ahead.Store(0)
	held := mustTake(t, e, "u")
	right("a lease that is taken", held.name)
	ahead.Store(int64(time.Hour))
	if !held.renew(t.Context()) {
		t.Error("it is lost")
	}
	right("a lease that is renewed", held.name)
	a.set(held.path(), ended)
	ahead.Store(0)
	e.opened = time.Now().Add(-outageGrace)
	mustTake(t, e, "u")
	right("a lease that is taken over", held.name)
}

// What only has belljar's label is not belljar's: it is neither listed nor swept.
func TestForeignObjectsAreLeft(t *testing.T) {
	a, e := withAPI(t)
	is := kube.Meta{Labels: map[string]string{labelManaged: managedBy}}
	is.Name = "pod"
	if err := e.client.Create(t.Context(), kube.PodsPath("ns"), kube.Pod{Metadata: is}, nil); err != nil {
		t.Fatal(err)
	}
	is.Name = "lease"
	if err := e.client.Create(t.Context(), kube.LeasesPath("ns"), kube.Lease{Metadata: is}, nil); err != nil {
		t.Fatal(err)
	}
	if list, err := e.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("%+v, error %v", list, err)
	}
	if n, err := e.Sweep(t.Context()); n != 0 || err != nil || len(a.names("pods")) != 1 || len(a.names("leases")) != 1 {
		t.Errorf("swept %d, error %v; left %v, %v", n, err, a.names("pods"), a.names("leases"))
	}
}

// What is asked of a pod that has ended says no more than that.
func TestListOfAnEndedPod(t *testing.T) {
	_, e := withAPI(t)
	b := newBox(e, record{UID: "u", Name: "p"})
	defer b.Close()
	if _, err := b.Processes(t.Context()); err == nil || err.Error() != "the pod has ended" {
		t.Error(err)
	}
}

// Once a bug: what a pod waited for before an outage of the API server was told as why it did not run.
func TestOutageWhileAPodStarts(t *testing.T) {
	const noSandbox = `{"conditions":[{"type":"PodReadyToStartContainers","status":"False"}]}`
	for name, c := range map[string]struct {
		after string // what becomes of watches
		want  string
	}{
		"the API server is away":                {"away", "the API server does not answer; last seen: the pod did not run after 300ms: its node gave it no sandbox"},
		"it was away for a moment":              {"back", "the pod did not run after 300ms: its node gave it no sandbox"},
		"it takes a request, and never answers": {"hangs", "the API server does not answer; last seen: the pod did not run after 1.4s: its node gave it no sandbox"},
		"it is there":                           {"there", "the pod did not run after 300ms: its node gave it no sandbox"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limit := 300 * time.Millisecond
			if c.after == "hangs" {
				limit = 1400 * time.Millisecond
			}
			a, e := withAPI(t, func(config *Config) { config.Start = limit })
			var watches atomic.Int32
			a.faulty(func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Query().Get("watch") == "" {
					return false
				}
				_, pod, _ := strings.Cut(r.URL.Query().Get("fieldSelector"), "=")
				switch nth := watches.Add(1); {
				case nth == 1:
					a.set(kube.PodPath("ns", pod), func(o *object) { json.Unmarshal([]byte(noSandbox), &o.Status) })
					if c.after != "there" { // the event, and the end
						short, cancel := context.WithTimeout(r.Context(), 30*time.Millisecond)
						defer cancel()
						a.do(w, r.WithContext(short))
						return true
					}
				case c.after == "hangs":
					<-r.Context().Done()
					return true
				case c.after == "away", c.after == "back" && nth == 2:
					refuse(w, http.StatusServiceUnavailable, "etcd")
					return true
				}
				return false
			})
			for what, wait := range map[string]func(pod *kube.Pod) error{
				"running":    func(pod *kube.Pod) error { _, err := e.awaitRunning(t.Context(), pod, wantSpec()); return err },
				"last words": func(pod *kube.Pod) error { _, err := e.lastWords(t.Context(), pod, wantSpec(), limit); return err },
			} {
				watches.Store(0)
				pod := makePod(t, e)
				if err := wait(pod); sandbox.CauseOf(err) != sandbox.CauseEngine || !strings.HasPrefix(err.Error(), c.want) {
					t.Errorf("%s: %v", what, err)
				}
				a.end(podPath)
			}
			ctx, cancel := context.WithCancel(t.Context())
			pod := makePod(t, e)
			cancel()
			if _, err := e.lastWords(ctx, pod, wantSpec(), limit); !errors.Is(err, context.Canceled) {
				t.Errorf("canceled: %v", err)
			}
		})
	}
}
