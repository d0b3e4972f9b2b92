package client_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"belljar/sandbox"
)

// Once a bug: what a proxy says in the sidecar's place was the end, also of a command that the
// sidecar ran.
func TestThroughProxy(t *testing.T) {
	lines := eventLines(t, "x", "one\n")
	for _, status := range []int{http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout} {
		synctest.Test(t, func(t *testing.T) {
			s := timed(t)
			asked := map[string]int{}
			proxied := func(answer http.HandlerFunc) http.HandlerFunc {
				return func(w http.ResponseWriter, r *http.Request) {
					if asked[r.Method+r.URL.Path]++; asked[r.Method+r.URL.Path] < 3 {
						http.Error(w, "<html>", status)
						return
					}
					answer(w, r)
				}
			}
			keys := map[string]bool{}
			s.HandleFunc("POST /v1/executions", func(w http.ResponseWriter, r *http.Request) {
				keys[r.Header.Get("Idempotency-Key")] = true
				proxied(func(w http.ResponseWriter, _ *http.Request) {
					accept(w, "x")
					io.WriteString(w, strings.Join(lines, ""))
				})(w, r)
			})
			s.HandleFunc("GET /v1/executions", proxied(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"executions":[{"id":"x"}]}`) }))
			s.HandleFunc("DELETE /v1/executions/x", proxied(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"id":"x","state":"running"}`) }))
			if r, err := sandbox.Run(t.Context(), s, sandbox.Command{Script: "echo"}); err != nil || string(r.Stdout.Bytes()) != "one\n" || len(keys) != 1 {
				t.Errorf("%d: %s, %v, %d keys", status, r.Stdout.Bytes(), err, len(keys))
			}
			if list, err := s.Logs(t.Context()); err != nil || len(list) != 1 {
				t.Errorf("%d: %v, %v", status, list, err)
			}
			if err := s.End(t.Context(), "x", ""); err != nil {
				t.Errorf("%d: %v", status, err)
			}
		})
	}
}

// An answer that began before it was clear whether the command may run ends with its refusal.
func TestRefusedLate(t *testing.T) {
	s := newSidecar(t)
	s.HandleFunc("POST /v1/executions", func(w http.ResponseWriter, _ *http.Request) {
		accept(w, "x")
		io.WriteString(w, "\n\n"+`{"type":"result","seq":1,"ts":"2026-01-01T00:00:00Z","result":{"id":"x","status":"denied","cause":"denied","exit_code":-2,"message":"no","error":{"cause":"denied","message":"no","hint":"ask"}}}`+"\n")
	})
	r, err := sandbox.Run(t.Context(), s, sandbox.Command{Script: "echo"})
	if wantCause(t, "denied", err, sandbox.CauseDenied, "no"); r.Status != sandbox.StatusDenied || r.ExitCode != sandbox.ExitNeverRan {
		t.Errorf("%+v", r)
	}
}

// Who waits for an end does so also where the sidecar starts again meanwhile. Once a bug: that was the end.
func TestAwaitThroughRestart(t *testing.T) {
	for _, out := range []time.Duration{20 * time.Second, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			s := timed(t)
			var back time.Time
			s.Dial(func(ctx context.Context, network, address string) (net.Conn, error) {
				if time.Now().Before(back) {
					return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
				}
				return s.dial(ctx, network, address)
			})
			asked := 0
			s.HandleFunc("GET /v1/executions/x", func(w http.ResponseWriter, _ *http.Request) {
				switch asked++; asked {
				case 1:
					time.Sleep(30 * time.Second)
					io.WriteString(w, `{"id":"x","state":"running"}`)
				case 2:
					back = time.Now().Add(out)
					panic(http.ErrAbortHandler)
				default:
					io.WriteString(w, `{"id":"x","state":"ended","result":{"id":"x","status":"success","cause":"exited"}}`)
				}
			})
			r, _, err := s.Await(t.Context(), "x")
			if out == time.Minute {
				wantCause(t, "it is gone", err, sandbox.CauseEngine, "connecting to the sidecar")
			} else if err != nil || r.Status != sandbox.StatusSuccess {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}
