package listen

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"belljar/sandbox"

	"github.com/coreos/go-systemd/v22/activation"
)

// openTCP listens on a port, once it is known who may call it.
func (c Config) openTCP(ctx context.Context, hostPort string) (net.Listener, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	host, port, err := net.SplitHostPort(hostPort)
	if err != nil || port == "" {
		return nil, sandbox.Invalid("write one such as tcp://127.0.0.1:8080", "serve.listen: %q has no port", hostPort)
	}
	at := net.IPAddr{} // all addresses
	if host != "" {
		all, err := net.DefaultResolver.LookupIPAddr(ctx, host)
		if err != nil || len(all) == 0 {
			return nil, &sandbox.Error{Cause: sandbox.CauseInvalid, Message: fmt.Sprintf("serve.listen: looking up %q", host), Hint: "write an address of this machine", Err: err}
		}
		at = all[0]
	}
	if err := c.check(&net.TCPAddr{IP: at.IP, Zone: at.Zone}); err != nil {
		return nil, err
	}
	if at.IP != nil {
		host = at.String()
	}
	return (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(host, port))
}

// check refuses a socket that more callers can reach than should.
func (c Config) check(at net.Addr) error {
	switch a := at.(type) {
	case *net.UnixAddr:
		if a.Net != "unix" {
			return sandbox.Invalid("pass stream sockets", "a %s socket cannot be served", a.Net)
		}
		about, err := os.Stat(a.Name) // a socket without a file, of an abstract name, is open to all
		if err != nil || about.Mode()&0o002 != 0 {
			return sandbox.Invalid("give the socket's unit a path as ListenStream, and SocketMode=0600", "every user of this machine can connect to %q", a.Name)
		}
		return nil
	case *net.TCPAddr:
		if !c.Tokens && c.ClientCA == "" {
			return sandbox.Invalid("set serve.token_file, or serve.client_ca for client certificates", "serve.listen: without tokens, anyone could call a TCP port")
		}
		if !a.IP.IsLoopback() && c.Cert == "" && !c.Insecure {
			return sandbox.Invalid("set serve.tls_cert and serve.tls_key; or serve.insecure where something else encrypts", "serve.listen: %s is open to other machines without TLS", a.IP)
		}
		return nil
	}
	return sandbox.Invalid("pass stream sockets", "a %s socket cannot be served", at.Network())
}

// inherited are the sockets that systemd passes (sd_listen_fds(3)).
func inherited() ([]net.Listener, error) {
	var all []net.Listener
	var failed error
	for _, file := range activation.Files(true) {
		socket, err := net.FileListener(file)
		file.Close() // the listener has a copy
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("serving systemd's socket %s: %w", file.Name(), err))
			continue
		}
		all = append(all, socket)
	}
	return all, failed
}
