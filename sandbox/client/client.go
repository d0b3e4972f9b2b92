// Package client runs commands through a belljar sidecar: it is a sandbox.Runner
// at the other end of a socket.
//
// The one rule: a broken connection breaks no command. What the sidecar accepted
// runs there, its events continue after the last one that came, and nothing is sent
// twice: a command has a key, stdin has offsets.
//
//	c, err := client.New(client.Config{Host: "unix:///run/belljar/belljar.sock"})
//	defer c.Close()
//	result, err := sandbox.Run(ctx, c, sandbox.Command{Script: "make test"})
//
// # Design
//
// The configuration is the sidecar's. Of the caller's environment only those
// variables are sent that Command.Env names, and env.allow must have them.
package client

import (
	"context"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"belljar/sandbox"
)

// Config says where the sidecar is, and who calls.
type Config struct {
	Host string // unix:///PATH, tcp://HOST:PORT, http://HOST:PORT or https://HOST:PORT

	Token     string // proves who calls; over a Unix socket none is needed
	TokenFile string // holds the token, where Token is ""

	TLS TLSFiles // with https://

	// LostAfter is how long the sidecar may be out of reach before a command that
	// runs there is given up as lost; 0 is 30 s.
	LostAfter time.Duration
}

// Client is a sandbox.Runner, and everything else of a sidecar that front ends need.
type Client struct {
	http      *http.Client
	host      string // as given, for messages
	base      string // of all URLs
	token     string
	lostAfter time.Duration
}

const (
	defaultLostAfter = 30 * time.Second
	dialTimeout      = 10 * time.Second
	maxIdle          = 64      // connections that are kept for the next request
	maxToken         = 4 << 10 // bytes of a token file
)

// New does not connect yet.
func New(config Config) (*Client, error) {
	c := &Client{host: config.Host, token: config.Token, lostAfter: config.LostAfter}
	if c.lostAfter == 0 {
		c.lostAfter = defaultLostAfter
	}
	transport := &http.Transport{MaxIdleConns: maxIdle, MaxIdleConnsPerHost: maxIdle, IdleConnTimeout: time.Minute, DisableCompression: true}
	dialer := &net.Dialer{Timeout: dialTimeout}
	scheme, address, _ := strings.Cut(config.Host, "://")
	switch {
	case scheme == "unix" && strings.HasPrefix(address, "/"):
		c.base = "http://localhost"
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", address)
		}
	case (scheme == "tcp" || scheme == "http" || scheme == "https") && isHost(address):
		c.base = strings.Replace(scheme, "tcp", "http", 1) + "://" + strings.TrimSuffix(address, "/")
		transport.DialContext = dialer.DialContext
	default:
		return nil, sandbox.Invalid("write unix:///PATH, tcp://HOST:PORT, http://HOST:PORT or https://HOST:PORT", "host %.200q is no address of a sidecar", config.Host)
	}
	var err error
	if transport.TLSClientConfig, err = config.TLS.config(scheme); err != nil {
		return nil, err
	}
	if c.token == "" && config.TokenFile != "" {
		if c.token, err = readToken(config.TokenFile); err != nil {
			return nil, err
		}
	}
	if strings.ContainsFunc(c.token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, sandbox.Invalid("it is one line of printable ASCII", "the sidecar's token has other characters")
	}
	c.http = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return c, nil
}

// isHost reports whether a text is a host with a port or without.
func isHost(address string) bool {
	return strings.Trim(address, "/") != "" && !strings.ContainsAny(strings.TrimSuffix(address, "/"), "/?#@ \\")
}

func readToken(name string) (string, error) {
	text, err := os.ReadFile(name)
	token := strings.TrimSpace(string(text))
	if err == nil && (token == "" || len(token) > maxToken) {
		return "", sandbox.Invalid("write the token on its only line", "token file %q is empty, or longer than %d bytes", name, maxToken)
	}
	if err != nil {
		return "", &sandbox.Error{Cause: sandbox.CauseInvalid, Message: "reading the sidecar's token", Err: err, Hint: "name a readable file"}
	}
	return token, nil
}

// Close closes the connections that are not in use.
func (c *Client) Close() error {
	c.http.CloseIdleConnections()
	return nil
}
