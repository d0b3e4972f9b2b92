package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/client"
)

// inMemory are connections that stop no bubble's clock.
type inMemory struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l inMemory) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l inMemory) Close() error {
	close(l.closed)
	return nil
}

func (l inMemory) Addr() net.Addr { return &net.UnixAddr{} }

func (l inMemory) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, its := net.Pipe()
	select {
	case l.conns <- its:
		return ours, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// timed is a sidecar in the test's bubble.
func timed(t *testing.T, change ...func(*client.Config)) *sidecar {
	t.Helper()
	s := &sidecar{ServeMux: http.NewServeMux()}
	config := client.Config{Host: "http://sidecar"}
	for _, change := range change {
		change(&config)
	}
	var err error
	if s.Client, err = client.New(config); err != nil {
		t.Fatal(err)
	}
	l := inMemory{make(chan net.Conn), make(chan struct{})}
	s.dial = l.dial
	s.Dial(s.dial)
	s.server = &httptest.Server{Listener: l, Config: &http.Server{Handler: s}}
	s.server.Start()
	t.Cleanup(func() {
		s.Close()
		s.server.Config.Close()
	})
	return s
}

// quiet shows for a time only that it is alive, if beats.
func quiet(w http.ResponseWriter, r *http.Request, long time.Duration, beats bool) {
	for end := time.Now().Add(long); time.Now().Before(end) && r.Context().Err() == nil; {
		select {
		case <-time.After(min(15*time.Second, time.Until(end))):
		case <-r.Context().Done():
		}
		if beats && time.Now().Before(end) {
			io.WriteString(w, "\n")
			w.(http.Flusher).Flush()
		}
	}
}

// Once a bug: a quiet command was lost where its events were cut a second time, as only an event
// counted as an answer. Nor is it lost with its output, of which a quiet one shows no sign.
func TestQuietCommand(t *testing.T) {
	lines := eventLines(t, "x", "one\n")
	for name, test := range map[string]struct {
		lasts time.Duration // of a connection
		beats bool
	}{
		"two cuts":                {40 * time.Second, true},
		"a proxy that cuts":       {20 * time.Second, false},
		"often":                   {3 * time.Second, false},
		"a network that forgets":  {time.Hour, false},
		"a proxy of a long time":  {9 * time.Minute, true},
		"a proxy, before silence": {59 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := timed(t)
				ends := time.Now().Add(10 * time.Minute)
				s.HandleFunc("POST /v1/executions", func(w http.ResponseWriter, _ *http.Request) {
					accept(w, "x")
					io.WriteString(w, lines[0])
					cut(w)
				})
				s.HandleFunc("GET /v1/executions/x/events", func(w http.ResponseWriter, r *http.Request) {
					accept(w, "x")
					if time.Now().Before(ends) {
						quiet(w, r, test.lasts, test.beats)
						cut(w)
					}
					io.WriteString(w, strings.Join(lines[after(r):], ""))
				})
				s.HandleFunc("GET /v1/executions/x/output", func(w http.ResponseWriter, r *http.Request) {
					accept(w, "x")
					switch {
					case r.URL.Query().Get("follow") == "":
						return
					case time.Now().Before(ends):
						quiet(w, r, test.lasts, false)
						cut(w)
					case r.URL.Query().Get("offset") == "0":
						io.WriteString(w, `{"stream":"stdout","offset":0,"data":"one\n"}`+"\n")
					}
				})
				x, err := s.Start(t.Context(), sandbox.Command{Script: "sleep 600; echo one"})
				if err != nil {
					t.Fatal(err)
				}
				output, err := x.Read(t.Context(), sandbox.Stdout, 0)
				if err != nil {
					t.Fatal(err)
				}
				defer output.Close()
				if list := collect(t, x); said(list) != "one\n" || list[len(list)-1].Result.Status != sandbox.StatusSuccess {
					t.Errorf("%v", list)
				}
				if c, err := output.Next(t.Context()); string(c.Data) != "one\n" || err != nil {
					t.Errorf("output %q, %v", c.Data, err)
				}
			})
		})
	}
}

// The output's reader waits by itself as long as a command is quiet, also where that is longer
// than a sidecar may be out of reach. Once a bug: one that ended a connection before it answered
// ended the output.
func TestQuietOutput(t *testing.T) {
	for name, broken := range map[string]func(w http.ResponseWriter, r *http.Request){
		"cut": func(w http.ResponseWriter, r *http.Request) {
			accept(w, "x")
			quiet(w, r, 20*time.Second, false)
			cut(w)
		},
		"silent":    func(w http.ResponseWriter, r *http.Request) { accept(w, "x"); <-r.Context().Done() },
		"no answer": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"a proxy's": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>", http.StatusBadGateway) },
	} {
		for _, lostAfter := range []time.Duration{30 * time.Second, 5 * time.Minute} {
			synctest.Test(t, func(t *testing.T) {
				s := timed(t, func(c *client.Config) { c.LostAfter = lostAfter })
				asked := 0
				s.HandleFunc("GET /v1/executions/x/output", func(w http.ResponseWriter, r *http.Request) {
					switch asked++; {
					case asked == 1:
						accept(w, "x")
					case asked < 8:
						broken(w, r)
					default:
						accept(w, "x")
						io.WriteString(w, `{"stream":"stdout","offset":0,"data":"one\n"}`+"\n")
					}
				})
				r, err := s.ReadLog(t.Context(), "x", sandbox.Stdout, 0)
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				if c, err := r.Next(t.Context()); string(c.Data) != "one\n" || err != nil {
					t.Errorf("%s, %v: %q, %v", name, lostAfter, c.Data, err)
				}
				if _, err := r.Next(t.Context()); !errors.Is(err, io.EOF) {
					t.Errorf("%s, %v: %v", name, lostAfter, err)
				}
			})
		}
	}
}

// What answers without being a sidecar, or cannot read its events, has lost the command, 30 s
// after it was last there.
func TestLostInTime(t *testing.T) {
	lines := eventLines(t, "x")
	for name, test := range map[string]struct {
		events http.HandlerFunc
		why    string
	}{
		"a page":       {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") }, "EOF"},
		"cut at once":  {func(w http.ResponseWriter, _ *http.Request) { accept(w, "x"); cut(w) }, "EOF"},
		"ended":        {func(w http.ResponseWriter, _ *http.Request) { accept(w, "x") }, "EOF"},
		"nothing":      {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
		"no events":    {func(w http.ResponseWriter, _ *http.Request) { accept(w, "x"); io.WriteString(w, "[]\n") }, "cannot unmarshal"},
		"a proxy":      {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>", http.StatusBadGateway) }, "502"},
		"its engine's": {func(w http.ResponseWriter, _ *http.Request) { refuse(w, 502, `{"code":"engine_error","detail":"oh"}`) }, "oh"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := timed(t)
			s.HandleFunc("POST /v1/executions", func(w http.ResponseWriter, r *http.Request) {
				accept(w, "x")
				io.WriteString(w, lines[0])
				quiet(w, r, time.Hour, true)
				cut(w)
			})
			s.HandleFunc("GET /v1/executions/x/events", test.events)
			began := time.Now()
			r, err := sandbox.Run(t.Context(), s, sandbox.Command{Script: "x"})
			took := time.Since(began)
			if wantCause(t, name, err, sandbox.CauseEngineLost, test.why); took < time.Hour || took > time.Hour+35*time.Second {
				t.Errorf("%s: %+v after %v", name, r, took)
			}
		})
	}
}

// Nor does output come of a sidecar that cannot read it.
func TestOutputLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := timed(t)
		s.HandleFunc("GET /v1/executions/x/output", func(w http.ResponseWriter, _ *http.Request) { accept(w, "x"); cut(w) })
		r, err := s.ReadLog(t.Context(), "x", sandbox.Stdout, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		began := time.Now()
		_, err = r.Next(t.Context())
		if took := time.Since(began); sandbox.CauseOf(err) != sandbox.CauseEngineLost || took > 35*time.Second {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// follows has a command of which a client hears that it runs, until it is ended. After an hour it
// is lost, so that a test ends that fails.
func (s *sidecar) follows(lines []string) (ended chan struct{}) {
	ended = make(chan struct{})
	s.HandleFunc("POST /v1/executions", func(w http.ResponseWriter, r *http.Request) {
		accept(w, "x")
		for text, began := lines[0], time.Now(); time.Since(began) < time.Hour; text = "\n" {
			io.WriteString(w, text)
			w.(http.Flusher).Flush()
			select {
			case <-ended:
				io.WriteString(w, lines[1])
				return
			case <-r.Context().Done():
				return
			case <-time.After(15 * time.Second):
			}
		}
		cut(w)
	})
	return ended
}

// Once a bug: stdin ended without a word, and the command waited for it, where a part that
// blocked for long was cut, or a proxy answered in the sidecar's place.
func TestStdinBlocks(t *testing.T) {
	for name, test := range map[string]struct {
		blocks time.Duration
		answer func(w http.ResponseWriter)
	}{
		"cut":     {40 * time.Second, func(http.ResponseWriter) { panic(http.ErrAbortHandler) }},
		"504":     {time.Minute, func(w http.ResponseWriter) { http.Error(w, "<html>", http.StatusGatewayTimeout) }},
		"502":     {time.Second, func(w http.ResponseWriter) { http.Error(w, "<html>", http.StatusBadGateway) }},
		"408":     {10 * time.Second, func(w http.ResponseWriter) { refuse(w, 408, `{"code":"timeout","detail":"slow"}`) }},
		"503":     {5 * time.Second, func(w http.ResponseWriter) { refuse(w, 503, `{"code":"unavailable"}`) }},
		"at once": {0, func(http.ResponseWriter) { panic(http.ErrAbortHandler) }},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := timed(t)
			ended := s.follows(eventLines(t, "x"))
			var typed bytes.Buffer
			tries := 0
			s.HandleFunc("POST /v1/executions/x/stdin", func(w http.ResponseWriter, r *http.Request) {
				part, _ := io.ReadAll(r.Body)
				if offset, _ := strconv.Atoi(r.URL.Query().Get("offset")); offset != typed.Len() || r.URL.Query().Has("failed") {
					t.Errorf("%s: %s after %d", name, r.URL, typed.Len())
				}
				if tries++; tries%10 != 0 {
					time.Sleep(test.blocks)
					test.answer(w)
					return
				}
				typed.Write(part)
				if r.URL.Query().Get("eof") == "1" {
					close(ended)
				}
			})
			want := bytes.Repeat([]byte("0123456789"), 100_000)
			r, err := sandbox.Run(t.Context(), s, sandbox.Command{Script: "cat", Stdin: bytes.NewReader(want)})
			if err != nil || !bytes.Equal(typed.Bytes(), want) {
				t.Errorf("%s: %d bytes of %d, %v, %v", name, typed.Len(), len(want), r.Cause, err)
			}
		})
	}
}

// A stdin that cannot be sent ends the command, and its result says why.
func TestStdinRefused(t *testing.T) {
	lines := eventLines(t, "x")
	canceled := strings.NewReplacer(`"cause":"exited"`, `"cause":"canceled"`, `"status":"success"`, `"status":"canceled"`).Replace(lines[1])
	for name, test := range map[string]struct {
		part, why, end int // the answers' statuses
		cause          sandbox.Cause
		text           string
	}{
		"only a part": {413, 200, 0, sandbox.CauseExited, ""},
		"all of it":   {403, 403, 200, sandbox.CauseCanceled, "sending the command's stdin: not you"},
		"everything":  {401, 401, 401, sandbox.CauseEngineLost, "sending the command's stdin: not you"},
		"it ended":    {409, 0, 0, sandbox.CauseExited, ""},
		"it is gone":  {404, 0, 0, sandbox.CauseExited, ""},
		"ended since": {413, 409, 0, sandbox.CauseExited, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := timed(t)
			all := []string{lines[0], lines[1]}
			ended := s.follows(all)
			answer := func(w http.ResponseWriter, status int) {
				if status > 299 {
					refuse(w, status, `{"code":"odd","detail":"not you"}`)
				}
				if status == 200 || status == 404 || status == 409 {
					close(ended)
				}
			}
			s.HandleFunc("POST /v1/executions/x/stdin", func(w http.ResponseWriter, r *http.Request) {
				why := r.URL.Query().Get("failed")
				if why == "" {
					answer(w, test.part)
					return
				}
				if part, _ := io.ReadAll(r.Body); len(part) > 0 || r.URL.RawQuery[:len("eof=1&")] != "eof=1&" || r.URL.Query().Get("offset") != "0" || !strings.Contains(why, "not you") {
					t.Errorf("%s: %d bytes, %s", name, len(part), r.URL)
				}
				answer(w, test.why)
			})
			s.HandleFunc("DELETE /v1/executions/x", func(w http.ResponseWriter, _ *http.Request) {
				all[1] = canceled
				answer(w, test.end)
			})
			r, err := sandbox.Run(t.Context(), s, sandbox.Command{Script: "cat", Stdin: strings.NewReader("text")})
			if r.Cause != test.cause || !strings.Contains(fmt.Sprint(r.Message), test.text) {
				t.Errorf("%s: %s, %q, %v", name, r.Cause, r.Message, err)
			}
		})
	}
}
