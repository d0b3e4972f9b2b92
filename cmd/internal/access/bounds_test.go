package access

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"belljar/cmd/internal/problem"
)

func TestRequests(t *testing.T) {
	t.Parallel()
	release, begun := make(chan struct{}), make(chan struct{})
	handler := Bounds{Requests: 8, Body: 10}.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		begun <- struct{}{}
		<-release
	}))
	var running sync.WaitGroup
	start := func(who, path string) int {
		r, w := httptest.NewRequest(http.MethodGet, path, nil), httptest.NewRecorder()
		r = r.WithContext(With(r.Context(), Identity{Name: who}))
		done := make(chan struct{})
		running.Go(func() {
			defer close(done)
			handler.ServeHTTP(w, r)
		})
		select {
		case <-begun:
			return 0
		case <-done:
			if w.Code == 503 && (w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), `"code":"unavailable"`)) {
				t.Errorf("%v %s", w.Header(), w.Body)
			}
			return w.Code
		}
	}
	for i := range 7 {
		if got, want := start("a", "/v1/x"), map[bool]int{true: 0, false: 503}[i < 6]; got != want {
			t.Errorf("request %d of one caller: %d, not %d", i+1, got, want)
		}
	}
	for i, want := range []int{0, 0, 503} {
		if got := start("b", "/v1/x"); got != want {
			t.Errorf("request %d of another: %d, not %d", i+1, got, want)
		}
	}
	for _, probe := range []string{"/healthz", "/readyz"} {
		if got := start("", probe); got != 0 {
			t.Errorf("%s of a busy server: %d", probe, got)
		}
	}
	close(release)
	running.Wait()
	go func() { <-begun }()
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/v1/x", nil)) // there is room again
}

// A handler's panic gives its place back.
func TestPanicGivesBack(t *testing.T) {
	t.Parallel()
	handler := Bounds{Requests: 2}.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	for range 5 {
		w := httptest.NewRecorder()
		func() {
			defer func() { recover() }()
			handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		}()
		if w.Body.Len() > 0 {
			t.Fatal(w.Body)
		}
	}
}

func TestBodies(t *testing.T) {
	t.Parallel()
	read := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/file" {
			LimitBody(w, r, 20)
		}
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			if large, ok := errors.AsType[*http.MaxBytesError](err); !ok || n > large.Limit {
				t.Errorf("%d bytes, %v", n, err)
			}
			problem.Of(err).Write(w)
		}
	})
	client, url := serve(t, "unix", (&Guard{Log: slog.New(slog.DiscardHandler)}).Wrap(Bounds{Requests: 10, Body: 10}.Wrap(read)))
	for _, test := range []struct {
		path    string
		size    int
		chunked bool
		want    int
	}{
		{"/", 10, false, 200}, {"/", 11, false, 413}, {"/", 10, true, 200}, {"/", 11, true, 413},
		{"/file", 20, false, 200}, {"/file", 21, false, 413}, {"/file", 20, true, 200}, {"/file", 21, true, 413},
		{"/", 0, false, 200},
	} {
		var body io.Reader = strings.NewReader(strings.Repeat("x", test.size))
		if test.chunked {
			body = struct{ io.Reader }{body}
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+test.path, body)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != test.want {
			t.Errorf("%+v: %d", test, answer.StatusCode)
		}
	}
	// LimitBody is also good without Bounds.
	r := httptest.NewRequest(http.MethodPost, "/file", strings.NewReader(strings.Repeat("x", 21)))
	w := httptest.NewRecorder()
	if read(w, r); w.Code != 413 {
		t.Errorf("without Bounds: %d", w.Code)
	}
}
