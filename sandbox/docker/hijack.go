package docker

import (
	"context"
	"net"
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

// dialer makes the client's connections to a unix socket; other hosts use the
// client's own dialer.
func dialer(host string) client.Opt {
	path, isUnix := strings.CutPrefix(host, "unix://")
	if !isUnix {
		return func(*client.Client) error { return nil }
	}
	return client.WithDialContext(func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
		if u, ok := ctx.Value(upgradeKey{}).(*upgrade); ok && err == nil {
			u.use(conn)
		}
		return conn, err
	})
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
