package kube

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// keys are what TLS takes, PEM.
type keys struct{ ca, cert, key []byte }

func (k keys) equal(o keys) bool {
	return bytes.Equal(k.ca, o.ca) && bytes.Equal(k.cert, o.cert) && bytes.Equal(k.key, o.key)
}

// keys are those of now: who keeps a cluster replaces files long before what they have ends.
func (a *Access) keys() (keys, error) {
	k := keys{a.CA, a.cert, a.key}
	var errs []error
	for into, name := range map[*[]byte]string{&k.ca: a.caFile, &k.cert: a.certFile, &k.key: a.keyFile} {
		if name != "" {
			text, err := os.ReadFile(name)
			*into, errs = text, append(errs, err)
		}
	}
	return k, errors.Join(errs...)
}

// connections are those that were made with the same keys.
type connections struct {
	keys    keys
	http    *http.Client // requests and watches
	sockets *http.Client // which HTTP/2 cannot carry
}

func (c *connections) closeIdle() {
	c.http.CloseIdleConnections()
	c.sockets.CloseIdleConnections()
}

// connecting makes them.
type connecting struct {
	access *Access
	lively time.Duration

	mu   sync.Mutex
	last *connections
}

// now are the connections for a request. With other keys they are new ones: an API server judges a connection by the certificate that
// it began with. What is going on over the others does so. Where files cannot be used, as while they are replaced, the last ones may do.
func (c *connecting) now() *connections {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, err := c.access.keys()
	if err != nil || k.equal(c.last.keys) {
		return c.last
	}
	if fresh, err := c.with(k); err == nil {
		c.last.closeIdle()
		c.last = fresh
	}
	return c.last
}

func (c *connecting) with(k keys) (*connections, error) {
	config := &tls.Config{ServerName: c.access.ServerName, InsecureSkipVerify: c.access.Insecure, MinVersion: tls.VersionTLS12} //nolint:gosec // the kubeconfig says so
	if len(k.ca) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(k.ca) {
			return nil, errors.New("the certificate authority of the API server is no certificate")
		}
	}
	if len(k.cert) > 0 {
		pair, err := tls.X509KeyPair(k.cert, k.key)
		if err != nil {
			return nil, fmt.Errorf("reading the client's certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: c.lively}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, TLSClientConfig: config, TLSHandshakeTimeout: dialTimeout,
		ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute,
		HTTP2: &http.HTTP2Config{SendPingTimeout: c.lively, PingTimeout: c.lively}, // all requests share a connection
	}
	old := transport.Clone()
	old.ForceAttemptHTTP2, old.TLSNextProto = false, map[string]func(string, *tls.Conn) http.RoundTripper{}
	old.DisableKeepAlives = true
	old.TLSClientConfig = config.Clone()
	old.TLSClientConfig.NextProtos = nil
	return &connections{k, &http.Client{Transport: transport}, &http.Client{Transport: old}}, nil
}
