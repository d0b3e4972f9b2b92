package docker

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"belljar/sandbox/internal/boxlink"
	"belljar/sandbox/internal/proc"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/versions"
	"github.com/docker/docker/client"
)

// minAPI is the oldest API that the lock-down needs (1.41, Docker 20.10: cgroup
// namespaces).
const minAPI = "1.41"

// Engine makes containers through the Docker API. It is safe for concurrent
// use.
type Engine struct {
	// Dir is where belljar keeps its state, the same for all processes of a user:
	// the key of its containers' seals (see the package's Design), and files that
	// containers share. With "" only this process knows its containers, and no
	// other adopts or sweeps them. It is set before anything is made or listed.
	Dir string

	// OwnSessions: sessions end with this process, also if it is killed, and no other
	// process sees them, so they have names of their own. It is set like Dir.
	OwnSessions bool

	// Init is a program that contains package internal/boxinit and is linked statically,
	// such as belljar itself: it becomes the containers' init and starts their commands.
	// With "", and where a container cannot have it, the engine starts them, next to a
	// keeper; see Way. It is set like Dir.
	Init string

	client *client.Client
	host   string
	ssh    *sshDialer // nil: not over SSH
	ping   types.Ping
	owner  proc.Owner
	events *eventStream

	guard   guard
	sealing sync.Once
	sealer  sealer

	hostUsers   atomic.Pointer[bool] // see HostUsers
	noHosts     atomic.Bool          // the engine does not see that file
	soundImages sync.Map             // IDs of images whose user files passed the check
	shells      sync.Map             // see box.hasShell
	ways        ways
	links       boxlink.Table[initStream]
	keepers     sync.Map // the stdin of sessions' keepers, by container: see OwnSessions
}

// Connect finds the engine at host, or, where host is empty, where the docker
// command would find it: DOCKER_HOST, the docker context, the default socket.
func Connect(ctx context.Context, host string) (*Engine, error) {
	at, err := resolve(host)
	if err != nil {
		return nil, err
	}
	host = at.host
	if err := checkScheme(host); err != nil {
		return nil, err
	}
	options := at.options()
	var ssh *sshDialer
	if strings.HasPrefix(host, "ssh://") {
		if ssh, err = newSSHDialer(host); err != nil {
			return nil, err
		}
		options = ssh.options()
	}
	c, err := client.NewClientWithOpts(options...)
	if err != nil {
		return nil, engineError(err, "invalid engine host %q", host).Hint("write unix:///PATH or tcp://HOST:PORT, and check the files of its TLS settings: DOCKER_CERT_PATH, or docker context inspect")
	}
	e := &Engine{client: c, host: host, ssh: ssh, owner: proc.ThisProcess(), events: newEventStream(c)}
	if err := e.negotiate(ctx); err != nil {
		e.closeClient()
		return nil, err
	}
	return e, nil
}

func (e *Engine) negotiate(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, e.callTime())
	defer cancel()
	ping, err := e.client.Ping(ctx)
	if err != nil {
		return connectError(err, e.Host())
	}
	e.client.NegotiateAPIVersionPing(ping)
	e.ping = ping
	if versions.GreaterThan(e.client.ClientVersion(), ping.APIVersion) {
		return answered{engineError(nil, "the engine at %s supports API %s at most, but %s is set", e.Host(), ping.APIVersion, e.client.ClientVersion()).
			Hint("unset DOCKER_API_VERSION")}
	}
	if versions.LessThan(e.client.ClientVersion(), minAPI) {
		return answered{engineError(nil, "API %s of the engine at %s is too old: the lock-down needs %s", e.client.ClientVersion(), e.Host(), minAPI).
			Hint("use Docker 20.10 or newer, and unset DOCKER_API_VERSION")}
	}
	return nil
}

// Client is the connection, for package images.
func (e *Engine) Client() *client.Client { return e.client }

// Host is the engine's address.
func (e *Engine) Host() string { return e.host }

// Close ends the engine's connections. Containers go before it.
func (e *Engine) Close() error {
	e.guard.close()
	e.keepers.Range(func(_, stdin any) bool {
		conn := stdin.(types.HijackedResponse)
		conn.Close()
		return true
	})
	e.links.Close()
	e.events.close()
	if err := e.closeClient(); err != nil {
		return fmt.Errorf("closing the connection to the engine: %w", err)
	}
	return nil
}

func (e *Engine) closeClient() error {
	err := e.client.Close()
	if e.ssh != nil {
		e.ssh.close()
	}
	return err
}

// local reports whether the engine is reached through a socket file. Its host may
// still be another one, as with a virtual machine's forwarded socket.
func (e *Engine) local() bool { return strings.HasPrefix(e.Host(), "unix://") }

// Networks are the names of the networks that a command may use.
func (e *Engine) Networks(ctx context.Context) (names []string, err error) {
	list, err := e.client.NetworkList(ctx, network.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("asking the engine for its networks: %w", err)
	}
	for _, n := range list {
		if n.Name != "host" {
			names = append(names, n.Name)
		}
	}
	return names, nil
}
