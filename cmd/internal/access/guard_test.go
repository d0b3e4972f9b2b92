package access

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"belljar/cmd/internal/problem"
)

// whoami answers with the identity's name.
var whoami = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	io.WriteString(w, FromContext(r.Context()).Name)
})

const testTokens = `tokens:
  - {name: ci, token: ` + secret + `, scopes: [run]}
  - {name: old, token: ` + other + `, scopes: [run], expires: 1990-01-01T00:00:00Z}
  - {name: node, cert_cn: node.example, scopes: [run]}
  - {name: gone, cert_cn: gone.example, scopes: [run], expires: 1990-01-01T00:00:00Z}
`

// serve serves the handler on the network, and returns a client and the server's URL.
func serve(t *testing.T, network string, handler http.Handler) (*http.Client, string) {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	url := ""
	if network == "unix" {
		socket := filepath.Join(t.TempDir(), "s")
		listener, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		server.Listener.Close()
		server.Listener = listener
		client.Transport.(*http.Transport).DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}
		url = "http://localhost"
	}
	server.Start()
	t.Cleanup(server.Close)
	if url == "" {
		url = server.URL
	}
	return client, url
}

// ask sends one request, whose headers may include Host.
func ask(t *testing.T, client *http.Client, method, url string, headers http.Header) (status int, header http.Header, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = headers.Clone()
	if host := headers.Get("Host"); host != "" {
		r.Host = host
	}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, answer.Header, string(text)
}

func TestGuard(t *testing.T) {
	t.Parallel()
	guard := &Guard{Tokens: load(t, testTokens), Hosts: []string{"belljar.internal", "192.0.2.7"}, Origins: []string{"https://ci.example.com"}, Log: slog.New(slog.DiscardHandler)}
	right := http.Header{"Authorization": {"Bearer " + secret}}
	with := func(pairs ...string) http.Header {
		h := http.Header{}
		for i := 0; i < len(pairs); i += 2 {
			h.Add(pairs[i], pairs[i+1])
		}
		return h
	}
	const bearer = "Bearer " + secret
	for name, test := range map[string]struct {
		network, method, path string
		headers               http.Header
		status                int
		want                  string // of the body
	}{
		"tcp: token":                  {"tcp", "GET", "/v1/x", right, 200, "ci"},
		"tcp: scheme in lower case":   {"tcp", "GET", "/v1/x", with("Authorization", "bearer "+secret), 200, "ci"},
		"tcp: no token":               {"tcp", "GET", "/v1/x", nil, 401, `"a token is needed"`},
		"tcp: wrong token":            {"tcp", "GET", "/v1/x", with("Authorization", bearer+"k"), 401, `"the token is not known"`},
		"tcp: expired token":          {"tcp", "GET", "/v1/x", with("Authorization", "Bearer "+other), 401, `"the token has expired"`},
		"tcp: two tokens":             {"tcp", "GET", "/v1/x", with("Authorization", bearer, "Authorization", bearer), 401, "once"},
		"tcp: other scheme":           {"tcp", "GET", "/v1/x", with("Authorization", "Basic "+secret), 401, "no bearer token"},
		"tcp: empty header":           {"tcp", "GET", "/v1/x", with("Authorization", ""), 401, "no bearer token"},
		"tcp: token in the query":     {"tcp", "GET", "/v1/x?access_token=" + secret, nil, 401, ""},
		"tcp: healthz":                {"tcp", "GET", "/healthz", nil, 200, ""},
		"tcp: readyz":                 {"tcp", "HEAD", "/readyz", nil, 200, ""},
		"tcp: POST healthz":           {"tcp", "POST", "/healthz", nil, 401, ""},
		"tcp: below healthz":          {"tcp", "GET", "/healthz/../v1/x", nil, 401, ""},
		"tcp: the page":               {"tcp", "GET", "/ui/", nil, 200, ""},
		"tcp: to the page":            {"tcp", "HEAD", "/ui", nil, 200, ""},
		"tcp: a file of the page":     {"tcp", "GET", "/ui/app.js", nil, 200, ""},
		"tcp: POST to the page":       {"tcp", "POST", "/ui/", nil, 401, ""},
		"tcp: beside the page":        {"tcp", "GET", "/uix", nil, 401, ""},
		"tcp: above the page":         {"tcp", "GET", "/ui/../v1/x", nil, 401, ""},
		"tcp: above it, escaped":      {"tcp", "GET", "/ui/%2e%2e/v1/x", nil, 401, ""},
		"tcp: the page of a foreign":  {"tcp", "GET", "/ui/", with("Sec-Fetch-Site", "cross-site"), 403, ""},
		"tcp: the page, another Host": {"tcp", "GET", "/ui/", with("Host", "evil.example"), 403, ""},
		"tcp: metrics":                {"tcp", "GET", "/metrics", nil, 401, ""},
		"unix: no token":              {"unix", "POST", "/v1/x", nil, 200, "local"},
		"unix: token":                 {"unix", "POST", "/v1/x", right, 200, "ci"},
		"unix: wrong token":           {"unix", "POST", "/v1/x", with("Authorization", bearer+"k"), 401, "not known"},
		"unix: expired token":         {"unix", "POST", "/v1/x", with("Authorization", "Bearer "+other), 401, "expired"},
		"unix: other scheme":          {"unix", "POST", "/v1/x", with("Authorization", "Basic x"), 401, ""},
		"unix: host belljar":          {"unix", "GET", "/v1/x", with("Host", "belljar"), 200, "local"},
		"unix: localhost with port":   {"unix", "GET", "/v1/x", with("Host", "LOCALHOST:80"), 200, "local"},
		"unix: foreign host":          {"unix", "GET", "/v1/x", with("Host", "evil.example"), 403, "serve.hosts"},
		"tcp: localhost":              {"tcp", "GET", "/v1/x", with("Host", "localhost:1", "Authorization", bearer), 200, "ci"},
		"tcp: trailing dot":           {"tcp", "GET", "/v1/x", with("Host", "localhost.:1", "Authorization", bearer), 200, "ci"},
		"tcp: IPv6":                   {"tcp", "GET", "/v1/x", with("Host", "[::1]:8080", "Authorization", bearer), 200, "ci"},
		"tcp: own name":               {"tcp", "GET", "/v1/x", with("Host", "Belljar.Internal:8080", "Authorization", bearer), 200, "ci"},
		"tcp: own address":            {"tcp", "GET", "/v1/x", with("Host", "192.0.2.7", "Authorization", bearer), 200, "ci"},
		"tcp: rebound name":           {"tcp", "GET", "/v1/x", with("Host", "evil.example:80", "Authorization", bearer), 403, `"code":"forbidden"`},
		"tcp: name below localhost":   {"tcp", "GET", "/v1/x", with("Host", "localhost.evil.example", "Authorization", bearer), 403, ""},
		"tcp: name above own":         {"tcp", "GET", "/v1/x", with("Host", "evil.belljar.internal", "Authorization", bearer), 403, ""},
		"tcp: another address":        {"tcp", "GET", "/v1/x", with("Host", "192.0.2.8", "Authorization", bearer), 403, ""},
		"tcp: belljar":                {"tcp", "GET", "/v1/x", with("Host", "belljar", "Authorization", bearer), 403, ""},
		"tcp: rebound healthz":        {"tcp", "GET", "/healthz", with("Host", "evil.example"), 403, ""},
		"tcp: user in host":           {"tcp", "GET", "/v1/x", with("Host", "localhost@evil.example", "Authorization", bearer), 403, ""},
		"unix: foreign origin":        {"unix", "POST", "/v1/x", with("Origin", "https://evil.example"), 403, "another site"},
		"unix: null origin":           {"unix", "POST", "/v1/x", with("Origin", "null"), 403, ""},
		"unix: cross-site GET":        {"unix", "GET", "/v1/x", with("Sec-Fetch-Site", "cross-site"), 403, ""},
		"unix: same-site":             {"unix", "POST", "/v1/x", with("Sec-Fetch-Site", "same-site"), 403, ""},
		"unix: foreign WebSocket":     {"unix", "GET", "/v1/x", with("Origin", "http://evil.example", "Upgrade", "websocket", "Connection", "Upgrade"), 403, ""},
		"unix: cross-site form":       {"unix", "POST", "/v1/x", with("Origin", "http://evil.example", "Content-Type", "text/plain"), 403, `"code":"forbidden"`},
		"unix: preflight":             {"unix", "OPTIONS", "/v1/x", with("Origin", "http://evil.example", "Access-Control-Request-Method", "POST"), 403, ""},
		"unix: allowed origin":        {"unix", "POST", "/v1/x", with("Origin", "https://ci.example.com", "Sec-Fetch-Site", "cross-site"), 200, "local"},
		"unix: allowed and another":   {"unix", "POST", "/v1/x", with("Origin", "https://ci.example.com", "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"), 403, ""},
		"unix: like allowed":          {"unix", "POST", "/v1/x", with("Origin", "https://ci.example.com.evil.example"), 403, ""},
		"unix: own origin":            {"unix", "POST", "/v1/x", with("Origin", "http://localhost", "Sec-Fetch-Site", "same-origin"), 200, "local"},
		"tcp: foreign origin, token":  {"tcp", "POST", "/v1/x", with("Origin", "https://evil.example", "Authorization", bearer), 403, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, url := serve(t, test.network, guard.Wrap(whoami))
			status, header, body := ask(t, client, test.method, url+test.path, test.headers)
			if status != test.status || !strings.Contains(body, test.want) {
				t.Errorf("%d %s, not %d with %s", status, body, test.status, test.want)
			}
			if test.status == 401 && header.Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("headers %v", header)
			}
			var p problem.Problem
			if test.status != 200 && test.method != "HEAD" && (json.Unmarshal([]byte(body), &p) != nil || p.Status != test.status || p.Hint == "") {
				t.Errorf("no problem: %s", body)
			}
		})
	}
}

// Without a server, the connection is not known, so it is not the socket's.
func TestGuardWithoutConnection(t *testing.T) {
	t.Parallel()
	for _, guard := range []*Guard{{Log: slog.New(slog.DiscardHandler)}, {Tokens: &Tokens{}, Log: slog.New(slog.DiscardHandler)}} {
		for host, want := range map[string]int{"": 403, "localhost": 401, "belljar": 403, "[": 403, "::1": 401, "[::1%25eth0]:80": 401, "127.0.0.1:x:y": 403} {
			r, w := httptest.NewRequest(http.MethodGet, "/v1/x", nil), httptest.NewRecorder()
			r.Host = host
			guard.Wrap(whoami).ServeHTTP(w, r)
			if w.Code != want {
				t.Errorf("Host %q: %d, not %d", host, w.Code, want)
			}
		}
	}
}

// A server for all addresses is called by one of them.
func TestLocalAddress(t *testing.T) {
	t.Parallel()
	guard := &Guard{Tokens: load(t, testTokens), Log: slog.New(slog.DiscardHandler)}
	for host, want := range map[string]int{"192.0.2.1:80": 200, "[2001:db8::1]": 403, "192.0.2.2": 403} {
		r, w := httptest.NewRequest(http.MethodGet, "/healthz", nil), httptest.NewRecorder()
		r = r.WithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.ParseIP("192.0.2.1"), Port: 80}))
		r.Host = host
		guard.Wrap(whoami).ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("Host %q: %d, not %d", host, w.Code, want)
		}
	}
}

// Only a certificate that the handshake verified counts.
func TestCertificates(t *testing.T) {
	t.Parallel()
	guard := &Guard{Tokens: load(t, testTokens), Log: slog.New(slog.DiscardHandler)}
	valid := func(cn string, until time.Duration) []*x509.Certificate {
		return []*x509.Certificate{{Subject: pkix.Name{CommonName: cn}, NotAfter: time.Now().Add(until)}}
	}
	cert := func(cn string) []*x509.Certificate { return valid(cn, time.Hour) }
	for name, test := range map[string]struct {
		state  *tls.ConnectionState
		header string
		status int
		want   string
	}{
		"verified":        {&tls.ConnectionState{PeerCertificates: cert("node.example"), VerifiedChains: [][]*x509.Certificate{cert("node.example")}}, "", 200, "node"},
		"expired since":   {&tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{valid("node.example", -time.Second)}}, "", 401, "has expired"},
		"not verified":    {&tls.ConnectionState{PeerCertificates: cert("node.example")}, "", 401, "a token is needed"},
		"unknown":         {&tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{cert("ci")}}, "", 403, "cert_cn"},
		"no name":         {&tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{cert("")}}, "", 403, "cert_cn"},
		"expired entry":   {&tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{cert("gone.example")}}, "", 401, "expired"},
		"and a token":     {&tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{cert("unknown")}}, "Bearer " + secret, 200, "ci"},
		"and a bad token": {&tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{cert("node.example")}}, "Bearer " + secret + "k", 401, "not known"},
	} {
		r, w := httptest.NewRequest(http.MethodGet, "https://localhost/v1/x", nil), httptest.NewRecorder()
		r.TLS = test.state
		if test.header != "" {
			r.Header.Set("Authorization", test.header)
		}
		guard.Wrap(whoami).ServeHTTP(w, r)
		if w.Code != test.status || !strings.Contains(w.Body.String(), test.want) {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}

// Strangers can neither fill the log nor get a token into it.
func TestRefusalsAreLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		handler := (&Guard{Tokens: load(t, testTokens), Log: slog.New(slog.NewTextHandler(&log, nil))}).Wrap(whoami)
		call := func(token string) {
			r := httptest.NewRequest(http.MethodGet, "http://localhost/v1/x", nil)
			r.Header.Set("Authorization", "Bearer "+token)
			handler.ServeHTTP(httptest.NewRecorder(), r)
		}
		for range 1000 {
			call(secret + "k")
		}
		if n := strings.Count(log.String(), "\n"); n != 1 {
			t.Errorf("%d lines: %s", n, &log)
		}
		time.Sleep(time.Second)
		call(other)
		call(secret)
		text := log.String()
		if strings.Count(text, "\n") != 2 || !strings.Contains(text, "others_refused=999") || !strings.Contains(text, `why="the token has expired"`) || !strings.Contains(text, "token=old") {
			t.Error(text)
		}
		if strings.Contains(text, secret) || strings.Contains(text, other) {
			t.Errorf("the log has a token: %s", text)
		}
	})
}
