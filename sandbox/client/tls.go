package client

import (
	"crypto/tls"
	"crypto/x509"
	"os"

	"belljar/sandbox"
)

// TLSFiles are PEM files. The zero TLSFiles trusts the host's certificates, and shows none.
type TLSFiles struct {
	CA        string // of those that the sidecar's certificate may be of, instead of the host's
	Cert, Key string // that this client shows
}

func (f TLSFiles) config(scheme string) (*tls.Config, error) {
	if f == (TLSFiles{}) {
		return nil, nil
	}
	if scheme != "https" {
		return nil, sandbox.Invalid("use https://, or leave out the files", "certificates are given, but %s:// has no TLS", scheme)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.CA != "" {
		text, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, wrongFile(err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, sandbox.Invalid("name a file with certificates in PEM", "file %q has no certificate", f.CA)
		}
	}
	if f.Cert != "" || f.Key != "" {
		pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return nil, wrongFile(err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

func wrongFile(err error) error {
	return &sandbox.Error{Cause: sandbox.CauseInvalid, Message: "reading certificates", Err: err, Hint: "name readable files in PEM, a certificate together with its key"}
}
