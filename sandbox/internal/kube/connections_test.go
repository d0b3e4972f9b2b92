package kube

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// pair is a certificate of that name, which signs itself, and its key.
func pair(t *testing.T, name string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, about, about, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
}

// Once a bug: a certificate or an authority that was replaced in its file counted no sooner than with the next start of belljar.
func TestReplacedCertificates(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.TLS.PeerCertificates[0].Subject.CommonName)
		w.(http.Flusher).Flush()
		if r.URL.Path == "/watch" {
			<-r.Context().Done()
		}
	}))
	server.EnableHTTP2, server.TLS = true, &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	server.StartTLS()
	t.Cleanup(server.Close)
	authority := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	other, _ := pair(t, "another authority")
	cert, key := pair(t, "first")
	write("ca.crt", other)
	write("client.crt", cert)
	write("client.key", key)
	write("config", `clusters: [{name: c, cluster: {server: "`+server.URL+`", certificate-authority: ca.crt}}]
users: [{name: u, user: {client-certificate: client.crt, client-key: client.key}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`)
	a, err := Load(filepath.Join(dir, "config"), "")
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(a)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	open := func(path string) (who string, body io.ReadCloser) {
		t.Helper()
		answer, err := c.request(t.Context(), http.MethodGet, path, nil, nil)
		if err != nil {
			return err.Error(), io.NopCloser(nil)
		}
		text := make([]byte, 100)
		n, _ := answer.Body.Read(text)
		return string(text[:n]), answer.Body
	}
	ask := func(what, want string) {
		t.Helper()
		who, body := open("/")
		body.Close()
		if who != want {
			t.Errorf("%s: %q, want %q", what, who, want)
		}
	}
	if who, _ := open("/"); who == "first" {
		t.Error("a server of another authority is believed")
	}
	write("ca.crt", authority)
	ask("the right authority", "first")
	_, watch := open("/watch") // keeps its connection busy
	defer watch.Close()
	cert, key = pair(t, "second")
	write("client.crt", cert)
	ask("half of it is replaced", "first")
	write("client.key", key)
	ask("all of it is replaced", "second")
	os.Remove(filepath.Join(dir, "client.crt"))
	ask("it is away", "second")
}
