package docker

import (
	"context"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/docker/cli/cli/connhelper"
	"github.com/docker/docker/client"
)

// sshDialer connects to an engine over SSH: each connection is an ssh process that runs
// `docker system dial-stdio` on the other host.
type sshDialer struct {
	helper *connhelper.ConnectionHelper

	mu     sync.Mutex
	closed bool
	open   map[*sshConn]bool
}

// loginTimeout is callTimeout over SSH, where each new connection logs in first: a slow host, or one far away,
// takes seconds for the keys, a shell and the docker command.
const loginTimeout = 30 * time.Second

// callTime bounds one call that does no work.
func (e *Engine) callTime() time.Duration {
	if e.ssh != nil {
		return loginTimeout
	}
	return callTimeout
}

// sshConn is a connection, whose Close waits for the end of its process.
type sshConn struct {
	net.Conn
	of   *sshDialer
	once sync.Once
	err  error
}

// sshChars are what the names of users and hosts consist of. ssh's own options, and
// what a shell would expand, are not among them.
const sshChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

// newSSHDialer refuses an address that ssh could read as something else. Its process
// asks no questions, as no terminal is its own.
func newSSHDialer(host string) (*sshDialer, error) {
	refused := func(what string) error {
		return engineError(nil, "invalid engine host: %s", what).Hint("write ssh://USER@HOST or ssh://USER@HOST:PORT")
	}
	u, err := url.Parse(host)
	if err != nil {
		return nil, refused("it is not an ssh:// address")
	}
	if _, has := u.User.Password(); has {
		return nil, refused("it has a password, which others could read in the list of processes")
	}
	name := strings.NewReplacer(":", "").Replace(u.Hostname()) // an IPv6 address has them
	for what, text := range map[string]string{"user": u.User.Username(), "host": name, "port": u.Port()} {
		if strings.HasPrefix(text, "-") || strings.Trim(text, sshChars) != "" || what == "host" && text == "" {
			return nil, refused("its " + what + " is not allowed")
		}
	}
	helper, err := connhelper.GetConnectionHelperWithSSHOpts(host, []string{"-o", "BatchMode=yes"})
	if err != nil || helper == nil {
		return nil, engineError(err, "invalid engine host").Hint("write ssh://USER@HOST or ssh://USER@HOST:PORT")
	}
	return &sshDialer{helper: helper, open: map[*sshConn]bool{}}, nil
}

// options are those of a client whose connections are the dialer's.
func (d *sshDialer) options() []client.Opt {
	return []client.Opt{client.WithVersionFromEnv(), client.WithHost(d.helper.Host), client.WithDialContext(d.dial), client.WithAPIVersionNegotiation()}
}

func (d *sshDialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, net.ErrClosed
	}
	dialed, err := d.helper.Dialer(ctx, network, address)
	if err != nil {
		return nil, err
	}
	conn := &sshConn{Conn: dialed, of: d}
	d.open[conn] = true
	if u, ok := ctx.Value(upgradeKey{}).(*upgrade); ok {
		u.use(conn)
	}
	return conn, nil
}

// close ends all connections with their processes.
func (d *sshDialer) close() {
	d.mu.Lock()
	d.closed = true
	var open []*sshConn
	for conn := range d.open {
		open = append(open, conn)
	}
	d.mu.Unlock()
	var all sync.WaitGroup
	for _, conn := range open {
		all.Go(func() { conn.Close() })
	}
	all.Wait()
}

// Close implements net.Conn.
func (c *sshConn) Close() error {
	c.once.Do(func() {
		c.err = c.Conn.Close()
		c.of.mu.Lock()
		defer c.of.mu.Unlock()
		delete(c.of.open, c)
	})
	return c.err
}

// CloseWrite ends what the engine reads.
func (c *sshConn) CloseWrite() error { return c.Conn.(interface{ CloseWrite() error }).CloseWrite() }
