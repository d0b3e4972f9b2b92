package docker_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/docker/docker/client"
)

// A command that is canceled while the engine takes longer than it is waited for is canceled: that
// the engine did not answer is no failure of the engine.
func TestCanceledWhileTheEngineIsSlow(t *testing.T) {
	for _, what := range []string{"/containers/create", "/start"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			real := connect(t)
			waits := make(chan struct{}, 10)
			engine := connectTo(t, "unix://"+slowEngine(t, real.Host(), what, waits))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				<-waits
				cancel()
			}()
			if _, err := engine.Create(ctx, specOf(baseImage(t, real))); !errors.Is(err, context.Canceled) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// slowEngine is a socket of the engine at host. A request whose path ends in what is told of, and is not
// answered until its caller leaves.
func slowEngine(t *testing.T, host, what string, waits chan<- struct{}) (socket string) {
	address, err := client.ParseHostURL(host)
	if err != nil {
		t.Fatal(err)
	}
	var dialed sync.Map // the engine leaves attachments open whose container never started
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, address.Scheme, address.Host+address.Path)
		if err == nil {
			dialed.Store(conn, true)
		}
		return conn, err
	}}
	t.Cleanup(func() {
		for conn := range dialed.Range {
			conn.(net.Conn).Close()
		}
	})
	t.Cleanup(transport.CloseIdleConnections)
	proxy := &httputil.ReverseProxy{Transport: transport, FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host = "http", "engine"
	}}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, what) {
			io.Copy(io.Discard, r.Body) // or its end is not noticed
			waits <- struct{}{}
			<-r.Context().Done()
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	socket = filepath.Join(t.TempDir(), "docker.sock")
	server.Listener.Close()
	if server.Listener, err = net.Listen("unix", socket); err != nil {
		t.Fatal(err)
	}
	server.Start()
	t.Cleanup(server.Close)
	return socket
}
