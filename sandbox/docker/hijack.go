package docker

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/client"
)

// The client waits for the answer to an upgrade even after the call's context ends, so
// an engine that stalls would block it for ever. So these connections are recorded when
// they are dialled, and closed when the context ends.

type upgradeKey struct{}

// upgrade is a connection that a call is about to take over.
type upgrade struct {
	mu   sync.Mutex
	conn net.Conn
	over bool
}

func (u *upgrade) use(conn net.Conn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.conn = conn; u.over {
		conn.Close()
	}
}

func (u *upgrade) end() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.over = true; u.conn != nil {
		u.conn.Close()
	}
}

// ownDialer makes the client's connections itself, with TLS where the client is to use it:
// for an upgrade the client would dial past its transport, and past any context. So none
// goes through a proxy, either.
func ownDialer(at address) client.Opt {
	return func(c *client.Client) error {
		transport, ok := c.HTTPClient().Transport.(*http.Transport)
		if !ok {
			return fmt.Errorf("unknown transport %T", c.HTTPClient().Transport)
		}
		secret, dial := transport.TLSClientConfig, transport.DialContext
		switch {
		case strings.HasPrefix(at.host, "unix://"):
			secret = nil
		case secret == nil && (at.skipVerify || strings.HasPrefix(at.host, "https://")):
			secret = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		if secret != nil && at.skipVerify {
			secret.InsecureSkipVerify = true
		}
		transport.TLSClientConfig, transport.Proxy = nil, nil
		transport.DialContext = func(ctx context.Context, _, to string) (net.Conn, error) {
			conn, err := dial(ctx, "tcp", to)
			if err != nil {
				return nil, err
			}
			if u, ok := ctx.Value(upgradeKey{}).(*upgrade); ok {
				u.use(conn)
			}
			if secret != nil {
				return withTLS(ctx, conn, secret, to)
			}
			return conn, nil
		}
		return client.WithScheme("http")(c) // what there is of TLS, the dialer adds
	}
}

func withTLS(ctx context.Context, conn net.Conn, secret *tls.Config, to string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if secret.ServerName == "" {
		name, _, err := net.SplitHostPort(to)
		if err != nil {
			name = to
		}
		secret = secret.Clone()
		secret.ServerName = name
	}
	safe := tls.Client(conn, secret)
	if err := safe.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return safe, nil
}

// hijack takes over the connection of a call. Cancelling ctx before it returns ends
// the call.
func hijack(ctx context.Context, call func(context.Context) (types.HijackedResponse, error)) (types.HijackedResponse, error) {
	u := &upgrade{}
	stop := context.AfterFunc(ctx, u.end)
	conn, err := call(context.WithValue(ctx, upgradeKey{}, u))
	if !stop() {
		if err == nil {
			conn.Close()
		}
		return types.HijackedResponse{}, ctx.Err()
	}
	return conn, err
}
