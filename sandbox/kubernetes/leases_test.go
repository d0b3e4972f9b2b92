package kubernetes

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/boxlink"
	"belljar/sandbox/internal/kube"
)

// other makes a lease another process's, as that does which takes it over.
func other(o *object) {
	now := kube.MicroTime(time.Now())
	o.Metadata.Annotations = map[string]string{noteMaker: "another"}
	o.Spec = kube.LeaseSpec{HolderIdentity: "elsewhere 1 x", LeaseDurationSeconds: 40, AcquireTime: now, RenewTime: now}
}

func mustTake(t *testing.T, e *Engine, uid string) *lease {
	t.Helper()
	l, err := e.leases.take(t.Context(), uid)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// unlively is a link to an init that does not answer.
func unlively(t *testing.T, e *Engine, uid string) *link {
	t.Helper()
	stream, err := e.client.Attach(t.Context(), "ns", "p", mainContainer)
	if err != nil {
		t.Fatal(err)
	}
	l := &link{Conn: stream, Link: boxlink.Frames(stream)}
	e.links.Add(uid, l)
	t.Cleanup(l.Close)
	return l
}

// Each lease is renewed by itself: what hangs for others, and pods that are to be deleted, hold up none.
func TestLeasesAreRenewedWhateverHangs(t *testing.T) {
	a, e := withAPI(t)
	e.leases.each = 10 * time.Millisecond
	own, err := e.leases.ofProcess(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, uid := range []string{"a", "b", "c"} {
		mustTake(t, e, uid)
		e.doom(doom{name: "pod-" + uid, uid: uid})
	}
	a.faulty(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == kube.LeasePath("ns", own) || r.URL.Path == kube.LeasePath("ns", holdPrefix+"b") {
			return false
		}
		io.Copy(io.Discard, r.Body) // only then the server sees that the client is gone
		<-r.Context().Done()
		return true
	})
	time.Sleep(50 * time.Millisecond) // all of them hang
	for _, name := range []string{own, holdPrefix + "b"} {
		for range 2 {
			before, _ := a.lease(name)
			until(t, name+" is renewed", func() bool {
				now, _ := a.lease(name)
				return now.Spec.RenewTime != before.Spec.RenewTime
			})
		}
	}
	a.faulty(nil)
	if err := e.Close(); err != nil || len(a.names("leases")) > 0 {
		t.Errorf("left: %v, error %v", a.names("leases"), err)
	}
}

// Once a bug: while the API server did not answer, each command that began waited until all before it had tried, also once it was cancelled.
func TestOwnLeaseThatIsNotMade(t *testing.T) {
	a, e := withAPI(t)
	asked, answer := make(chan struct{}, 10), make(chan struct{})
	a.faulty(func(w http.ResponseWriter, _ *http.Request) bool {
		asked <- struct{}{}
		<-answer
		refuse(w, 503, "etcd")
		return true
	})
	errs := make(chan error, 3)
	wait := func(ctx context.Context) {
		_, err := e.leases.ofProcess(ctx)
		errs <- err
	}
	go wait(t.Context())
	<-asked
	ctx, cancel := context.WithCancel(t.Context())
	go wait(ctx)
	cancel()
	if err := <-errs; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	go wait(t.Context())
	time.Sleep(50 * time.Millisecond) // it waits for the first one
	close(answer)
	for range 2 {
		if err := <-errs; kube.CodeOf(err) != 503 {
			t.Error(err)
		}
	}
	if len(asked) > 0 {
		t.Errorf("asked %d times more", len(asked))
	}
	a.faulty(nil)
	if name, err := e.leases.ofProcess(t.Context()); err != nil || !slices.Equal(a.names("leases"), []string{name}) {
		t.Errorf("%q, error %v", name, err)
	}
}

// A lease that another process has is left to that, whoever held it before, and whatever this one is about to do.
func TestLeaseOfAnotherIsLeft(t *testing.T) {
	for name, act := range map[string]func(t *testing.T, e *Engine, held *lease){
		"release": func(t *testing.T, _ *Engine, held *lease) {
			if err := held.release(); err != nil {
				t.Error(err)
			}
		},
		"renewal": func(t *testing.T, _ *Engine, held *lease) {
			if held.renew(t.Context()) {
				t.Error("it counts as ours")
			}
		},
		"taking it": func(t *testing.T, e *Engine, _ *lease) {
			if _, err := e.leases.take(t.Context(), "u"); sandbox.CauseOf(err) != sandbox.CauseBusy {
				t.Error(err)
			}
		},
		"end": func(t *testing.T, e *Engine, _ *lease) {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, e := withAPI(t)
			held := mustTake(t, e, "u")
			a.set(kube.LeasePath("ns", holdPrefix+"u"), other)
			act(t, e, held)
			if l, exists := a.lease(holdPrefix + "u"); !exists || l.Metadata.Annotations[noteMaker] != "another" {
				t.Errorf("%v, %+v", exists, l)
			}
		})
	}
}

// Of a list that is old by now nothing is deleted that was renewed, claimed or taken over since.
func TestOldListDeletesNothingNew(t *testing.T) {
	a, e := withAPI(t)
	e.opened = time.Now().Add(-outageGrace)
	held := mustTake(t, e, "u")
	path := kube.LeasePath("ns", held.name)
	a.set(path, func(o *object) { // it seems to have ended
		o.Spec = kube.LeaseSpec{HolderIdentity: "elsewhere 1 x", LeaseDurationSeconds: 40, RenewTime: kube.MicroTime(time.Now().Add(-time.Hour))}
	})
	shared := e.Shared("")
	key, err := shared.Create(t.Context(), Entry{Kind: "key", Name: "key-1", For: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := shared.Update(t.Context(), key); err != nil { // another replica claims it
		t.Fatal(err)
	}
	a.faulty(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodDelete && r.URL.Path == path {
			a.set(path, other) // just before
		}
		return false
	})
	_, err = e.Sweep(t.Context())
	a.mu.Lock()
	asked := slices.Contains(a.asked, "DELETE "+path)
	a.mu.Unlock()
	if err != nil || !asked {
		t.Errorf("its deletion was tried: %t, error %v", asked, err)
	}
	if err := shared.Delete(t.Context(), key); err != nil {
		t.Error(err)
	}
	if names := a.names("leases"); !slices.Equal(names, []string{held.name, "key-1"}) {
		t.Errorf("left: %v", names)
	}
	if _, err := shared.Update(t.Context(), Entry{Kind: "key", Name: "key-2", UID: "gone", Version: "1"}); !errors.Is(err, ErrTaken) && !errors.Is(err, ErrNone) {
		t.Errorf("an entry that is gone is made again: %v", err)
	}
}

// A lease whose release meets a renewal is gone after that, and for good.
func TestReleaseWhileItIsRenewed(t *testing.T) {
	a, e := withAPI(t)
	e.leases.each = time.Millisecond
	for range 50 {
		mustTake(t, e, "u").release()
		if names := a.names("leases"); len(names) > 0 {
			t.Fatalf("left: %v", names)
		}
	}
}

// What this process took without getting the answer is its own. One that another program deleted is made again.
func TestLeaseWithoutAnswer(t *testing.T) {
	a, e := withAPI(t)
	a.faulty(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost || r.Method == http.MethodPut {
			a.lose(r)
		}
		return false
	})
	if _, err := e.leases.take(t.Context(), "u"); err == nil {
		t.Fatal("there was no answer")
	}
	a.faulty(nil)
	held := mustTake(t, e, "u")
	a.faulty(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut {
			a.faulty(nil)
			a.lose(r)
		}
		return false
	})
	for range 2 {
		if !held.renew(t.Context()) {
			t.Error("it counts as another's")
		}
	}
	a.end(held.path())
	if !held.renew(t.Context()) || len(a.names("leases")) != 1 {
		t.Errorf("it was deleted, and is not made again: %v", a.names("leases"))
	}
	if err := held.release(); err != nil || len(a.names("leases")) > 0 {
		t.Errorf("left: %v, error %v", a.names("leases"), err)
	}
}

// A connection that breaks gives its lease back at once. What ends with it later has no effect on the lease of who attached again.
func TestLeaseOfABrokenLink(t *testing.T) {
	a, e := withAPI(t)
	first := unlively(t, e, "u")
	first.AddUser() // a command, which has not found out yet how it ended
	held := mustTake(t, e, "u")
	held.serves(first)
	first.Conn.Close()
	until(t, "its lease ends", func() bool { return len(a.names("leases")) == 0 })
	again := mustTake(t, e, "u")
	second := unlively(t, e, "u")
	again.serves(second)
	first.Release()
	first.Release()
	held.release()
	if len(a.names("leases")) != 1 {
		t.Errorf("the end of the first link ends the lease of the second: %v", a.names("leases"))
	}
	second.Release()
	if len(a.names("leases")) != 0 {
		t.Errorf("left: %v", a.names("leases"))
	}
}

// A link is closed whose session another process has taken over.
func TestLinkOfALostLease(t *testing.T) {
	a, e := withAPI(t)
	e.leases.each = 10 * time.Millisecond
	l := unlively(t, e, "u")
	mustTake(t, e, "u").serves(l)
	a.set(kube.LeasePath("ns", holdPrefix+"u"), other)
	select {
	case <-l.Done():
	case <-time.After(10 * time.Second):
		t.Error("it stays")
	}
}

// A pod that may have been made by a request without an answer, or with one that leaves it open, is deleted: now, or once the API server
// answers again. One of another request is not.
func TestUnansweredPodIsDeleted(t *testing.T) {
	pods := kube.PodsPath("ns")
	for name, answer := range map[string]func(a *api, w http.ResponseWriter, r *http.Request){
		"no answer": func(a *api, _ http.ResponseWriter, r *http.Request) { a.lose(r) },
		"500": func(a *api, w http.ResponseWriter, r *http.Request) {
			a.do(discarded{}, r)
			refuse(w, 500, "etcdserver: request timed out")
		},
		"504, and it is made later": func(a *api, w http.ResponseWriter, r *http.Request) {
			refuse(w, 504, "Timeout")
			text := make([]byte, r.ContentLength)
			r.Body.Read(text)
			again, _ := http.NewRequest(r.Method, r.URL.String(), strings.NewReader(string(text)))
			time.AfterFunc(100*time.Millisecond, func() { a.do(discarded{}, again) })
		},
		"no answer, nor to what is asked next": func(a *api, _ http.ResponseWriter, r *http.Request) {
			a.faulty(func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) })
			time.AfterFunc(100*time.Millisecond, func() { a.faulty(nil) })
			a.lose(r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, e := withAPI(t)
			e.leases.each = 20 * time.Millisecond
			made := make(chan struct{})
			a.faulty(func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodPost || r.URL.Path != pods {
					return false
				}
				defer close(made)
				answer(a, w, r)
				return true
			})
			if _, err := e.Create(t.Context(), wantSpec()); sandbox.CauseOf(err) != sandbox.CauseEngine {
				t.Error(err)
			}
			<-made
			until(t, "the pod was made, and is deleted", func() bool {
				a.mu.Lock()
				defer a.mu.Unlock()
				return slices.ContainsFunc(a.events, func(e event) bool { return e.Type == "DELETED" && e.path == kube.PodPath("ns", podName(wantSpec())) })
			})
		})
	}
	a, e := withAPI(t)
	a.set(kube.PodPath("ns", podName(wantSpec())), func(o *object) {
		o.Metadata = kube.Meta{Name: podName(wantSpec()), UID: "others", Annotations: map[string]string{noteMaker: "another"}}
	})
	a.faulty(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost && r.URL.Path == pods {
			refuse(w, 500, "InternalError")
			return true
		}
		return false
	})
	if _, err := e.Create(t.Context(), wantSpec()); err == nil || len(a.names("pods")) != 1 {
		t.Errorf("another's pod: %v, error %v", a.names("pods"), err)
	}
}

// Once a bug: a session's pod that could not be deleted was deleted once the API server was reached again, though another process used it
// by then.
func TestDoomedSessionOfAnother(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(a *api, e *Engine, uid string) error
		stays     bool
	}{
		"no one has it":       {func(*api, *Engine, string) error { return nil }, false},
		"this process has it": {func(_ *api, e *Engine, uid string) error { _, err := e.leases.take(e.life, uid); return err }, false},
		"another one has it": {func(a *api, _ *Engine, uid string) error {
			a.set(kube.LeasePath("ns", holdPrefix+uid), other)
			return nil
		}, true},
		"it was given up here": {func(_ *api, e *Engine, _ string) error { _, err := e.GiveUp("dev"); return err }, true},
	} {
		t.Run(name, func(t *testing.T) {
			a, e := withAPI(t, func(c *Config) { c.Dir = t.TempDir() })
			e.leases.each = 10 * time.Millisecond
			pod := makePod(t, e)
			uid := pod.Metadata.UID
			if err := e.records.add(e, record{UID: uid, Name: pod.Metadata.Name, Namespace: "ns", Server: e.Host(), Session: "dev"}); err != nil {
				t.Fatal(err)
			}
			mustTake(t, e, uid).release()
			var tried atomic.Int32
			a.faulty(func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodDelete || r.URL.Path != podPath {
					return false
				}
				tried.Add(1)
				refuse(w, 403, "not now")
				return true
			})
			if err := e.deleteOrDoom(t.Context(), pod.Metadata.Name, uid, 0); err == nil {
				t.Fatal("it was deleted")
			}
			until(t, "it is tried again", func() bool { return tried.Load() > 1 })
			if err := c.meanwhile(a, e, uid); err != nil {
				t.Fatal(err)
			}
			if c.stays {
				until(t, "it is tried no more", func() bool {
					e.leases.doomed.mu.Lock()
					defer e.leases.doomed.mu.Unlock()
					return len(e.leases.doomed.all) == 0
				})
			}
			a.faulty(nil)
			if c.stays {
				time.Sleep(50 * time.Millisecond) // several tries
				if len(a.names("pods")) != 1 {
					t.Error("it was deleted")
				}
				return
			}
			until(t, "it is deleted", func() bool { return len(a.names("pods")) == 0 })
		})
	}
}
