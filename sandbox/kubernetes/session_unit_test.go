package kubernetes

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/kube"
	"belljar/sandbox/listing"
)

func wantSession() sandbox.Spec {
	spec := wantSpec()
	spec.Session = "dev"
	return spec
}

// A session that is made while another process sweeps keeps its record.
func TestSweepSparesRecordsThatAreMadeMeanwhile(t *testing.T) {
	a, e := withAPI(t, func(c *Config) { c.Dir = t.TempDir() })
	old := record{UID: "gone", Name: "gone", Namespace: "ns", Server: e.Host(), Session: "gone"}
	if err := e.records.add(e, old); err != nil {
		t.Fatal(err)
	}
	a.faulty(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == kube.LeasesPath("ns") { // it has the list of pods
			made := record{UID: "new", Name: "new", Namespace: "ns", Server: e.Host(), Session: "new"}
			if err := e.records.add(e, made); err != nil {
				t.Error(err)
			}
		}
		return false
	})
	if _, err := e.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if names := e.Recorded(); !slices.Equal(names, []string{"new"}) {
		t.Errorf("recorded: %v", names)
	}
}

// Once a bug: each sweep said again that it removed the pods of a node that is lost, which stay until that is back.
func TestSweepRemovesEachPodOnce(t *testing.T) {
	a, e := withAPI(t)
	e.opened = time.Now().Add(-outageGrace)
	made := makePod(t, e)
	deletes := 0
	a.faulty(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodDelete {
			return false
		}
		deletes++
		now := time.Now()
		a.set(kube.PodPath("ns", made.Metadata.Name), func(o *object) { o.Metadata.DeletionTimestamp = &now })
		w.Write([]byte("{}"))
		return true
	})
	for i, want := range []int{1, 0, 0} {
		if n, err := e.Sweep(t.Context()); n != want || err != nil || deletes != 1 {
			t.Errorf("sweep %d removed %d with %d requests, error %v", i, n, deletes, err)
		}
	}
	a.faulty(nil)
}

// Once a bug: what other replicas are told of a session's pod did not say what its profile says of the session.
func TestRecordKeepsTheSessionsLife(t *testing.T) {
	_, e := withAPI(t, func(c *Config) { c.Dir = t.TempDir() })
	spec := wantSession()
	spec.Workspace, spec.Idle = "/data", 3*time.Hour
	pod := &kube.Pod{}
	pod.Metadata.UID = "uid"
	text, err := json.Marshal(e.record(spec, pod))
	if err != nil {
		t.Fatal(err)
	}
	if kept, err := e.TakeOver(t.Context(), string(text)); err != nil || kept.Workspace != "/data" || kept.Idle != 3*time.Hour {
		t.Errorf("%+v, %v", kept, err)
	}
}

// A session's pod is recorded, told to other replicas and taken before it can run, so that it is some process's at any moment. The
// record goes with the pod, and not before.
func TestSessionIsRecordedBeforeItRuns(t *testing.T) {
	a, e := withAPI(t, func(c *Config) { c.Dir = t.TempDir() })
	told := 0
	e.OnSession(func(context.Context, string, string) error { told++; return nil })
	ctx, cancel := context.WithCancel(t.Context())
	a.faulty(func(_ http.ResponseWriter, r *http.Request) bool {
		switch {
		case r.URL.Query().Get("watch") != "":
			if uid := e.records.all(e)[0].UID; told != 1 || !slices.Contains(a.names("leases"), holdPrefix+uid) {
				t.Errorf("while the pod waits: told %d times, leases %v", told, a.names("leases"))
			}
			cancel()
		case r.Method == http.MethodDelete && len(a.names("pods")) > 0 && r.URL.Path == kube.PodPath("ns", a.names("pods")[0]):
			if len(e.Recorded()) != 1 {
				t.Errorf("it is deleted without a record: %v", e.Recorded())
			}
		}
		return false
	})
	if _, err := e.Create(ctx, wantSession()); err == nil {
		t.Fatal("it was cancelled")
	}
	if pods, leases := a.names("pods"), a.names("leases"); len(pods) > 0 || len(leases) != 1 || len(e.Recorded()) > 0 {
		t.Errorf("left: %v, %v, %v", pods, leases, e.Recorded())
	}
	a.faulty(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("watch") != "" || r.Method == http.MethodDelete && len(a.names("pods")) > 0 {
			refuse(w, http.StatusForbidden, "Forbidden")
			return true
		}
		return false
	})
	if _, err := e.Create(t.Context(), wantSession()); err == nil || len(e.Recorded()) != 1 || len(a.names("pods")) != 1 {
		t.Errorf("its pod stays, error %v, recorded %v, pods %v", err, e.Recorded(), a.names("pods"))
	}
	a.faulty(nil)
}

// Where this process ends with its sessions, what runs in one is listed over the connection that it has.
func TestProcessesOfAnOwnSession(t *testing.T) {
	_, e := withAPI(t, func(c *Config) { c.OwnSessions = true })
	r := record{UID: "u", Name: "p", Namespace: "ns", Session: "dev"}
	if err := e.records.add(e, r); err != nil {
		t.Fatal(err)
	}
	fill := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		return e.FillProcesses(ctx, &listing.Container{ID: "u"})
	}
	if err := fill(); sandbox.CauseOf(err) != sandbox.CauseEngineLost {
		t.Errorf("without a connection: %v", err)
	}
	l := unlively(t, e, "u")
	if err := fill(); err == nil || sandbox.CauseOf(err) == sandbox.CauseEngineLost || l.Broken() {
		t.Errorf("it does not ask the init: %v", err)
	}
}

// All times that others judge are of the API server's clock, from the first one on.
func TestClockThatIsBehind(t *testing.T) {
	a, e := withAPI(t)
	const ahead = time.Hour
	a.faulty(func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Date", time.Now().Add(ahead).UTC().Format(http.TimeFormat))
		return false
	})
	near := func(what string, at, want time.Time) {
		t.Helper()
		if off := at.Sub(want).Abs(); off > 5*time.Second {
			t.Errorf("%s is wrong by %v", what, off)
		}
	}
	name, err := e.leases.ofProcess(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l, _ := a.lease(name)
	renewed, err := l.Spec.Renewed()
	if err != nil {
		t.Fatal(err)
	}
	near("the lease's time", renewed, time.Now().Add(ahead))
	spec := wantSession()
	pod := e.pod(spec, name)
	near("the pod's deadline", deadlineOf(*pod), spec.Deadline.Add(ahead))
	seconds, err := strconv.ParseInt(pod.Spec.Containers[0].Command[3], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	near("the init's deadline", time.Unix(seconds, 0), spec.Deadline.Add(ahead))
}

// An attachment to another pod, which has the name by now, is given up: what it was for belongs to the first one.
func TestAnotherPodOfTheName(t *testing.T) {
	a, e := withAPI(t)
	r := e.record(wantSession(), makePod(t, e))
	if err := e.records.add(e, r); err != nil {
		t.Fatal(err)
	}
	a.run(true)
	box, err := e.Adopt(t.Context(), r.kept())
	if err != nil {
		t.Fatal(err)
	}
	box.Close()
	a.set(podPath, func(o *object) { o.Metadata.UID = "another" })
	if _, err := e.Adopt(t.Context(), r.kept()); sandbox.CauseOf(err) != sandbox.CauseEngineLost || !strings.Contains(err.Error(), "is gone") {
		t.Errorf("adopted: %v", err)
	}
	b := newBox(e, r)
	defer b.Close()
	if _, err := b.attached(t.Context()); sandbox.CauseOf(err) != sandbox.CauseEngineLost {
		t.Errorf("attached again: %v", err)
	}
	if leases := a.names("leases"); len(leases) > 0 {
		t.Errorf("left: %v", leases)
	}
}

// Once a bug: a session whose init did not answer in time, as on a node with too much to do, was taken for lost, and a new pod took its place.
func TestSilentSessionIsNotLost(t *testing.T) {
	a, e := withAPI(t)
	e.hello = 50 * time.Millisecond
	r := e.record(wantSession(), makePod(t, e))
	if err := e.records.add(e, r); err != nil {
		t.Fatal(err)
	}
	a.run(true)
	a.faulty(func(_ http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/attach") {
			return false
		}
		<-r.Context().Done()
		return true
	})
	if _, err := e.Adopt(t.Context(), r.kept()); sandbox.CauseOf(err) != sandbox.CauseEngine || !strings.Contains(err.Error(), "belljar session rm dev") {
		t.Errorf("it is opened: %v", err)
	}
	if err := e.Discard(t.Context(), r.kept()); err != nil || len(a.names("pods")) != 0 || len(e.Recorded()) != 0 {
		t.Errorf("left: %v, %v, error %v", a.names("pods"), e.Recorded(), err)
	}
}

// Once a bug: who listed sessions while a process was making one attached to the same pod, and broke its connection.
func TestAdoptWaitsForWhoMakesIt(t *testing.T) {
	a, e := withAPI(t)
	pod := makePod(t, e)
	b := newBox(e, e.record(wantSession(), pod))
	b.spec = wantSession()
	defer b.Close()
	a.run(true)
	attaching, goOn := make(chan struct{}), make(chan struct{})
	var attached atomic.Int32
	a.faulty(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/attach") && attached.Add(1) == 1 {
			close(attaching)
			<-goOn
		}
		return false
	})
	var both sync.WaitGroup
	both.Go(func() {
		l, err := b.open(t.Context(), pod)
		if err != nil {
			t.Error(err)
			return
		}
		b.use(l)
	})
	<-attaching
	both.Go(func() {
		box, err := e.Adopt(t.Context(), b.record.kept())
		if err != nil {
			t.Error(err)
			return
		}
		box.Close()
	})
	time.Sleep(50 * time.Millisecond) // a bug attaches in this time
	close(goOn)
	both.Wait()
	if n := attached.Load(); n != 1 {
		t.Errorf("attached %d times", n)
	}
}
