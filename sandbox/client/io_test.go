package client_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"belljar/sandbox"
)

// Stdin arrives once, although answers and parts of requests are lost.
func TestStdinAgain(t *testing.T) {
	s := newSidecar(t)
	var mu sync.Mutex
	var typed bytes.Buffer
	ended, tries := make(chan struct{}), 0
	lines := eventLines(t, "x")
	s.HandleFunc("POST /v1/executions", func(w http.ResponseWriter, _ *http.Request) {
		accept(w, "x")
		io.WriteString(w, lines[0])
		w.(http.Flusher).Flush()
		<-ended
		io.WriteString(w, lines[1])
	})
	s.HandleFunc("POST /v1/executions/x/stdin", func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		part, _ := io.ReadAll(r.Body)
		offset, _ := strconv.Atoi(r.URL.Query().Get("offset"))
		if tries++; tries%3 == 1 {
			panic(http.ErrAbortHandler) // nothing was typed
		}
		if offset > typed.Len() || offset+len(part) < typed.Len() {
			t.Errorf("%d bytes at %d, after %d", len(part), offset, typed.Len())
			return
		}
		typed.Write(part[typed.Len()-offset:])
		if tries%3 == 2 {
			panic(http.ErrAbortHandler) // the answer is lost
		}
		if r.URL.Query().Get("eof") == "1" {
			close(ended)
		}
	})
	want := bytes.Repeat([]byte("0123456789\x00\xff"), 100_000)
	if _, err := sandbox.Run(t.Context(), s, sandbox.Command{Script: "cat", Stdin: bytes.NewReader(want)}); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(typed.Bytes(), want) {
		t.Errorf("%d bytes of %d", typed.Len(), len(want))
	}
}

// A stdin that blocks is unblocked at the end, where it can be.
func TestStdinDeadline(t *testing.T) {
	s := newSidecar(t)
	s.HandleFunc("POST /v1/executions", func(w http.ResponseWriter, _ *http.Request) {
		accept(w, "x")
		io.WriteString(w, strings.Join(eventLines(t, "x"), ""))
	})
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if _, err := sandbox.Run(t.Context(), s, sandbox.Command{Script: "true", Stdin: r}); err != nil {
		t.Fatal(err)
	}
	io.WriteString(w, "next")
	if text := make([]byte, 4); true {
		if _, err := r.Read(text); err != nil || string(text) != "next" {
			t.Errorf("%q, %v: it is not the caller's any more", text, err)
		}
	}
}

// A reader loses nothing and gets nothing twice, wherever its connection is cut.
func TestReaderCutAnywhere(t *testing.T) {
	const text = `{"stream":"stdout","offset":0,"missed":0,"data":"one\n"}` + "\n\n" +
		`{"stream":"stderr","offset":104,"missed":100,"data":"dHdvCg==","encoding":"base64"}` + "\n" +
		`{"stream":"stdout","offset":108,"missed":0,"data":"three\n"}` + "\n"
	lines := strings.SplitAfter(text, "\n")
	for at := range len(text) {
		s := newSidecar(t)
		first := true
		s.HandleFunc("GET /v1/executions/x/output", func(w http.ResponseWriter, r *http.Request) {
			from := map[string]int{"0": 0, "4": 2, "108": 3, "114": 4}[r.URL.Query().Get("offset")]
			rest := strings.Join(lines[from:], "")
			if first {
				first = false
				io.WriteString(w, rest[:min(at, len(rest))])
				cut(w)
			}
			io.WriteString(w, rest)
		})
		r, err := s.ReadLog(t.Context(), "x", sandbox.Merged, 0)
		if err != nil {
			t.Fatal(err)
		}
		got, missed := "", int64(0)
		for {
			c, err := r.Next(t.Context())
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("cut at %d: %v", at, err)
			}
			got, missed = got+string(c.Data), missed+c.Missed
		}
		if r.Close(); got != "one\ntwo\nthree\n" || missed != 100 {
			t.Errorf("cut at %d: %q, missed %d", at, got, missed)
		}
	}
}

// Of the caller's environment only what the command names is sent.
func TestEnvironment(t *testing.T) {
	s := newSidecar(t)
	bodies := make(chan map[string]any, 1)
	s.HandleFunc("POST /v1/executions", func(w http.ResponseWriter, r *http.Request) {
		var body map[string]any
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		bodies <- body
		refuse(w, 422, `{}`)
	})
	s.Start(t.Context(), sandbox.Command{
		Script: "\xff", Env: []string{"A=1", "B", "C", "E="}, Inherit: []string{"B=of the caller", "D=secret", "A=other"},
		IdleTimeout: sandbox.NoIdleTimeout, StopGrace: time.Minute, User: sandbox.User{UID: 7, GID: 8},
	})
	got, _ := json.Marshal(<-bodies)
	for _, want := range []string{`"env":{"A":"1","E":""}`, `"inherit":["B=of the caller","C"]`, `"command":"/w==","command_encoding":"base64"`, `"idle_timeout_seconds":0`, `"stop_grace_seconds":60`, `"user":"7:8"`} {
		if !bytes.Contains(got, []byte(want)) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	if bytes.Contains(got, []byte("secret")) || bytes.Contains(got, []byte("limits")) || bytes.Contains(got, []byte("timeout_seconds\":0,\"t")) {
		t.Errorf("too much is sent: %s", got)
	}
	_, err := s.Start(t.Context(), sandbox.Command{Script: "x", Env: []string{"A=\xff"}})
	wantCause(t, "a variable that is no text", err, sandbox.CauseInvalid, "UTF-8")
}
