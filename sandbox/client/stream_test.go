package client_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/client"
)

// Wherever the connection is cut, each event comes once, and no byte is lost.
func TestCutAnywhere(t *testing.T) {
	lines := eventLines(t, "x", "one\n", "two\n", "three\n")
	whole := strings.Join(lines, "")
	for at := range len(whole) {
		s := newSidecar(t)
		s.HandleFunc("POST /v1/executions", func(w http.ResponseWriter, _ *http.Request) {
			accept(w, "x")
			io.WriteString(w, whole[:at])
			cut(w)
		})
		s.HandleFunc("GET /v1/executions/x/events", func(w http.ResponseWriter, r *http.Request) {
			accept(w, "x")
			io.WriteString(w, "\n"+strings.Join(lines[after(r):], ""))
		})
		x, err := s.Start(t.Context(), sandbox.Command{Script: "echo"})
		if err != nil {
			t.Fatal(err)
		}
		if list := collect(t, x); said(list) != "one\ntwo\nthree\n" || len(list) != len(lines) {
			t.Errorf("cut at %d: %v", at, list)
		}
		if r, err := x.Wait(); err != nil || string(r.Stdout.Bytes()) != "one\ntwo\nthree\n" || r.Command != "echo" {
			t.Errorf("cut at %d: %+v, %v", at, r, err)
		}
	}
}

// What a sidecar may answer where a stream is resumed, before it goes on.
func TestResumeThrough(t *testing.T) {
	lines := eventLines(t, "x", "one\n", strings.Repeat("long ", 1<<18), "three\n")
	want := "one\n" + strings.Repeat("long ", 1<<18) + "three\n"
	for name, first := range map[string]func(w http.ResponseWriter){
		"503":               func(w http.ResponseWriter) { refuse(w, 503, `{"code":"unavailable"}`) },
		"nothing":           func(w http.ResponseWriter) { accept(w, "x") },
		"heartbeats":        func(w http.ResponseWriter) { accept(w, "x"); io.WriteString(w, "\n\n\n") },
		"garbage":           func(w http.ResponseWriter) { accept(w, "x"); io.WriteString(w, "\x00\xff{}\n") },
		"what it has":       func(w http.ResponseWriter) { accept(w, "x"); io.WriteString(w, strings.Join(lines, "")) },
		"a gap":             func(w http.ResponseWriter) { accept(w, "x"); io.WriteString(w, lines[len(lines)-1]) },
		"half of a line":    func(w http.ResponseWriter) { accept(w, "x"); io.WriteString(w, lines[2][:1<<19]); cut(w) },
		"no answer":         func(_ http.ResponseWriter) { panic(http.ErrAbortHandler) },
		"an empty line end": func(w http.ResponseWriter) { accept(w, "x"); io.WriteString(w, lines[2][:100]) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSidecar(t)
			var asked atomic.Int64
			s.HandleFunc("POST /v1/executions", func(w http.ResponseWriter, _ *http.Request) {
				accept(w, "x")
				io.WriteString(w, lines[0]+lines[1])
				cut(w)
			})
			s.HandleFunc("GET /v1/executions/x/events", func(w http.ResponseWriter, r *http.Request) {
				if asked.Add(1) <= 2 {
					first(w)
					return
				}
				accept(w, "x")
				io.WriteString(w, strings.Join(lines[after(r):], ""))
			})
			x, err := s.Start(t.Context(), sandbox.Command{Script: "echo"})
			if err != nil {
				t.Fatal(err)
			}
			if list := collect(t, x); said(list) != want {
				t.Errorf("%d events, %d bytes", len(list), len(said(list)))
			}
		})
	}
}

// A sidecar that is gone for good, or that does not know the command, has lost it.
func TestLost(t *testing.T) {
	lines := eventLines(t, "x", "one\n")
	for name, test := range map[string]struct {
		events http.HandlerFunc
		why    string
	}{
		"forgotten": {func(w http.ResponseWriter, _ *http.Request) {
			refuse(w, 404, `{"code":"not_found","detail":"no execution x"}`)
		}, "no execution x"},
		"silent": {func(_ http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
		"mad":    {func(w http.ResponseWriter, _ *http.Request) { accept(w, "x"); io.WriteString(w, "[]\n") }, "cannot unmarshal"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSidecar(t, func(c *client.Config) { c.LostAfter = 100 * time.Millisecond })
			s.HandleFunc("POST /v1/executions", func(w http.ResponseWriter, _ *http.Request) {
				accept(w, "x")
				io.WriteString(w, lines[0]+lines[1])
				cut(w)
			})
			s.HandleFunc("GET /v1/executions/x/events", test.events)
			x, err := s.Start(t.Context(), sandbox.Command{Script: "echo", Session: "dev"})
			if err != nil {
				t.Fatal(err)
			}
			if list := collect(t, x); said(list) != "one\n" {
				t.Errorf("%v", list)
			}
			r, err := x.Wait()
			wantCause(t, name, err, sandbox.CauseEngineLost, test.why)
			if r.Status != sandbox.StatusFatal || r.Cause != sandbox.CauseEngineLost || r.ID != "x" || r.Session != "dev" || r.Error == nil {
				t.Errorf("%+v", r)
			}
		})
	}
}

// An answer that was lost makes no second execution: the request is sent again with its key.
func TestStartAgain(t *testing.T) {
	lines := eventLines(t, "x", "one\n")
	s := newSidecar(t)
	keys := make(chan string, 8)
	var asked atomic.Int64
	s.HandleFunc("POST /v1/executions", func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		keys <- r.Header.Get("Idempotency-Key") + string(text)
		switch asked.Add(1) {
		case 1:
			panic(http.ErrAbortHandler)
		case 2:
			refuse(w, 503, `{"code":"unavailable"}`)
		default:
			accept(w, "x")
			io.WriteString(w, strings.Join(lines, ""))
		}
	})
	r, err := sandbox.Run(t.Context(), s, sandbox.Command{Script: "echo"})
	if err != nil || r.Status != sandbox.StatusSuccess {
		t.Errorf("%+v, %v", r, err)
	}
	first := <-keys
	if len(first) < 20 || first != <-keys || first != <-keys || len(keys) > 0 {
		t.Errorf("keys differ from %q", first)
	}
	if r, err := sandbox.Run(t.Context(), s, sandbox.Command{Script: "echo"}); err != nil || <-keys == first {
		t.Errorf("another command has the same key: %+v, %v", r, err)
	}
}

func TestRefusals(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		body   string
		want   sandbox.Error
	}{
		"a cause":    {429, `{"code":"busy","detail":"too many","hint":"later","retry_after_seconds":1.5}`, sandbox.Error{Cause: sandbox.CauseBusy, Message: "too many", Hint: "later", RetryAfter: 1500 * time.Millisecond}},
		"denied":     {403, `{"code":"denied","detail":"no","hint":"ask","policy":{"decision":"deny","by":"policy"}}`, sandbox.Error{Cause: sandbox.CauseDenied, Message: "no", Hint: "ask", Judgment: &sandbox.Judgment{By: sandbox.ByPolicy}}},
		"fields":     {422, `{"code":"invalid_command","detail":"bad","hint":"fix","errors":[{"location":"body.x","message":"unknown"}]}`, sandbox.Error{Cause: sandbox.CauseInvalid, Message: "bad; body.x: unknown", Hint: "fix"}},
		"no cause":   {404, `{"code":"not_found","detail":"gone","hint":"look"}`, sandbox.Error{Cause: sandbox.CauseInvalid, Message: "gone", Hint: "see what there is: belljar ps, belljar logs, belljar session ls"}},
		"failing":    {500, `{"code":"internal","detail":"oh"}`, sandbox.Error{Cause: sandbox.CauseEngine, Message: "oh", Hint: "see the sidecar's log"}},
		"never ours": {400, `{"code":"exited","detail":"oh"}`, sandbox.Error{Cause: sandbox.CauseInvalid, Message: "oh", Hint: "see the sidecar's documentation"}},
		"no token":   {401, `{"code":"unauthorized","detail":"who"}`, sandbox.Error{Cause: sandbox.CauseInvalid, Message: "who", Hint: "set BELLJAR_TOKEN or BELLJAR_TOKEN_FILE to a token of the sidecar"}},
	} {
		s := newSidecar(t)
		s.HandleFunc("POST /v1/executions", func(w http.ResponseWriter, _ *http.Request) { refuse(w, test.status, test.body) })
		x, err := s.Start(t.Context(), sandbox.Command{Script: "echo"})
		got, ok := err.(*sandbox.Error) //nolint:errorlint // it is one, not one inside another
		if x != nil || !ok || fmt.Sprintf("%+v", *got) != fmt.Sprintf("%+v", test.want) && test.want.Judgment == nil || got.Cause != test.want.Cause || (got.Judgment == nil) != (test.want.Judgment == nil) {
			t.Errorf("%s: %#v, want %#v", name, err, test.want)
		}
	}
}

// What is no sidecar at all.
func TestNoSidecar(t *testing.T) {
	s := newSidecar(t, func(c *client.Config) { c.LostAfter = 100 * time.Millisecond })
	s.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "<html>"+strings.Repeat("x", 1<<21), http.StatusBadGateway)
	})
	_, err := s.Start(t.Context(), sandbox.Command{Script: "echo"})
	if wantCause(t, "a page", err, sandbox.CauseEngine, "502 Bad Gateway"); len(err.Error()) > 1000 {
		t.Errorf("%d bytes of message", len(err.Error()))
	}
	s.server.Close()
	_, err = s.Start(t.Context(), sandbox.Command{Script: "echo"})
	wantCause(t, "nothing", err, sandbox.CauseEngine, "belljar serve")
	_, err = s.Sessions(t.Context())
	wantCause(t, "nothing", err, sandbox.CauseEngine, "belljar serve")
}

// Canceling ends the command there, also one whose acceptance is not known yet.
func TestCancel(t *testing.T) {
	lines := eventLines(t, "x")
	for _, accepted := range []bool{true, false} {
		s := newSidecar(t)
		posted, canceled := make(chan struct{}), make(chan struct{})
		s.HandleFunc("POST /v1/executions", func(w http.ResponseWriter, _ *http.Request) {
			if accepted {
				accept(w, "x")
				io.WriteString(w, lines[0])
				w.(http.Flusher).Flush()
			}
			close(posted)
			<-canceled
			if accepted {
				io.WriteString(w, lines[1])
			}
		})
		s.HandleFunc("DELETE /v1/executions/x", func(http.ResponseWriter, *http.Request) { close(canceled) })
		ctx, cancel := context.WithCancel(t.Context())
		if !accepted {
			go func() { <-posted; cancel() }()
		}
		x, err := s.Start(ctx, sandbox.Command{ID: "x", Script: "echo"})
		if accepted {
			cancel()
			_, err = x.Wait()
		}
		if cancel(); accepted && err != nil || !accepted && sandbox.CauseOf(err) != sandbox.CauseCanceled {
			t.Errorf("accepted %v: %v", accepted, err)
		}
		<-canceled
	}
}

// What is held is forgotten with its connection: then it is asked for again.
func TestHeldAgain(t *testing.T) {
	lines := eventLines(t, "x", "one\n")
	s := newSidecar(t)
	s.HandleFunc("POST /v1/executions", func(w http.ResponseWriter, r *http.Request) {
		accept(w, "x")
		if r.URL.Query().Get("hold") != "1" {
			io.WriteString(w, strings.Join(lines, ""))
		}
	})
	s.HandleFunc("POST /v1/executions/x/start", func(w http.ResponseWriter, _ *http.Request) { refuse(w, 404, `{"code":"not_found"}`) })
	p, err := s.Prepare(t.Context(), sandbox.Command{Script: "echo"})
	if err != nil {
		t.Fatal(err)
	}
	x, err := p.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if list := collect(t, x); said(list) != "one\n" {
		t.Errorf("%v", list)
	}
}
