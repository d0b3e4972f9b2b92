package listen

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"belljar/internal/ownfile"
	"belljar/sandbox"

	"golang.org/x/sys/unix"
)

// A socket has another name until it listens, so that who sees its own can connect to it.
// A server killed in between leaves that name to the next one, which removes it.
const early = "~"

// maxPath is the longest path of a unix socket (unix(7)), with room for early.
const maxPath = 107 - len(early)

// openUnix listens on a socket that only this user can connect to. Anyone who can replace
// it would get the commands of callers, so no one else may write its directory.
func openUnix(ctx context.Context, name string) (net.Listener, error) {
	if len(name) > maxPath {
		return nil, sandbox.Invalid("choose a shorter path", "serve.listen: the socket's path has %d bytes, over %d", len(name), maxPath)
	}
	dir := filepath.Dir(name)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, &sandbox.Error{Cause: sandbox.CauseEngine, Message: "making the socket's directory", Hint: "make it, with mode 0700, or set serve.listen to another", Err: err}
	}
	if err := ownfile.CheckDirOf("the socket's directory", dir, "set serve.listen to a socket in another"); err != nil {
		return nil, err
	}
	// Of two servers that start at once and find a stale socket, only one replaces it.
	lock, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return nil, fmt.Errorf("locking %q: %w", dir, err)
	}
	if err := errors.Join(removeStale(ctx, name), removeStale(ctx, name+early)); err != nil {
		return nil, err
	}
	opened, err := private.Listen(ctx, "unix", name+early)
	if err != nil {
		return nil, fmt.Errorf("serve.listen: %w", err)
	}
	if err := errors.Join(os.Chmod(name+early, 0o600), os.Rename(name+early, name)); err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	listener := opened.(*net.UnixListener)
	listener.SetUnlinkOnClose(false) // it knows the other name
	return &socket{UnixListener: listener, name: name}, nil
}

// socket is a listener that was renamed.
type socket struct {
	*net.UnixListener
	name   string
	remove sync.Once
}

// Addr implements net.Listener.
func (s *socket) Addr() net.Addr { return &net.UnixAddr{Name: s.name, Net: "unix"} }

// Close implements net.Listener. The name goes first: what has it answers.
func (s *socket) Close() error {
	s.remove.Do(func() { _ = os.Remove(s.name) }) // someone may have removed it
	return s.UnixListener.Close()
}

// private gives the socket its mode before it has a name, so that no one else can connect
// to it at any time. Only Linux can do that.
var private = net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) { _ = unix.Fchmod(int(fd), 0o600) })
}}

// removeStale removes a socket that a killed server left: one on which no one answers.
func removeStale(ctx context.Context, name string) error {
	about, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case about.Mode().Type() != fs.ModeSocket:
		return sandbox.Invalid("remove it, or set serve.listen to another path", "serve.listen: %q exists and is not a socket", name)
	}
	conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "unix", name)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return os.Remove(name)
	}
	if err == nil {
		conn.Close()
	}
	return &sandbox.Error{Cause: sandbox.CauseInvalid, Message: fmt.Sprintf("serve.listen: another server has the socket %q", name), Hint: "stop it, or set serve.listen to another path", Err: err}
}
