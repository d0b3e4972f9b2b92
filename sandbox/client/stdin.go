package client

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// stdinPart is how much of stdin is sent at once.
const stdinPart = 256 << 10

// stdin sends a command's input. Each part has an offset, with which the sidecar
// knows what it has already.
type stdin struct {
	from io.Reader
	done chan struct{}
}

// sendStdin begins to, if the command has any.
func (x *running) sendStdin() *stdin {
	if x.command.Stdin == nil {
		return nil
	}
	s := &stdin{from: x.command.Stdin, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		part := make([]byte, stdinPart)
		for offset := int64(0); ; {
			n, err := s.from.Read(part)
			offset += int64(n)
			if x.live.Err() != nil || x.typed(part[:n], offset-int64(n), err != nil) != nil || err != nil {
				return // a command that ended reads no more; any error ends the input
			}
		}
	}()
	return s
}

// typed sends one part, at the end with eof.
func (x *running) typed(part []byte, offset int64, eof bool) error {
	if len(part) == 0 && !eof {
		return nil
	}
	query := url.Values{"offset": {strconv.FormatInt(offset, 10)}}
	if eof {
		query.Set("eof", "1")
	}
	return x.send(x.live, request{
		method: http.MethodPost, path: execution(x.id) + "/stdin", query: query,
		header: http.Header{"Content-Type": {"application/octet-stream"}}, body: bytes.Clone(part),
	})
}

// stop ends it after the command's end. A blocked Read can be ended only if it supports
// a deadline; any other is abandoned.
func (s *stdin) stop() {
	if s == nil {
		return
	}
	deadline, ok := s.from.(interface{ SetReadDeadline(time.Time) error })
	if ok && deadline.SetReadDeadline(time.Now()) == nil {
		<-s.done
		deadline.SetReadDeadline(time.Time{})
	}
}
