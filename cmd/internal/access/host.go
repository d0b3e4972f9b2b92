package access

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"belljar/cmd/internal/problem"
)

// socketName is how clients may name the server behind a unix socket.
const socketName = "belljar"

// overUnix reports whether the request came in by a unix socket. It is not known, and so
// it did not, without a server.
func overUnix(r *http.Request) bool {
	at, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && at.Network() == "unix"
}

// refuseHost refuses names that are not this server's. A page of a foreign site may give
// its own name any address, also one of this machine's: then a browser takes the server
// for part of that site, but still sends the site's name.
func (g *Guard) refuseHost(r *http.Request) *problem.Problem {
	host, ok := hostName(r.Host)
	switch {
	case overUnix(r) && (r.Host == "" || host == socketName):
		return nil
	case ok && (isLoopback(host) || isLocalAddress(r, host)):
		return nil
	case ok && slices.ContainsFunc(g.Hosts, func(h string) bool { own, _ := hostName(h); return own == host }):
		return nil
	}
	return problem.New(problem.Forbidden, "the header Host does not name this server", "add the name that clients use to serve.hosts")
}

// hostName is a Host header without its port, in lower case, and an address as netip
// writes it.
func hostName(header string) (string, bool) {
	host := header
	if name, _, err := net.SplitHostPort(header); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if inner, ok := strings.CutPrefix(host, "["); ok {
		host = strings.TrimSuffix(inner, "]")
	}
	if address, err := netip.ParseAddr(host); err == nil {
		return address.Unmap().String(), true
	}
	return host, host != "" && !strings.ContainsAny(host, "[]:/@ ")
}

func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

// isLocalAddress reports whether host is the address that the connection came in by. No
// site can give itself an address for a name.
func isLocalAddress(r *http.Request, host string) bool {
	at, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && at.AddrPort().Addr().Unmap().WithZone("").String() == host
}
