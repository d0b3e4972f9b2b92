// Package control lets other processes of the same user end or signal a command: by a
// socket in the command's directory, which only that user can open.
//
// The one rule: the kernel identifies the sender (SO_PEERCRED, unix(7)), and requests
// are small. A killed process leaves a dead socket, which is removed with its directory.
package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"belljar/sandbox"
)

const (
	// SocketName is the socket's name in its directory.
	SocketName = "control.sock"

	maxMessage = 4 << 10
	atOnce     = 8               // requests
	patience   = 5 * time.Second // for a request, and for its answer
)

// Request asks to end a command or, if it has a signal, to send it.
type Request struct {
	Signal sandbox.Signal `json:"signal,omitempty"`
	Kill   bool           `json:"kill,omitempty"` // ends it at once
}

type answer struct {
	Error *sandbox.Error `json:"error,omitempty"`
}

// Listener answers requests.
type Listener struct {
	socket *net.UnixListener
	name   string
	handle func(context.Context, Request) error
	ctx    context.Context // until Close
	cancel context.CancelFunc
	slots  chan struct{}
	all    sync.WaitGroup
}

// Listen creates the socket in dir, and answers requests with handle, until Close.
func Listen(dir string, handle func(context.Context, Request) error) (*Listener, error) {
	socket, err := Bind(dir)
	if err != nil {
		return nil, err
	}
	return Serve(socket, dir, handle), nil
}

// Bind creates the socket in dir. Requests wait there for Serve.
func Bind(dir string) (socket *net.UnixListener, err error) {
	err = inDir(dir, func(address *net.UnixAddr) (err error) {
		socket, err = net.ListenUnix("unix", address)
		return err
	})
	if err != nil {
		return nil, err
	}
	socket.SetUnlinkOnClose(false) // its short name is valid only now
	name := filepath.Join(dir, SocketName)
	if err := os.Chmod(name, 0o600); err != nil {
		return nil, errors.Join(err, socket.Close(), os.Remove(name))
	}
	return socket, nil
}

// Serve is Listen with a socket that is bound already, in a directory that may have been
// renamed since.
func Serve(socket *net.UnixListener, dir string, handle func(context.Context, Request) error) *Listener {
	l := &Listener{socket: socket, name: filepath.Join(dir, SocketName), handle: handle, slots: make(chan struct{}, atOnce)}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.all.Go(l.accept)
	return l
}

// Close removes the socket, and waits until no request is handled any more.
func (l *Listener) Close() {
	l.cancel()
	l.socket.Close()
	os.Remove(l.name)
	l.all.Wait()
}

func (l *Listener) accept() {
	for {
		conn, err := l.socket.AcceptUnix()
		if l.ctx.Err() != nil {
			if err == nil {
				conn.Close()
			}
			return
		}
		if err != nil { // such as too many open files
			select {
			case <-time.After(patience / 50):
			case <-l.ctx.Done():
			}
			continue
		}
		l.slots <- struct{}{}
		l.all.Go(func() {
			defer func() { <-l.slots }()
			l.serve(conn)
		})
	}
}

func (l *Listener) serve(conn *net.UnixConn) {
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	defer context.AfterFunc(l.ctx, func() { conn.SetReadDeadline(time.Unix(1, 0)) })() // requests already received are answered
	var a answer
	err := sameUser(conn)
	var r Request
	if err == nil {
		err = read(conn, &r)
	}
	if err == nil {
		err = l.handle(l.ctx, r)
	}
	a.Error = sandbox.ErrorOf(err)
	json.NewEncoder(conn).Encode(a) // a client that does not wait has gone
}

// read reads one message, which ends with its line.
func read(conn io.Reader, message any) error {
	d := json.NewDecoder(io.LimitReader(conn, maxMessage))
	d.DisallowUnknownFields()
	if err := d.Decode(message); err != nil {
		return fmt.Errorf("reading a message of at most %d bytes: %w", maxMessage, err)
	}
	return nil
}

// sameUser refuses connections from other users.
func sameUser(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	failed := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err := errors.Join(failed, err); err != nil {
		return err
	}
	if int(peer.Uid) != os.Geteuid() && peer.Uid != 0 {
		return &sandbox.Error{Cause: sandbox.CauseDenied, Message: "the command belongs to another user"}
	}
	return nil
}

// ErrGone is the error for a command that no process runs any more.
var ErrGone = errors.New("no process answers")

// Send sends a request to the process that runs the command of that directory.
func Send(ctx context.Context, dir string, r Request) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var conn net.Conn
	err := inDir(dir, func(address *net.UnixAddr) (err error) {
		conn, err = new(net.Dialer).DialContext(ctx, "unix", address.Name)
		return err
	})
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ECONNREFUSED) {
		return ErrGone
	}
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	if err := json.NewEncoder(conn).Encode(r); err != nil {
		return fmt.Errorf("asking the process that runs the command: %w", err)
	}
	var a answer
	err = read(conn, &a)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, unix.ECONNRESET):
		return ErrGone
	case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &sandbox.Error{Cause: sandbox.CauseEngine, Message: "the process that runs the command does not answer", Hint: "if it is stopped, it does as asked once it goes on"}
	case err != nil:
		return err
	}
	if a.Error != nil {
		return a.Error
	}
	return nil
}

// inDir calls do with a short address of the socket, for any length of dir's
// name: an address has room for 108 bytes (unix(7)).
func inDir(dir string, do func(*net.UnixAddr) error) error {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: dir, Err: err}
	}
	defer unix.Close(fd)
	return do(&net.UnixAddr{Net: "unix", Name: fmt.Sprintf("/proc/self/fd/%d/%s", fd, SocketName)})
}
