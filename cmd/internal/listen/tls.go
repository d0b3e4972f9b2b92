package listen

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"

	"belljar/internal/ownfile"
	"belljar/sandbox"
)

// secure makes TLS of the files, which it reads again when one has changed: certificates
// are renewed while the server runs.
type secure struct {
	cert, key, clientCA string
	log                 *slog.Logger

	mu     sync.Mutex
	files  ownfile.Changes
	config *tls.Config
}

// secured is nil without TLS.
func (c Config) secured() (*secure, error) {
	switch {
	case (c.Cert == "") != (c.Key == ""):
		return nil, sandbox.Invalid("set both", "serve.tls_cert and serve.tls_key go together")
	case c.ClientCA != "" && c.Cert == "":
		return nil, sandbox.Invalid("set serve.tls_cert and serve.tls_key, too", "serve.client_ca needs TLS")
	case c.Cert == "":
		return nil, nil
	}
	s := &secure{cert: c.Cert, key: c.Key, clientCA: c.ClientCA, log: c.Log}
	s.changed()
	var err error
	s.config, err = s.load()
	return s, err
}

func (s *secure) listener(inner net.Listener) net.Listener {
	return tls.NewListener(inner, &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return s.current(), nil
	}})
}

// current is the configuration of the files, or that of before if they are wrong.
func (s *secure) current() *tls.Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.changed() {
		return s.config
	}
	config, err := s.load()
	if err != nil {
		s.log.Error("the TLS files changed, and are wrong: the old ones stay in use", "error", err)
		return s.config
	}
	s.config = config
	s.log.Info("the TLS files changed: the new ones are in use")
	return config
}

// changed reports whether a file is another than when it was last called.
func (s *secure) changed() bool { return s.files.Since(s.cert, s.key, s.clientCA) }

const maxPEM = 1 << 20

func (s *secure) load() (*tls.Config, error) {
	key, err := ownfile.ReadSecret("TLS key", s.key, maxPEM)
	if err != nil {
		return nil, err
	}
	cert, err := os.ReadFile(s.cert)
	if err != nil {
		return nil, fmt.Errorf("reading serve.tls_cert: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, &sandbox.Error{Cause: sandbox.CauseInvalid, Message: fmt.Sprintf("reading serve.tls_cert %q and serve.tls_key %q", s.cert, s.key), Hint: "both are PEM files, and belong together", Err: err}
	}
	// Only HTTP/1.1: WebSockets and deadlines for each request are simple there.
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"http/1.1"}}
	if s.clientCA == "" {
		return config, nil
	}
	ca, err := os.ReadFile(s.clientCA)
	if err != nil {
		return nil, fmt.Errorf("reading serve.client_ca: %w", err)
	}
	config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
	if !config.ClientCAs.AppendCertsFromPEM(ca) {
		return nil, sandbox.Invalid("it is a PEM file of certificates", "serve.client_ca %q has no certificate", s.clientCA)
	}
	return config, nil
}
