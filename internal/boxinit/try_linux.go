package boxinit

import (
	"cmp"
	"net/netip"
	"os"
	"strings"
	"syscall"
)

// tryTimeout is how long a server may take to answer: a policy drops packets without a word.
const tryTimeout = 3 // seconds

// try writes what this container's processes can do, and ends. It is no init: nothing of belljar's restricts it.
func try(to, server string) {
	host := os.Getenv("KUBERNETES_SERVICE_HOST")
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	server = cmp.Or(server, host+":"+os.Getenv("KUBERNETES_SERVICE_PORT"))
	status, err := os.ReadFile("/proc/self/status")
	users, failed := os.ReadFile("/proc/self/uid_map")
	version, unknown := os.ReadFile("/proc/version")
	if err = cmp.Or(err, failed, unknown); err == nil {
		err = os.WriteFile(to, []byte(tried(string(status), string(users), string(version), reach(server)).String()), 0o600)
	}
	if err != nil {
		die("trying the container", errnoOf(err))
	}
	syscall.Exit(0)
}

// tried reads a process's status, proc_pid_status(5), its map of users and its kernel's version.
func tried(status, users, version, network string) Tried {
	t := Tried{OwnUsers: OwnUsers(users), GVisor: GVisor(version), Network: network}
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(line, ":")
		switch value = strings.TrimSpace(value); name {
		case "Seccomp":
			t.Seccomp = value == "2"
		case "NoNewPrivs":
			t.NoPrivileges = value == "1"
		case "CapBnd":
			t.Capabilities = value
		}
	}
	return t
}

// reach connects to a server.
func reach(server string) string {
	at, err := netip.ParseAddrPort(server)
	if err != nil {
		return "no address"
	}
	family, to := syscall.AF_INET6, syscall.Sockaddr(&syscall.SockaddrInet6{Addr: at.Addr().As16(), Port: int(at.Port())})
	if at.Addr().Is4() {
		family, to = syscall.AF_INET, &syscall.SockaddrInet4{Addr: at.Addr().As4(), Port: int(at.Port())}
	}
	socket, err := syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err.Error()
	}
	defer syscall.Close(socket)
	if err = syscall.SetsockoptTimeval(socket, syscall.SOL_SOCKET, syscall.SO_SNDTIMEO, &syscall.Timeval{Sec: tryTimeout}); err == nil {
		err = syscall.Connect(socket, to)
	}
	if err == nil {
		return Open
	}
	switch errno := errnoOf(err); errno {
	case syscall.EINPROGRESS, syscall.EAGAIN, syscall.ETIMEDOUT:
		return NoAnswer
	default:
		return errno.Error()
	}
}
