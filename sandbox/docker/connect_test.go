package docker_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/docker"
)

// serve is an engine's socket behind which handler answers.
func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "docker.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: handler}}
	server.Start()
	t.Cleanup(server.Close)
	return "unix://" + socket
}

func speaking(version string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Api-Version", version) }
}

func TestConnectErrors(t *testing.T) {
	dead := filepath.Join(t.TempDir(), "dead.sock")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: dead, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	listener.SetUnlinkOnClose(false)
	listener.Close()

	for name, test := range map[string]struct {
		host, version string
		want          string
	}{
		"no socket":     {"unix:///no/such/docker.sock", "", "no engine at unix:///no/such/docker.sock: the socket does not exist (install and start one"},
		"nobody there":  {"unix://" + dead, "", "does not answer"},
		"unusable host": {"nonsense", "", `invalid engine host "nonsense"`},
		"ssh option":    {"ssh://-oProxyCommand=x", "", "its host is not allowed (write ssh://USER@HOST"},
		"ssh user":      {"ssh://-oProxyCommand=x@host", "", "its user is not allowed"},
		"ssh words":     {"ssh://a;b@host", "", "its user is not allowed"},
		"ssh space":     {"ssh://a%20b@host", "", "its user is not allowed"},
		"ssh expansion": {"ssh://$(id)@host", "", "its user is not allowed"},
		"ssh password":  {"ssh://user:hidden-word@host", "", "invalid engine host: it has a password"},
		"ssh query":     {"ssh://host?x=y", "", "query parameters are not allowed"},
		"ssh nothing":   {"ssh://", "", "its host is not allowed"},
		"ssh unreached": {"ssh://127.0.0.1:1", "", "the engine at ssh://127.0.0.1:1 does not answer: "},
		"no HTTP":       {serve(t, func(w http.ResponseWriter, _ *http.Request) { hangUp(w, "SSH-2.0\r\n") }), "", "does not answer"},
		"hangs up":      {serve(t, func(w http.ResponseWriter, _ *http.Request) { hangUp(w, "") }), "", "does not answer"},
		"failing":       {serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }), "", "asking the engine at unix://"},
		"slow":          {serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }), "", "context deadline exceeded"},
		"too old":       {serve(t, speaking("1.40")), "", "is too old: the lock-down needs 1.41"},
		"asked too new": {serve(t, speaking("1.41")), "1.47", "supports API 1.41 at most, but 1.47 is set (unset DOCKER_API_VERSION)"},
		"asked too old": {serve(t, speaking("1.41")), "1.30", "is too old: the lock-down needs 1.41"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("DOCKER_API_VERSION", test.version)
			patience := time.Minute
			if name == "slow" {
				patience = 50 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			engine, err := docker.Connect(ctx, test.host)
			if err == nil {
				engine.Close()
				t.Fatal("connected")
			}
			var e *sandbox.Error
			if !errors.As(err, &e) || e.Cause != sandbox.CauseEngine || e.Hint == "" || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hidden-word") {
				t.Errorf("error %v, want %s", err, test.want)
			}
		})
	}
}

// After a cancellation the error says so, and blames no engine.
func TestConnectIsCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	host := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	if _, err := docker.Connect(ctx, host); sandbox.CauseOf(err) != sandbox.CauseCanceled {
		t.Errorf("error %v", err)
	}
}

// hangUp answers with something else than HTTP.
func hangUp(w http.ResponseWriter, text string) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		conn.Write([]byte(text))
		conn.Close()
	}
}

func TestCreateErrors(t *testing.T) {
	for _, test := range []struct {
		status  int
		cause   sandbox.Cause
		want    string
		removed bool // whatever an engine that did not refuse may have made
	}{
		{404, sandbox.CauseImage, `image "belljar/base" no longer exists`, false},
		{400, sandbox.CauseInvalid, "the engine rejects the container", false},
		{409, sandbox.CauseInvalid, `a command with the ID "one" is already running`, false},
		{500, sandbox.CauseEngine, "creating the container", true},
		{507, sandbox.CauseEngine, "creating the container", false},
	} {
		var mu sync.Mutex
		var asked []string
		var config struct{ Labels map[string]string }
		host := serve(t, func(w http.ResponseWriter, r *http.Request) {
			_, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
			mu.Lock()
			asked = append(asked, r.Method+" "+path)
			mu.Unlock()
			switch path {
			case "": // the ping
				w.Header().Set("Api-Version", "1.41")
			case "events":
				http.NewResponseController(w).Flush()
				<-r.Context().Done()
			case "containers/belljar-one/json": // as it was asked for
				if !test.removed {
					w.WriteHeader(http.StatusNotFound)
					return
				}
				json.NewEncoder(w).Encode(map[string]any{"Id": "made", "Config": config})
			case "containers/create":
				json.NewDecoder(r.Body).Decode(&config)
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(test.status)
				fmt.Fprint(w, `{"message":"because"}`)
			}
		})
		engine, err := docker.Connect(t.Context(), host)
		if err != nil {
			t.Fatal(err)
		}
		_, err = engine.Create(t.Context(), sandbox.Spec{Command: "one", User: sandbox.User{UID: 1, GID: 1}, Image: sandbox.Image{Reference: "belljar/base"}})
		if sandbox.CauseOf(err) != test.cause || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%d: error %v, want %s: %s", test.status, err, test.cause, test.want)
		}
		if n := docker.Guarded(engine); n > 0 {
			t.Errorf("%d: %d are still guarded", test.status, n)
		}
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
		mu.Lock()
		if removed := slices.Contains(asked, "DELETE containers/made"); removed != test.removed {
			t.Errorf("%d: removed %v, asked %q", test.status, removed, asked)
		}
		mu.Unlock()
	}
}

// An engine that never answers the upgrade of a connection does not hold the
// call past its context, however it is reached.
func TestUpgradeEndsWithItsContext(t *testing.T) {
	for name, at := range map[string]func(t *testing.T, handler http.HandlerFunc) string{
		"socket": serve,
		"TCP": func(t *testing.T, handler http.HandlerFunc) string {
			server := httptest.NewServer(handler)
			t.Cleanup(server.Close)
			return "tcp://" + server.Listener.Addr().String()
		},
		"TLS": func(t *testing.T, handler http.HandlerFunc) string {
			return inContext(t, handler, true, false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			over := make(chan struct{})
			t.Cleanup(func() { close(over) })
			host := at(t, func(w http.ResponseWriter, r *http.Request) {
				_, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
				switch path {
				case "": // the ping
					w.Header().Set("Api-Version", "1.41")
				case "events":
					http.NewResponseController(w).Flush()
					<-r.Context().Done()
				case "containers/create":
					w.WriteHeader(http.StatusCreated)
					fmt.Fprint(w, `{"Id":"made"}`)
				case "containers/made/archive": // no user files
					w.WriteHeader(http.StatusNotFound)
				case "containers/made/attach":
					cancel()
					select {
					case <-r.Context().Done():
					case <-over:
					}
				}
			})
			engine, err := docker.Connect(t.Context(), host)
			if err != nil {
				t.Fatal(err)
			}
			defer engine.Close()
			made := make(chan error, 1)
			go func() {
				_, err := engine.Create(ctx, sandbox.Spec{Command: "one", User: sandbox.User{UID: 1, GID: 1}})
				made <- err
			}()
			select {
			case err := <-made:
				if !errors.Is(err, context.Canceled) {
					t.Errorf("error %v", err)
				}
			case <-time.After(time.Minute):
				t.Error("it waits for ever")
			}
		})
	}
}

// inContext is an engine with TLS that the current docker context names, so its host is not given.
// The context has the engine's authority, or trusts whoever answers, or neither.
func inContext(t *testing.T, handler http.HandlerFunc, known, trusted bool) (host string) {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	dir, digest := t.TempDir(), fmt.Sprintf("%x", sha256.Sum256([]byte("safe")))
	files := map[string]string{
		"config.json":                            `{"currentContext":"safe"}`,
		"contexts/meta/" + digest + "/meta.json": fmt.Sprintf(`{"Endpoints":{"docker":{"Host":"tcp://%s","SkipTLSVerify":%v}}}`, server.Listener.Addr(), trusted),
	}
	if known {
		files["contexts/tls/"+digest+"/docker/ca.pem"] = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	}
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("DOCKER_CONFIG", dir)
	for _, name := range []string{"DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY"} {
		t.Setenv(name, "")
	}
	return ""
}

// A docker context's settings of TLS hold: its engine is not asked without them.
func TestContextHasTLS(t *testing.T) {
	for _, test := range []struct {
		known, trusted, connects bool
	}{{true, false, true}, {false, true, true}, {false, false, false}} {
		t.Run(fmt.Sprint(test), func(t *testing.T) {
			engine, err := docker.Connect(t.Context(), inContext(t, speaking("1.41"), test.known, test.trusted))
			if (err == nil) != test.connects {
				t.Errorf("error %v", err)
			}
			if err == nil {
				engine.Close()
			}
		})
	}
	t.Run("no authority", func(t *testing.T) {
		inContext(t, speaking("1.41"), true, false)
		files, err := filepath.Glob(os.Getenv("DOCKER_CONFIG") + "/contexts/tls/*/docker/ca.pem")
		if err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		if err := os.WriteFile(files[0], []byte("nonsense"), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := docker.Connect(t.Context(), ""); sandbox.CauseOf(err) != sandbox.CauseEngine || !strings.Contains(fmt.Sprint(err), "docker context inspect") {
			t.Errorf("error %v", err)
		}
	})
}
