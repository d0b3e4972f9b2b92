package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

// The channels of an attachment: the first byte of each message.
const (
	stdin, stdout, stderr, failure = 0, 1, 2, 3
)

// Stream is an attachment to a container's main process. Reading gets its stdout, writing is to its stdin.
type Stream struct {
	conn *websocket.Conn
	ctx  context.Context
	end  context.CancelFunc
	rest io.Reader // of the present message
	ping sync.WaitGroup
	came atomic.Uint64 // counts what was read

	mu   sync.Mutex
	said []byte // on stderr
	fail error  // as the kubelet says it
}

// protocol is the version whose messages have a channel each.
const protocol = "v5.channel.k8s.io"

// maxSaid bounds what is kept of stderr.
const maxSaid = 4096

// Attach attaches to a container that runs. ctx is for the connecting only.
func (c *Client) Attach(ctx context.Context, namespace, pod, container string) (*Stream, error) {
	query := url.Values{"container": {container}, "stdin": {"true"}, "stdout": {"true"}, "stderr": {"true"}, "tty": {"false"}}
	header := http.Header{}
	if err := c.authorize(ctx, header); err != nil {
		return nil, err
	}
	conn, answer, err := websocket.Dial(ctx, c.url(PodPath(namespace, pod)+"/attach", query), &websocket.DialOptions{ //nolint:bodyclose // the library closes it
		HTTPClient: c.conns.now().sockets, HTTPHeader: header, Subprotocols: []string{protocol, "v4.channel.k8s.io"},
	})
	if err != nil {
		if answer != nil && answer.StatusCode >= 300 && answer.Body != nil {
			return nil, fmt.Errorf("attaching to the pod: %w", c.refusal(answer))
		}
		return nil, fmt.Errorf("attaching to the pod: %w", err)
	}
	conn.SetReadLimit(-1) // messages are read in parts
	s := &Stream{conn: conn}
	s.ctx, s.end = context.WithCancel(context.WithoutCancel(ctx))
	s.ping.Go(func() { s.keepAlive(c.conns.lively) })
	return s, nil
}

// keepAlive finds out that the API server is gone where nothing else would tell: it does not answer twice in a row, and nothing comes. One
// answer may miss where this process stood still, or much is on its way. It answers also where the pod's node is gone.
func (s *Stream) keepAlive(lively time.Duration) {
	tick := time.NewTicker(lively)
	defer tick.Stop()
	for missed := 0; missed < 2; {
		select {
		case <-tick.C:
		case <-s.ctx.Done():
			return
		}
		ctx, cancel := context.WithTimeout(s.ctx, lively)
		before := s.came.Load()
		if missed++; s.conn.Ping(ctx) == nil || s.came.Load() != before {
			missed = 0
		}
		cancel()
	}
	s.end()
	s.conn.CloseNow()
}

// Read implements io.Reader.
func (s *Stream) Read(p []byte) (int, error) {
	for {
		if s.rest != nil {
			n, err := s.rest.Read(p)
			s.came.Add(1)
			if errors.Is(err, io.EOF) {
				s.rest, err = nil, nil
			}
			if n > 0 || err != nil {
				return n, err
			}
			continue
		}
		if err := s.next(); err != nil {
			return 0, err
		}
	}
}

// next begins the next message, and takes it if it is not of stdout.
func (s *Stream) next() error {
	_, from, err := s.conn.Reader(s.ctx)
	if err != nil {
		if s.ctx.Err() != nil || websocket.CloseStatus(err) != -1 {
			return io.EOF
		}
		return err
	}
	var channel [1]byte
	if _, err := io.ReadFull(from, channel[:]); err != nil {
		return nil // an empty one says that the channel is open
	}
	switch channel[0] {
	case stdout:
		s.rest = from
		return nil
	case stderr, failure:
		text, err := io.ReadAll(io.LimitReader(from, maxSaid))
		s.take(channel[0], text)
		if err == nil {
			_, err = io.Copy(io.Discard, from)
		}
		return err
	}
	_, err = io.Copy(io.Discard, from)
	return err
}

func (s *Stream) take(channel byte, text []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if channel == stderr {
		s.said = append(s.said, text[:min(len(text), maxSaid-len(s.said))]...)
		return
	}
	var status struct{ Status, Message string }
	if json.Unmarshal(text, &status) == nil && status.Status == "Failure" {
		s.fail = errors.New(status.Message)
	}
}

// Said is what came on stderr so far.
func (s *Stream) Said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.said)
}

// Failed is why the attachment ended, as the kubelet says it, or nil.
func (s *Stream) Failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fail
}

// perMessage is how much is written at once: servers have limits of 32 KiB and more.
const perMessage = 31 << 10

// Write implements io.Writer.
func (s *Stream) Write(p []byte) (n int, err error) {
	var buffer [1 + perMessage]byte
	for len(p) > 0 {
		size := copy(buffer[1:], p)
		buffer[0] = stdin
		if err := s.conn.Write(s.ctx, websocket.MessageBinary, buffer[:1+size]); err != nil {
			return n, err
		}
		p, n = p[size:], n+size
	}
	return n, nil
}

// Close ends the attachment at once.
func (s *Stream) Close() error {
	s.end()
	s.conn.CloseNow()
	s.ping.Wait()
	return nil
}
