package client_test

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"belljar/sandbox"
	"belljar/sandbox/client"
)

func TestHosts(t *testing.T) {
	for host, ok := range map[string]bool{
		"unix:///run/s": true, "tcp://localhost:7": true, "http://h": true, "https://h:1/": true,
		"": false, "unix://s": false, "h:7": false, "tcp://": false, "ftp://h": false, "http://h/path": false, "http://u@h": false, "http://h?x": false, "http:///": false,
	} {
		c, err := client.New(client.Config{Host: host})
		if ok != (err == nil) || ok != (c != nil) || !ok && sandbox.CauseOf(err) != sandbox.CauseInvalid {
			t.Errorf("%q: %v", host, err)
		}
	}
}

// The token comes from its file, is sent, and is never in a message.
func TestToken(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	s := newSidecar(t, func(c *client.Config) { c.TokenFile = write("token", "s3cret\n") })
	s.HandleFunc("GET /v1/sessions", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer s3cret" {
			t.Errorf("Authorization: %q", r.Header.Get("Authorization"))
		}
		io.WriteString(w, `{"sessions":[]}`)
	})
	if list, err := s.Sessions(t.Context()); err != nil || len(list) > 0 {
		t.Error(list, err)
	}
	for name, c := range map[string]client.Config{
		"missing": {TokenFile: filepath.Join(dir, "none")}, "empty": {TokenFile: write("empty", " \n")},
		"long": {TokenFile: write("long", strings.Repeat("x", 5000))}, "lines": {TokenFile: write("lines", "s3cret\nother")}, "odd": {Token: "s3cr\u00e9t"},
	} {
		c.Host = "http://localhost"
		if _, err := client.New(c); sandbox.CauseOf(err) != sandbox.CauseInvalid || strings.Contains(err.Error(), "s3cr") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A sidecar's certificate must be of the CA that is named.
func TestTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"sessions":[]}`) }))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		files client.TLSFiles
		ok    bool
	}{"of that CA": {client.TLSFiles{CA: ca}, true}, "of no known one": {client.TLSFiles{}, false}} {
		c, err := client.New(client.Config{Host: server.URL, TLS: test.files})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Sessions(t.Context()); test.ok != (err == nil) || !test.ok && !strings.Contains(err.Error(), "certificate") {
			t.Errorf("%s: %v", name, err)
		}
		c.Close()
	}
	for name, c := range map[string]client.Config{
		"no TLS": {Host: "http://h", TLS: client.TLSFiles{CA: ca}}, "no key": {Host: "https://h", TLS: client.TLSFiles{Cert: ca}},
		"no certificate": {Host: "https://h", TLS: client.TLSFiles{CA: os.DevNull}}, "no file": {Host: "https://h", TLS: client.TLSFiles{CA: "/none"}},
	} {
		if _, err := client.New(c); sandbox.CauseOf(err) != sandbox.CauseInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}
