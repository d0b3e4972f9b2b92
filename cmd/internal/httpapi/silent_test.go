package httpapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"belljar/cmd/internal/access"
	"belljar/sandbox"
	"belljar/sandbox/sandboxtest"
)

// pipeWriter is an answer that is read while it is written.
type pipeWriter struct {
	*httptest.ResponseRecorder
	to    *io.PipeWriter
	begun chan int // the status
	once  sync.Once
}

func (p *pipeWriter) WriteHeader(status int) { p.once.Do(func() { p.begun <- status }) }

func (p *pipeWriter) Write(b []byte) (int, error) {
	p.FlushError()
	return p.to.Write(b)
}

func (p *pipeWriter) FlushError() error {
	p.once.Do(func() { p.begun <- http.StatusOK })
	return nil
}

func (p *pipeWriter) SetWriteDeadline(time.Time) error { return nil }

// asks asks a sidecar without a connection, and returns the status once the answer begins.
func (s *sidecar) asks(ctx context.Context, method, path, body, accept string) (begun <-chan int, answer *bufio.Reader) {
	h, _ := s.api.Handler()
	from, to := io.Pipe()
	w := &pipeWriter{ResponseRecorder: httptest.NewRecorder(), to: to, begun: make(chan int, 1)}
	r := httptest.NewRequestWithContext(access.With(ctx, callers["ann"]), method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", accept)
	go func() {
		defer to.Close()
		h.ServeHTTP(w, r)
	}()
	return w.begun, bufio.NewReader(from)
}

// A proxy ends a request that is silent for a minute. Once a bug: one that waited for an approval, or
// for the end of its command, was.
func TestSilentRequests(t *testing.T) {
	for _, accept := range []string{"application/json", "application/x-ndjson"} {
		for _, answer := range []sandbox.Answer{sandbox.AnswerOnce, sandbox.AnswerDeny} {
			synctest.Test(t, func(t *testing.T) {
				s := newAPI(t, func(*sandboxtest.Proc) int { time.Sleep(2 * time.Minute); return 3 })
				began := time.Now()
				begun, text := s.asks(t.Context(), http.MethodPost, "/v1/executions", `{"command": "echo asked", "id": "x"}`, accept)
				if status := <-begun; status != http.StatusOK || time.Since(began) > 16*time.Second {
					t.Errorf("%s: %d after %v", accept, status, time.Since(began))
				}
				go func() {
					time.Sleep(40 * time.Second)
					for _, q := range s.api.Approvals.Waiting() {
						s.api.Approvals.Answer(q.ID, q.Name, sandbox.Approval{Answer: answer, By: "judge"})
					}
				}()
				last, result := time.Now(), sandbox.Result{}
				for result.ID == "" {
					line, err := text.ReadBytes('\n')
					if err != nil && (len(line) == 0 || !errors.Is(err, io.EOF)) {
						t.Fatal(err)
					}
					if quiet := time.Since(last); quiet > 16*time.Second {
						t.Errorf("%s: silent for %v", accept, quiet)
					}
					last = time.Now()
					var e struct {
						ID     string
						Result *sandbox.Result
					}
					if len(line) > 1 && json.Unmarshal(line, &e) != nil {
						t.Fatalf("%s", line)
					}
					switch {
					case e.Result != nil:
						result = *e.Result
					case e.ID != "":
						if err := json.Unmarshal(line, &result); err != nil {
							t.Fatal(err)
						}
					}
				}
				want := map[sandbox.Answer]sandbox.Status{sandbox.AnswerOnce: sandbox.StatusError, sandbox.AnswerDeny: sandbox.StatusDenied}[answer]
				if rest, err := io.ReadAll(text); len(rest) > 0 || err != nil || result.Status != want {
					t.Errorf("%s, %s: %s, then %q, %v", accept, answer, result.Status, rest, err)
				}
			})
		}
	}
}

// Once a bug: lines of output had no sign of life while a command wrote nothing.
func TestSilentOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPI(t, func(p *sandboxtest.Proc) int { time.Sleep(time.Minute); io.WriteString(p.Stdout, "late\n"); return 0 })
		begun, text := s.asks(t.Context(), http.MethodPost, "/v1/executions?wait=0", `{"command": "hello", "id": "x"}`, "")
		if answer, err := io.ReadAll(text); <-begun != http.StatusAccepted || err != nil {
			t.Fatalf("%v: %s", err, answer)
		}
		begun, text = s.asks(t.Context(), http.MethodGet, "/v1/executions/x/output?follow=true", "", "application/x-ndjson")
		if status := <-begun; status != http.StatusOK {
			t.Fatal(status)
		}
		beats := 0
		for last := time.Now(); ; last = time.Now() {
			line, err := text.ReadString('\n')
			if errors.Is(err, io.EOF) {
				break
			}
			if quiet := time.Since(last); err != nil || quiet > 16*time.Second {
				t.Fatalf("%v, silent for %v", err, quiet)
			}
			if line == "\n" {
				beats++
			} else if !strings.Contains(line, `"data":"late\n"`) {
				t.Errorf("%q", line)
			}
		}
		if beats < 3 {
			t.Errorf("%d empty lines", beats)
		}
	})
}

// So does who waits for an execution's end, by another request.
func TestSilentWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAPI(t, func(*sandboxtest.Proc) int { time.Sleep(time.Minute); return 3 })
		begun, text := s.asks(t.Context(), http.MethodPost, "/v1/executions?wait=0", `{"command": "hello", "id": "x"}`, "")
		if answer, err := io.ReadAll(text); <-begun != http.StatusAccepted || err != nil {
			t.Fatalf("%v: %s", err, answer)
		}
		for _, wait := range []string{"40", "3600"} {
			began := time.Now()
			begun, text = s.asks(t.Context(), http.MethodGet, "/v1/executions/x?wait="+wait, "", "")
			if status := <-begun; status != http.StatusOK || time.Since(began) > 16*time.Second {
				t.Errorf("%d after %v", status, time.Since(began))
			}
			var x known
			answer, err := io.ReadAll(text)
			if err != nil || json.Unmarshal(answer, &x) != nil || (x.State == "ended") != (wait == "3600") || (x.Result != nil) != (wait == "3600") {
				t.Errorf("%v: %q", err, answer)
			}
		}
	})
}
