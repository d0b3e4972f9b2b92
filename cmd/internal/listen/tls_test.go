package listen

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"belljar/cmd/internal/access"
)

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// certificateFiles are paths of PEM files.
type certificateFiles struct {
	authority
	ca, cert, key, clientCert, clientKey string
}

func certificates(t *testing.T) certificateFiles {
	t.Helper()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	f := certificateFiles{newAuthority(t), at("ca.pem"), at("cert.pem"), at("key.pem"), at("client.pem"), at("client-key.pem")}
	writePEM(t, f.ca, "CERTIFICATE", f.authority.cert.Raw)
	f.sign(t, "server", f.cert, f.key)
	f.sign(t, "node.example", f.clientCert, f.clientKey)
	return f
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	return authority{cert, key}
}

// sign makes a certificate for that name and for 127.0.0.1.
func (a authority) sign(t *testing.T, name, certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	raw, err1 := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	rawKey, err2 := x509.MarshalPKCS8PrivateKey(key)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	writePEM(t, certFile, "CERTIFICATE", raw)
	writePEM(t, keyFile, "PRIVATE KEY", rawKey)
}

// writePEM replaces the file, as those who renew certificates do.
func writePEM(t *testing.T, name, kind string, raw []byte) {
	t.Helper()
	text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw})
	if err := errors.Join(os.WriteFile(name+".new", text, 0o600), os.Rename(name+".new", name)); err != nil {
		t.Fatal(err)
	}
}

// client trusts the authority, and has the certificate of the files, if any.
func (f certificateFiles) client(t *testing.T, certFile, keyFile string) *http.Client {
	t.Helper()
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AddCert(f.authority.cert)
	if certFile != "" {
		pair, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			t.Fatal(err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true, ForceAttemptHTTP2: true}}
}

// names answers with the names of the verified client and of the protocol.
var names = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	cn := "none"
	if len(r.TLS.VerifiedChains) > 0 {
		cn = r.TLS.VerifiedChains[0][0].Subject.CommonName
	}
	io.WriteString(w, cn+" "+r.Proto)
})

func TestTLS(t *testing.T) {
	t.Parallel()
	f, foreign := certificates(t), certificates(t)
	for name, test := range map[string]struct {
		config    Config
		client    *http.Client
		want      string
		wantError string
	}{
		"TLS":                   {Config{Tokens: true}, f.client(t, "", ""), "none HTTP/1.1", ""},
		"TLS, unverified":       {Config{Tokens: true}, f.client(t, f.clientCert, f.clientKey), "none HTTP/1.1", ""},
		"wrong server":          {Config{Tokens: true}, foreign.client(t, "", ""), "", "unknown authority"},
		"mTLS":                  {Config{ClientCA: f.ca}, f.client(t, f.clientCert, f.clientKey), "node.example HTTP/1.1", ""},
		"mTLS, no certificate":  {Config{ClientCA: f.ca}, f.client(t, "", ""), "", "certificate required"},
		"mTLS, wrong authority": {Config{ClientCA: foreign.ca}, f.client(t, f.clientCert, f.clientKey), "", "tls: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.config.Address, test.config.Cert, test.config.Key, test.config.Connections, test.config.Log = "tcp://127.0.0.1:0", f.cert, f.key, 10, quiet
			l, err := Open(t.Context(), test.config)
			if err != nil {
				t.Fatal(err)
			}
			start(t, l, names)
			text, err := get(t, test.client, "https://"+l.Addrs()[0].String())
			if text != test.want || test.wantError == "" && err != nil || test.wantError != "" && (err == nil || !strings.Contains(err.Error(), test.wantError)) {
				t.Errorf("%q, %v", text, err)
			}
		})
	}
}

// The guard knows a client by the certificate that the handshake verified.
func TestCertificateIsIdentity(t *testing.T) {
	t.Parallel()
	f := certificates(t)
	file := filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.WriteFile(file, []byte("tokens: [{name: node, cert_cn: node.example, scopes: [run]}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	var tokens access.Tokens
	if err := tokens.Load(file); err != nil {
		t.Fatal(err)
	}
	l, err := Open(t.Context(), Config{Address: "tcp://127.0.0.1:0", Cert: f.cert, Key: f.key, ClientCA: f.ca, Connections: 10, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	guard := &access.Guard{Tokens: &tokens, Log: quiet}
	start(t, l, guard.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, access.FromContext(r.Context()).Name) })))
	url := "https://" + l.Addrs()[0].String()
	if text, err := get(t, f.client(t, f.clientCert, f.clientKey), url); text != "node" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	// The server's own certificate is of the same authority, but has no entry.
	if text, err := get(t, f.client(t, f.cert, f.key), url); !strings.Contains(text, `"code":"forbidden"`) || err != nil {
		t.Errorf("%q, %v", text, err)
	}
}

// A renewed certificate is used without a restart. A broken one is not.
func TestRenewal(t *testing.T) {
	t.Parallel()
	f, foreign := certificates(t), certificates(t)
	var log journal
	l, err := Open(t.Context(), Config{Address: "tcp://127.0.0.1:0", Cert: f.cert, Key: f.key, ClientCA: f.ca, Connections: 10, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	start(t, l, names)
	server := func(f certificateFiles) string {
		conn, err := tls.Dial("tcp", l.Addrs()[0].String(), f.client(t, f.clientCert, f.clientKey).Transport.(*http.Transport).TLSClientConfig)
		if err != nil {
			return err.Error()
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	if got := server(f); got != "server" {
		t.Error(got)
	}
	f.sign(t, "half", f.cert, filepath.Join(t.TempDir(), "key")) // its key comes later
	if got := server(f); got != "server" {
		t.Errorf("between the two files: %s", got)
	}
	f.sign(t, "renewed", f.cert, f.key)
	if got := server(f); got != "renewed" {
		t.Error(got)
	}
	writePEM(t, f.ca, "CERTIFICATE", foreign.authority.cert.Raw)
	if text, err := get(t, f.client(t, f.clientCert, f.clientKey), "https://"+l.Addrs()[0].String()); err == nil {
		t.Errorf("a client of the old authority: %q", text)
	}
	if text := log.String(); !strings.Contains(text, "the old ones stay in use") || !strings.Contains(text, "belong together") {
		t.Error(text)
	}
}

// journal is a log that can be read while a server runs: closing one does not wait for
// its connections.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}
