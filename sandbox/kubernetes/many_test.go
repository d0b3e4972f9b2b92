package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Many commands at once that have to know the same of an image make one pod for it, and not one each.
func TestOneLookAtAnImage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var i images
		var looks atomic.Int32
		failed := errors.New("no such image")
		for want, err := range map[string]error{"app": nil, "": failed} {
			looks.Store(0)
			var all sync.WaitGroup
			for range 50 {
				all.Go(func() {
					got, failed := shared(t.Context(), &i, "resolve", func() (string, error) {
						looks.Add(1)
						time.Sleep(time.Second)
						return want, err
					})
					if got != want || !errors.Is(failed, err) {
						t.Errorf("%q, error %v", got, failed)
					}
				})
			}
			all.Wait()
			if looks.Load() != 1 || len(i.looking) != 0 {
				t.Errorf("%d looks", looks.Load())
			}
		}

		hurried, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		look := func(ctx context.Context) func() (int, error) {
			return func() (int, error) {
				select {
				case <-time.After(time.Minute):
					return 7, nil
				case <-ctx.Done():
					return 0, ctx.Err()
				}
			}
		}
		go shared(hurried, &i, "files", look(hurried))
		synctest.Wait()
		late, cancelLate := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancelLate()
		go func() {
			if _, err := shared(late, &i, "files", look(late)); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("who gave up waiting got %v", err)
			}
		}()
		if got, err := shared(t.Context(), &i, "files", look(t.Context())); got != 7 || err != nil {
			t.Errorf("after another one gave up: %d, error %v", got, err)
		}
	})
}

// To find one session of thousands takes a request for its pod, and none for the others'.
func TestSessionsOfAName(t *testing.T) {
	var asked []string
	e := behind(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.Path)
		name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		switch name {
		case "pod-7", "pod-8":
			phase := map[string]string{"pod-7": "running", "pod-8": "waiting"}[name]
			fmt.Fprintf(w, `{"metadata":{"name":%q,"uid":"uid-%s"},"status":{"containerStatuses":[{"name":"sandbox","state":{%q:{}}}]}}`, name, name[4:], phase)
		case "pod-9":
			w.WriteHeader(http.StatusInternalServerError)
		default:
			http.NotFound(w, r)
		}
	})
	for i := range 3000 {
		r := record{UID: fmt.Sprint("uid-", i), Name: fmt.Sprint("pod-", i), Namespace: "ns", Session: fmt.Sprint("s-", i)}
		if err := e.records.add(e, r); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]struct{ kept, requests int }{"s-7": {1, 1}, "s-8": {0, 1}, "s-10": {0, 1}, "none": {0, 0}} {
		asked = nil
		list, err := e.Sessions(t.Context(), name)
		if err != nil || len(list) != want.kept || len(asked) != want.requests {
			t.Errorf("%s: %+v, error %v; %q", name, list, err, asked)
		}
	}
	if _, err := e.Sessions(t.Context(), "s-9"); err == nil {
		t.Error("an API server that fails is one without the pod")
	}
}

// What is recorded of thousands of sessions is read once, and not for each command; what another process removes or adds is seen.
func TestRecordsAreReadOnce(t *testing.T) {
	dir := t.TempDir()
	e := behind(t, http.NotFound, func(c *Config) { c.Dir = dir })
	add := func(to *records, name string) {
		t.Helper()
		if err := to.add(e, record{UID: name, Namespace: "ns", Server: e.Host(), Session: name}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"kept", "removed"} {
		add(&e.records, name)
	}
	if names := e.Recorded(); len(names) != 2 {
		t.Fatal(names)
	}
	if err := errors.Join(os.WriteFile(e.recordFile("kept"), []byte("not read"), 0o600), os.Remove(e.recordFile("removed"))); err != nil {
		t.Fatal(err)
	}
	add(&records{}, "added")
	if names := e.Recorded(); !slices.Equal(names, []string{"added", "kept"}) {
		t.Errorf("%q", names)
	}
}
