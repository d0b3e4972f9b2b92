package docker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"time"

	"belljar/sandbox/internal/boxlink"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
)

// helloTimeout is how long an init may take to answer for the first time.
const helloTimeout = 10 * time.Second

// link is this process's connection to a container's init, by the Docker API. Its Yield releases the lock of a container
// that outlives this process.
type link = boxlink.Shared[initStream]

// attachBuffer is about what a socket holds: the connection's own reader takes a frame apart
// in 4 KiB.
const attachBuffer = 128 << 10

// attachInit attaches to the init of a container, which may not have been started yet.
func (e *Engine) attachInit(ctx context.Context, id string) (*link, error) {
	conn, err := hijack(ctx, func(ctx context.Context) (types.HijackedResponse, error) {
		return e.client.ContainerAttach(ctx, id, container.AttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
	})
	if err != nil {
		return nil, fmt.Errorf("attaching to the container's init: %w", err)
	}
	return &link{Conn: initStream{conn, &attachReader{from: bufio.NewReaderSize(conn.Reader, attachBuffer)}}}, nil
}

// initStream is the init's stdin and stdout.
type initStream struct {
	conn types.HijackedResponse
	*attachReader
}

// Write implements io.Writer: to its stdin.
func (s initStream) Write(p []byte) (int, error) { return s.conn.Conn.Write(p) }

// Close implements io.Closer.
func (s initStream) Close() error { return s.conn.Conn.Close() }

// greet waits for the init's first answer.
func greet(ctx context.Context, l *link) error {
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	err := l.Greet(ctx)
	if err == nil {
		return nil
	}
	if said := l.Conn.said(); said != "" {
		err = errors.New(said)
	}
	return fmt.Errorf("waiting for the container's init: %w", err)
}
